// A thread that runs tasks one after another, and passes follow-up work back to its owner's thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "analyzer/util/unique_fd.h"

namespace lockstep {

// Follow-up work of finished tasks, for the owner's thread. fd() is readable while there is some.
class DoneQueue {
 public:
  int fd() const { return event_.get(); }
  void Push(std::function<void(int64_t)> done);  // called by any thread
  void Run(int64_t now);                         // called by the owner

 private:
  EventFd event_;
  std::mutex mutex_;
  std::deque<std::function<void(int64_t)>> done_;
};

class WorkLane {
 public:
  explicit WorkLane(DoneQueue* done);
  // Returns after the current task; drops the waiting ones.
  ~WorkLane();
  void Push(std::function<void()> run, std::function<void(int64_t)> done);

 private:
  void Work();
  DoneQueue* const done_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::pair<std::function<void()>, std::function<void(int64_t)>>> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep
