#include "collector/common/work_lane.h"

#include <signal.h>

#include <utility>

namespace lockstep {

void DoneQueue::Push(std::function<void(int64_t)> done) {
  {
    const std::lock_guard lock(mutex_);
    done_.push_back(std::move(done));
  }
  event_.Signal();
}

void DoneQueue::Run(int64_t now) {
  event_.Drain();
  std::deque<std::function<void(int64_t)>> done;
  {
    const std::lock_guard lock(mutex_);
    done.swap(done_);
  }
  for (const auto& one : done) one(now);
}

WorkLane::WorkLane(DoneQueue* done, int threads) : done_(done) {
  // The lane's threads must not receive signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

WorkLane::~WorkLane() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkLane::Push(std::function<void()> run, std::function<void(int64_t)> done, bool urgent) {
  {
    const std::lock_guard lock(mutex_);
    (urgent ? urgent_ : tasks_).push_back({std::move(run), std::move(done)});
  }
  more_.notify_one();
}

void WorkLane::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [this] { return stop_ || !urgent_.empty() || !tasks_.empty(); });
    if (stop_) return;
    std::deque<Task>& next = urgent_.empty() ? tasks_ : urgent_;
    auto [run, done] = std::move(next.front());
    next.pop_front();
    lock.unlock();
    run();
    run = nullptr;  // the function's captures are freed here, not on the owner's thread
    done_->Push(std::move(done));
    lock.lock();
  }
}

}  // namespace lockstep
