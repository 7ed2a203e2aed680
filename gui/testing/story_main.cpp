// viewer_story PATH..: opens each path in the viewer's window, presses the key for the next anomaly, and prints the
// selection and the status as one JSON object per line. Exit status 1 if a path could not be opened.
// viewer_story --live PROGRAMS ENDPOINT: the window follows a collector. Prints each incident that the window opens,
// and again when its gathering completes, until standard input ends. A line on standard input presses the button that
// captures an incident.
#include <QApplication>
#include <QJsonDocument>
#include <QJsonObject>
#include <QSocketNotifier>
#include <QTest>
#include <QTimer>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gui/app/export/export.h"
#include "gui/app/main_window.h"
#include "gui/app/panes/live_pane.h"
#include "gui/app/session/session.h"
#include "gui/model/graph/layout.h"
#include "gui/testing/until.h"

namespace {

using lockstep::gui::testing::Until;

void Tell(lockstep::gui::MainWindow* window) {
  QTest::keySequence(window, QKeySequence("]"));
  Until([&] { return window->Idle(); });
  QJsonObject story =
      QJsonDocument::fromJson(lockstep::gui::DescribeJson(*window->document(), window->navigator()->selection()))
          .object();
  const lockstep::gui::Document& document = *window->document();
  story.insert("wait_for", WaitGraphText(lockstep::gui::BuildWaitGraph(
                               document.facts(), [&](int32_t comm) { return document.CommName(comm); })));
  puts(QJsonDocument(story).toJson(QJsonDocument::Compact).constData());
  fflush(stdout);
}

int Follow(lockstep::gui::MainWindow* window, const QString& programs, const QString& endpoint) {
  lockstep::gui::LivePane* live = window->Follow(programs, endpoint);
  QObject::connect(live, &lockstep::gui::LivePane::Message, live,
                   [](const QString& text) { fprintf(stderr, "%s\n", qPrintable(text)); });
  QObject::connect(window, &lockstep::gui::MainWindow::LoadEnded, window, [window](bool opened) {
    if (opened)
      QTimer::singleShot(0, window,
                         [window] { Until([&] { return window->Idle(); }) ? Tell(window) : QApplication::exit(1); });
  });
  QSocketNotifier commands(0, QSocketNotifier::Read);
  QObject::connect(&commands, &QSocketNotifier::activated, live, [live] {
    char line[64];
    if (read(0, line, sizeof(line)) <= 0) return QApplication::exit(0);
    live->Dump();
  });
  return QApplication::exec();
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
  if (argc == 4 && strcmp(argv[1], "--live") == 0) return Follow(&window, argv[2], argv[3]);
  bool all = true;
  for (int i = 1; i < argc; ++i) {
    window.Open({argv[i]});
    if (!Until([&] { return !window.loading(); }) || window.strip()->error() || !Until([&] { return window.Idle(); })) {
      fprintf(stderr, "%s: %s\n", argv[i], qPrintable(window.strip()->text()));
      all = false;
      puts("{}");
      continue;
    }
    Tell(&window);
  }
  return all ? 0 : 1;
}
