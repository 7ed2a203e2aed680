#include "gui/model/latest.h"

#include <QThreadPool>

#include <condition_variable>
#include <mutex>
#include <utility>

namespace lockstep::gui {

struct Latest::Running {
  std::mutex mutex;
  std::condition_variable fewer;
  int jobs = 0;
};

Latest::Latest() : running_(std::make_shared<Running>()) {}

Latest::~Latest() {
  Cancel();
  std::unique_lock<std::mutex> lock(running_->mutex);
  running_->fewer.wait(lock, [this] { return running_->jobs == 0; });
}

void Latest::Run(Job job) {
  Cancel();
  current_ = std::make_shared<std::atomic<bool>>(false);
  {
    std::lock_guard<std::mutex> lock(running_->mutex);
    ++running_->jobs;
  }
  QThreadPool::globalInstance()->start([this, running = running_, cancel = current_, job = std::move(job)]() mutable {
    if (!cancel->load(std::memory_order_relaxed)) {
      Result result = job(*cancel);
      job = nullptr;   // what it holds goes before the owner may
      // The owner waits for this thread before it goes, and Qt drops what is queued for it then.
      QMetaObject::invokeMethod(
          &context_,
          [this, cancel, result = std::move(result)] {
            if (current_ != cancel) return;
            current_.reset();
            if (result) result();
          },
          Qt::QueuedConnection);
    }
    std::lock_guard<std::mutex> lock(running->mutex);
    if (--running->jobs == 0) running->fewer.notify_all();
  });
}

void Latest::Cancel() {
  if (current_ != nullptr) current_->store(true, std::memory_order_relaxed);
  current_.reset();
}

}  // namespace lockstep::gui
