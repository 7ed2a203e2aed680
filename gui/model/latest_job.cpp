#include "gui/model/latest_job.h"

#include <QMetaObject>

#include <mutex>
#include <utility>

#include "gui/model/work_pool.h"

namespace lockstep::gui {

struct LatestJob::Job {
  std::atomic<bool> cancel = false;
  std::mutex mutex;  // held while the result is posted, so that the context still exists then
  QObject* context = nullptr;
};

void LatestJob::Start(QObject* context, std::function<Finish(const std::atomic<bool>&)> work) {
  Cancel();
  auto job = std::make_shared<Job>();
  job->context = context;
  current_ = job;
  WorkPool().start([this, job, work = std::move(work)] {
    Finish finish = work(job->cancel);
    const std::scoped_lock lock(job->mutex);
    if (job->cancel) return;
    // Runs on the thread that calls Cancel. If the flag is not set here, `this` still exists.
    auto deliver = [this, job, finish = std::move(finish)] {
      if (job->cancel) return;
      current_.reset();
      if (finish) finish();
    };
    QMetaObject::invokeMethod(job->context, std::move(deliver), Qt::QueuedConnection);
  });
}

void LatestJob::Cancel() {
  if (current_ == nullptr) return;
  const std::shared_ptr<Job> job = std::move(current_);
  const std::scoped_lock lock(job->mutex);
  job->cancel = true;
}

}  // namespace lockstep::gui
