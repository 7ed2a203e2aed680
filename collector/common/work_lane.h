// Threads that run tasks, and pass follow-up work back to their owner's thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "analyzer/util/unique_fd.h"

namespace lockstep {

// Follow-up work of finished tasks, for the owner's thread. fd() is readable while there is some.
class DoneQueue {
 public:
  int fd() const { return event_.get(); }
  void Push(std::function<void(int64_t)> done);  // called by any thread
  void Run(int64_t now);                         // called by the owner; passes `now` to the functions

 private:
  EventFd event_;
  std::mutex mutex_;
  std::deque<std::function<void(int64_t)>> done_;
};

// Tasks start in order. With one thread, they run one after another.
class WorkLane {
 public:
  explicit WorkLane(DoneQueue* done, int threads = 1);
  // Returns after the current tasks; drops the waiting ones.
  ~WorkLane();
  // Urgent tasks overtake others.
  void Push(std::function<void()> run, std::function<void(int64_t)> done, bool urgent = false);

 private:
  struct Task {
    std::function<void()> run;
    std::function<void(int64_t)> done;
  };

  void Work();

  DoneQueue* const done_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<Task> urgent_, tasks_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep
