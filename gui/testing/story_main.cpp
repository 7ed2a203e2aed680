// viewer_story PATH..: for each path the viewer's window, given nothing else, opens it, the key for the next anomaly is pressed,
// and what is then selected and said is printed, one JSON object a line. Exit status 1 where something could not be opened.
#include <QApplication>
#include <QElapsedTimer>
#include <QTest>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "gui/app/describe.h"
#include "gui/app/main_window.h"
#include "gui/app/session.h"

namespace {

bool Until(const std::function<bool()>& done) {
  QElapsedTimer timer;
  timer.start();
  while (!done() && timer.elapsed() < 120'000) QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents, 20);
  return done();
}

}  // namespace

int main(int argc, char** argv) {
  setenv("QT_QPA_PLATFORM", "offscreen", 0);
  int qt_argc = 1;
  QApplication application(qt_argc, argv);
  lockstep::gui::WindowOptions options;
  options.settings = lockstep::gui::Session::kNothing;
  options.restore = false;
  lockstep::gui::MainWindow window(options);
  window.show();
  window.activateWindow();
  bool all = true;
  for (int i = 1; i < argc; ++i) {
    window.Open({argv[i]});
    if (!Until([&] { return !window.loading(); }) || window.strip()->error() || !Until([&] { return window.Idle(); })) {
      fprintf(stderr, "%s: %s\n", argv[i], qPrintable(window.strip()->text()));
      all = false;
      puts("{}");
      continue;
    }
    QTest::keySequence(&window, QKeySequence("]"));
    Until([&] { return window.Idle(); });
    fputs(lockstep::gui::DescribeJson(*window.document(), window.navigator()->selection()).constData(), stdout);
    fflush(stdout);
  }
  return all ? 0 : 1;
}
