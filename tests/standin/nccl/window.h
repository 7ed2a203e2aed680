// A window: every member's part of it, known to all members.
#ifndef LOCKSTEP_TESTS_STANDIN_NCCL_WINDOW_H_
#define LOCKSTEP_TESTS_STANDIN_NCCL_WINDOW_H_

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace standin {

struct WindowPart {
  void* address;
  size_t size;
  int pid;
};

}  // namespace standin

struct ncclWindow_vidmem {
  ncclComm* comm;
  void* pointer;
  size_t size;
  void* registration;
  std::vector<standin::WindowPart> parts;  // by rank
};

#endif  // LOCKSTEP_TESTS_STANDIN_NCCL_WINDOW_H_
