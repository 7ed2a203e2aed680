// Runs work on a pool thread and keeps only the newest result.
#pragma once

#include <QObject>

#include <atomic>
#include <functional>
#include <memory>

namespace lockstep::gui {

// Returns whether long work must end early. `cancel` may be null.
inline bool Cancelled(const std::atomic<bool>* cancel) {
  return cancel != nullptr && cancel->load(std::memory_order_relaxed);
}

// Must be a member of the `context` object, and be created and used on that object's thread.
class LatestJob {
 public:
  using Finish = std::function<void()>;
  LatestJob() = default;
  ~LatestJob() { Cancel(); }
  LatestJob(const LatestJob&) = delete;
  LatestJob& operator=(const LatestJob&) = delete;

  // Runs work(cancel) on a pool thread, then the function that it returned on the thread of `context`, unless Start or
  // Cancel is called in between. `work` must capture by value. If `context` is destroyed, the result is dropped.
  void Start(QObject* context, std::function<Finish(const std::atomic<bool>& cancel)> work);
  // Does not wait for the work to end.
  void Cancel();
  bool busy() const { return current_ != nullptr; }

 private:
  struct Job;
  std::shared_ptr<Job> current_;
};

}  // namespace lockstep::gui
