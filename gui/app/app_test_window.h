// A window over a document of a small job, with its own session file, for tests.
#ifndef LOCKSTEP_GUI_APP_APP_TEST_WINDOW_H_
#define LOCKSTEP_GUI_APP_APP_TEST_WINDOW_H_

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

// Runs the event loop until `done` or for a minute.
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

class WindowTest : public ::testing::Test {
 protected:
  std::unique_ptr<MainWindow> MakeWindow() {
    WindowOptions options;
    options.settings = folder_.filePath("viewer.ini");
    auto window = std::make_unique<MainWindow>(options);
    window->show();
    window->activateWindow();
    // Keys go to a window that is active.
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

#endif  // LOCKSTEP_GUI_APP_APP_TEST_WINDOW_H_
