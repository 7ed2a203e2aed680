// Restricts system calls, as a container does.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace lockstep {

// Executes the program, in which the system calls `numbers` ("1,2") fail with `error`. Returns only if it cannot: 77 if
// filters are not permitted.
inline int Deny(int error, char* numbers, char** program) {
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (char* word = std::strtok(numbers, ","); word != nullptr; word = std::strtok(nullptr, ",")) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(std::atoi(word)), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog rules{static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &rules) != 0) return 77;
  execv(program[0], program);
  return 3;
}

}  // namespace lockstep
