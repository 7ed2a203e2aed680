// Work on a pool thread; only the newest result counts.
#ifndef LOCKSTEP_GUI_MODEL_LATEST_JOB_H_
#define LOCKSTEP_GUI_MODEL_LATEST_JOB_H_

#include <QObject>

#include <atomic>
#include <functional>
#include <memory>

namespace lockstep::gui {

// A member of the object that it reports to, made and used on that object's thread.
class LatestJob {
 public:
  using Finish = std::function<void()>;
  LatestJob() = default;
  ~LatestJob() { Cancel(); }
  LatestJob(const LatestJob&) = delete;
  LatestJob& operator=(const LatestJob&) = delete;

  // Runs work(cancel) on a pool thread, then passes its result to the thread of `context`, unless Start or Cancel came
  // in between. `work` uses only what it captured by value. Nothing runs if `context` dies first.
  void Start(QObject* context, std::function<Finish(const std::atomic<bool>& cancel)> work);
  // Does not wait.
  void Cancel();
  bool busy() const { return current_ != nullptr; }

 private:
  struct Job;
  std::shared_ptr<Job> current_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_LATEST_JOB_H_
