// A window with a document of a small job and its own session file, for tests.
#pragma once

#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QTemporaryDir>
#include <QTest>

#include <functional>
#include <memory>

#include "analyzer/testing/job.h"
#include "gui/app/main_window.h"

namespace lockstep::gui {

// Runs the event loop until `done`, for at most a minute.
inline bool Until(const std::function<bool()>& done) {
  QElapsedTimer timer;
  timer.start();
  while (!done() && timer.elapsed() < 60'000)
    QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents, 20);
  return done();
}

inline DocumentPtr HungJob(int dp = 2) {
  lockstep::testing::Job job(2, 2, dp, 6);
  job.ranks[5].host_fault_at = job.Find(5, "dp", 4);
  job.ranks[5].host_fault = lockstep::testing::HostFault::kStall;
  auto document = Document::FromBundle(job.Run());
  return document.ok() ? *document : nullptr;
}

// A hung job: rank 21 is stuck before a pipeline call that another stage waits for.
inline DocumentPtr HungPipeline() {
  lockstep::testing::Job job(4, 4, 4, 6);
  job.ranks[21].host_fault_at = job.Find(21, "pp", 4, 1);
  job.ranks[21].host_fault = lockstep::testing::HostFault::kStall;
  auto document = Document::FromBundle(job.Run());
  return document.ok() ? *document : nullptr;
}

class WindowTest : public ::testing::Test {
 protected:
  std::unique_ptr<MainWindow> MakeWindow() {
    WindowOptions options;
    options.settings = folder_.filePath("viewer.ini");
    options.size = {1680, 1000};  // with all panes
    auto window = std::make_unique<MainWindow>(options);
    window->show();
    window->activateWindow();
    // Only an active window receives keys.
    EXPECT_TRUE(QTest::qWaitForWindowExposed(window.get()));
    return window;
  }
  std::unique_ptr<MainWindow> MakeOpen() {
    auto window = MakeWindow();
    document_ = HungJob();
    EXPECT_NE(document_, nullptr);
    window->ShowDocument(document_);
    EXPECT_TRUE(Until([&] { return window->Idle(); }));
    return window;
  }
  static void Key(MainWindow* window, const QString& keys) {
    // A dialog that has just closed may still be the active window.
    if (!window->isActiveWindow()) {
      window->activateWindow();
      EXPECT_TRUE(QTest::qWaitForWindowActive(window));
    }
    const QKeySequence sequence = QKeySequence::fromString(keys, QKeySequence::PortableText);
    QTest::keySequence(window, sequence);
    QCoreApplication::processEvents();
  }

  QTemporaryDir folder_;
  DocumentPtr document_;
};

}  // namespace lockstep::gui
