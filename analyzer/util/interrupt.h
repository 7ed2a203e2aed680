// Ctrl-C ends the program at once with exit status 130 and leaves no partial file.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace lockstep {

// One object for each program, created before any other thread and kept until the program ends. SIGINT, SIGTERM and
// SIGHUP then end the program with 128 + their number, unless they were ignored before (nohup).
class InterruptWatch {
 public:
  InterruptWatch() {
    sigset_t watched;
    sigemptyset(&watched);
    for (int number : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action;
      if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&watched, number);
    }
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &watched, &before);
    try {
      std::thread([this, watched] {
        int number = 0;
        if (sigwait(&watched, &number) != 0) return;
        const std::lock_guard lock(writing_);
        if (!unfinished_.empty()) unlink(unfinished_.c_str());
        if (isatty(STDERR_FILENO) != 0 && write(STDERR_FILENO, "\n", 1) < 0) {
          // The terminal no longer exists.
        }
        _exit(128 + number);
      }).detach();
    } catch (const std::system_error&) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);  // there is no thread, so the signals end the program as usual
    }
  }

  // Delays signals while it is held, for the short time it takes to put a finished file on disk.
  std::mutex& writing() { return writing_; }
  // Registers a file that is slow to write, so that a signal removes it; empty for none. The caller holds
  // writing().
  void Unfinished(std::string path) { unfinished_ = std::move(path); }

 private:
  std::mutex writing_;
  std::string unfinished_;
};

}  // namespace lockstep
