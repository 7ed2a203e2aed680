#include "collector/host/reading_child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "analyzer/util/clock.h"

namespace lockstep {

ReadingChild::ReadingChild(const std::function<void(int to)>& work) {
  UniqueFd to;
  if (!MakePipe(&from_, &to)) return;
  pid_ = fork();
  if (pid_ != 0) return;
  from_.reset();
  work(to.get());
  _exit(0);
}

ReadingChild::~ReadingChild() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  for (int i = 0; i < 20 && waitpid(pid_, nullptr, WNOHANG) == 0; ++i) poll(nullptr, 0, 5);
}

std::string ReadingChild::Take(int64_t deadline_ns, size_t most) {
  std::string bytes;
  while (pid_ > 0 && bytes.size() < most) {
    const int64_t left = deadline_ns - MonotonicNs();
    pollfd ready = {from_.get(), POLLIN, 0};
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left / 1'000'000) + 1) <= 0) break;
    char buffer[65536];
    const ssize_t got = read(from_.get(), buffer, std::min(sizeof buffer, most - bytes.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    bytes.append(buffer, static_cast<size_t>(got));
  }
  return bytes;
}

}  // namespace lockstep
