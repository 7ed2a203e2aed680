#include "gui/model/work_pool.h"

#include <gtest/gtest.h>

#include <QImage>
#include <QPainter>
#include <QThread>
#include <QThreadPool>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "gui/model/latest_job.h"

namespace lockstep::gui {
namespace {

// QPainter waits for parts of its work in Qt's global pool, so our work there would block the window.
TEST(WorkPoolTest, PaintingDoesNotWaitForTheWorkers) {
  std::mutex mutex;
  std::condition_variable changed;
  bool painted = false;
  int running = 0, gave_up = 0;
  const int count = std::max(QThread::idealThreadCount(), 1) + 1;  // one more than can run at once
  QObject context;
  std::vector<std::unique_ptr<LatestJob>> jobs;
  for (int i = 0; i < count; ++i) {
    jobs.push_back(std::make_unique<LatestJob>());
    jobs.back()->Start(&context, [&](const std::atomic<bool>&) -> LatestJob::Finish {
      std::unique_lock lock(mutex);
      ++running;
      changed.notify_all();
      if (!changed.wait_for(lock, std::chrono::seconds(30), [&] { return painted; })) ++gave_up;
      return nullptr;
    });
  }
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(30), [&] { return running >= count - 1; }));
  }
  QImage image(1600, 900, QImage::Format_ARGB32_Premultiplied);
  image.fill(Qt::white);
  {
    QPainter painter(&image);
    QLinearGradient gradient(0, 0, 1600, 900);
    gradient.setColorAt(0, QColor(255, 0, 0, 128));
    gradient.setColorAt(1, QColor(0, 0, 255, 128));
    painter.fillRect(image.rect(), gradient);
  }
  {
    const std::scoped_lock lock(mutex);
    painted = true;
    changed.notify_all();
  }
  WorkPool().waitForDone();
  EXPECT_EQ(gave_up, 0);
  EXPECT_NE(image.pixelColor(10, 10), QColor(Qt::white));
}

}  // namespace
}  // namespace lockstep::gui
