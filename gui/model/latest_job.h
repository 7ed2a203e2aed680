// Work on a pool thread, of which only the newest result counts.
#pragma once

#include <QObject>

#include <atomic>
#include <functional>
#include <memory>

namespace lockstep::gui {

// Returns whether long work must end early. `cancel` may be null.
inline bool Stopped(const std::atomic<bool>* cancel) {
  return cancel != nullptr && cancel->load(std::memory_order_relaxed);
}

// A member of the object that receives the result, created and used on that object's thread.
class LatestJob {
 public:
  using Finish = std::function<void()>;
  LatestJob() = default;
  ~LatestJob() { Cancel(); }
  LatestJob(const LatestJob&) = delete;
  LatestJob& operator=(const LatestJob&) = delete;

  // Runs work(cancel) on a pool thread, then passes its result to the thread of `context`, unless Start or Cancel was
  // called in between. `work` uses only what it captured by value. Nothing runs if `context` is destroyed first.
  void Start(QObject* context, std::function<Finish(const std::atomic<bool>& cancel)> work);
  // Does not wait.
  void Cancel();
  bool busy() const { return current_ != nullptr; }

 private:
  struct Job;
  std::shared_ptr<Job> current_;
};

}  // namespace lockstep::gui
