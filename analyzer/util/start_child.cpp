#include "analyzer/util/start_child.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace lockstep {

absl::StatusOr<pid_t> StartChild(const std::vector<std::string>& argv, const posix_spawn_file_actions_t& actions) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return absl::UnavailableError(absl::StrCat("cannot start ", argv[0], ": ", strerror(error)));
  return pid;
}

}  // namespace lockstep
