// Work on another thread for one owner: the newest order counts.
#ifndef LOCKSTEP_GUI_MODEL_LATEST_H_
#define LOCKSTEP_GUI_MODEL_LATEST_H_

#include <QObject>

#include <atomic>
#include <functional>
#include <memory>

namespace lockstep::gui {

// Lives on its owner's thread, which runs events. A new job cancels the one before it, whose result is then dropped.
class Latest {
 public:
  // What is left to do on the owner's thread; may be empty.
  using Result = std::function<void()>;
  // Runs on a thread of the pool; returns soon after `cancel` turns true, with anything.
  using Job = std::function<Result(const std::atomic<bool>& cancel)>;

  Latest();
  ~Latest();   // cancels and waits
  Latest(const Latest&) = delete;
  Latest& operator=(const Latest&) = delete;

  void Run(Job job);
  void Cancel();
  // No job is under way, and no result waits to be taken over.
  bool idle() const { return current_ == nullptr; }

 private:
  struct Running;
  QObject context_;
  std::shared_ptr<std::atomic<bool>> current_;   // its cancel flag; null: none
  std::shared_ptr<Running> running_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_LATEST_H_
