// A window with a document of a small job and its own session file, for tests.
#pragma once

#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QTemporaryDir>
#include <QTest>

#include <memory>

#include "gui/app/main_window.h"
#include "gui/testing/samples.h"

namespace lockstep::gui {

using testing::Until;

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
    document_ = testing::Hang();
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
