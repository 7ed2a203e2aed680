// lockstep-view: the window that shows what stopped a job.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <QApplication>
#include <QBuffer>
#include <QElapsedTimer>
#include <QFile>
#include <QStyleFactory>
#include <QTimer>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "analyzer/settings/options.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/proc_stat.h"
#include "gui/app/compare_window.h"
#include "gui/app/export/export.h"
#include "gui/app/main_window.h"
#include "gui/app/session/appearance.h"
#include "gui/app/session/session.h"

namespace lockstep::gui {
namespace {

constexpr int kFailed = 3;

struct Options {
  std::vector<std::string> paths;
  std::string theme, tab, screenshot, search, live;
  int width = 0, height = 0;
  int anomaly = 0;
  bool compare = false, print_selection = false, first_paint = false, fresh = false;
  bool script() const { return !screenshot.empty() || print_selection || first_paint; }
};

constexpr const char* kTabs[] = {"answer", "matrix", "wait-for", "timeline", "stacks", "bandwidth"};

bool ParseSize(const std::string& text, Options* options) {
  const size_t x = std::min(text.find('x'), text.size());
  int64_t width = 0, height = 0;
  if (x == text.size() || !settings::ParseNumber(text.substr(0, x), &width) ||
      !settings::ParseNumber(text.substr(x + 1), &height) || width < 320 || width > 16384 || height < 240 ||
      height > 16384)
    return false;
  options->width = static_cast<int>(width);
  options->height = static_cast<int>(height);
  return true;
}

absl::StatusOr<Options> MakeOptions(const settings::ParsedOptions& parsed) {
  Options options;
  options.paths = parsed.operands();
  options.compare = parsed.Flag("compare");
  options.live = parsed.Text("live");
  options.theme = parsed.Text("theme");
  options.tab = parsed.Text("tab");
  options.anomaly = static_cast<int>(parsed.Number("select-anomaly"));
  options.search = parsed.Text("search");
  options.fresh = parsed.Flag("fresh");
  options.screenshot = parsed.Text("screenshot");
  options.print_selection = parsed.Flag("print-selection");
  options.first_paint = parsed.Flag("exit-after-first-paint");
  if (const std::string size = parsed.Text("size"); !size.empty() && !ParseSize(size, &options))
    return parsed.Wrong("--size '" + size + "' is not a size such as 1280x800");
  if (absl::StartsWith(options.live, "-"))
    return parsed.Wrong("--live '" + options.live + "' is not an endpoint such as tcp://head:9470");
  if (options.compare) {
    if (options.paths.size() != 2) return parsed.Wrong("--compare needs two PATHs");
    if (options.print_selection || options.first_paint || !options.live.empty())
      return parsed.Wrong("--screenshot is the only script option that --compare supports");
  }
  if (!options.live.empty() && options.script()) return parsed.Wrong("--live cannot be combined with script options");
  if (options.script() && options.paths.empty()) return parsed.Wrong("no PATH given");
  return options;
}

int Fail(const std::string& text) { return settings::Complain("view", text, kFailed); }

// Without a display, Qt ends the program with abort(), so this prints what to do before that.
void OnMessage(QtMsgType type, const QMessageLogContext&, const QString& text) {
  if (type == QtDebugMsg || type == QtInfoMsg) return;
  if (type != QtFatalMsg) {
    if (qEnvironmentVariableIsSet("LOCKSTEP_VIEW_VERBOSE")) fprintf(stderr, "lockstep view: %s\n", qPrintable(text));
    return;
  }
  const char* display = getenv("DISPLAY");
  fprintf(stderr,
          "lockstep view: the display%s%s cannot be opened. Over ssh use ssh -X or -Y; without a screen: lockstep "
          "analyze PATH, "
          "or lockstep view --screenshot FILE PATH.\nlockstep view: %s\n",
          display != nullptr ? " " : "", display != nullptr ? display : "", qPrintable(text.simplified()));
  _exit(kFailed);
}

// Returns the milliseconds since the kernel started the program; -1 if unknown.
double SinceStartMs() {
  const std::optional<ProcStat> stat = ReadProcStat(getpid());
  return !stat ? -1 : static_cast<double>(RealtimeNs() - stat->StartedRealNs()) / 1e6;
}

void PrintFirstPaint(const QElapsedTimer& since_main) {
  printf("first paint: %lld ms after main, %.0f ms after exec\n", static_cast<long long>(since_main.elapsed()),
         SinceStartMs());
  QFile file("/proc/self/status");
  if (file.open(QIODevice::ReadOnly)) {
    for (const QByteArray& line : file.readAll().split('\n')) {
      if (line.startsWith("VmHWM:") || line.startsWith("RssAnon:")) printf("%s\n", line.simplified().constData());
    }
  }
  fflush(stdout);
}

void Act(MainWindow* window, const Options& options) {
  if (options.anomaly > 0) window->SelectAnomaly(options.anomaly - 1);
  if (!options.search.empty()) {
    window->search()->Search(QString::fromStdString(options.search));
    window->search()->Step(1);
  }
}

// Returns whether the whole picture was written: a full disk may store only a part and report no error.
bool SavePng(const QPixmap& picture, const std::string& path) {
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  if (!picture.save(&buffer, "PNG")) return false;
  QFile file(QString::fromStdString(path));
  return file.open(QIODevice::WriteOnly) && file.write(bytes) == bytes.size() && file.flush();
}

// Writes what a script requested, once the window is idle.
void Finish(MainWindow* window, const Options& options) {
  if (!window->Idle()) {
    QTimer::singleShot(5, window, [window, options] { Finish(window, options); });
    return;
  }
  if (options.anomaly > window->document()->anomaly_count()) {
    return QApplication::exit(Fail("there are " + std::to_string(window->document()->anomaly_count()) + " anomalies"));
  }
  if (options.print_selection) {
    const QByteArray text = DescribeJson(*window->document(), window->navigator()->selection());
    if (fwrite(text.constData(), 1, static_cast<size_t>(text.size()), stdout) != static_cast<size_t>(text.size()) ||
        fflush(stdout) != 0) {
      return QApplication::exit(Fail(std::string("standard output: ") + strerror(errno)));
    }
  }
  // Applies pending layout changes of panes first.
  QCoreApplication::sendPostedEvents();
  QCoreApplication::processEvents(QEventLoop::ExcludeUserInputEvents);
  if (!options.screenshot.empty() && !SavePng(window->grab(), options.screenshot)) {
    return QApplication::exit(Fail(options.screenshot + ": cannot be written as PNG"));
  }
  QApplication::exit(0);
}

// When the user compares, opens a window with the incident of `window` and the other one.
void JoinCompare(MainWindow* window, const WindowOptions& window_options) {
  QObject::connect(window, &MainWindow::CompareWanted, window, [window, window_options](const QStringList& paths) {
    QStringList own;
    for (const std::string& path : window->document()->paths()) own << QString::fromStdString(path);
    auto* both = new CompareWindow(window_options);
    both->setAttribute(Qt::WA_DeleteOnClose);
    both->show();
    both->Open(own, paths);
  });
}

int Compare(const Options& options, const WindowOptions& window_options) {
  CompareWindow both(window_options);
  if (!options.theme.empty()) ApplyAppearance(AppearanceByName(QString::fromStdString(options.theme)));
  if (options.width > 0) both.resize(options.width, options.height);
  both.show();
  both.Open({QString::fromStdString(options.paths[0])}, {QString::fromStdString(options.paths[1])});
  auto* once = new QTimer(&both);
  QObject::connect(once, &QTimer::timeout, &both, [&both, &options, once] {
    for (int i = 0; i < 2; ++i) {
      if (options.script() && both.side(i)->strip()->error())
        return QApplication::exit(Fail(both.side(i)->strip()->text().toStdString()));
      if (both.side(i)->document() == nullptr) return;
    }
    if (!both.Idle()) return;
    if (options.anomaly > 0 && both.side(0)->anomaly() < 0) return both.side(0)->SelectAnomaly(options.anomaly - 1);
    once->stop();
    if (options.screenshot.empty()) return;
    QApplication::exit(
        SavePng(both.grab(), options.screenshot) ? 0 : Fail(options.screenshot + ": cannot be written as PNG"));
  });
  once->start(20);
  return QApplication::exec();
}

int Show(MainWindow* shown, const Options& options, const QElapsedTimer& since_main) {
  MainWindow& window = *shown;
  if (!options.theme.empty()) ApplyAppearance(AppearanceByName(QString::fromStdString(options.theme)));
  if (options.width > 0) window.resize(options.width, options.height);
  if (!options.live.empty()) {
    window.Follow(QCoreApplication::applicationDirPath(),
                  options.live == "any" ? QString() : QString::fromStdString(options.live));
  }
  window.show();
  if (!options.paths.empty()) {
    QStringList paths;
    for (const std::string& path : options.paths) paths << QString::fromStdString(path);
    if (options.first_paint) {
      QObject::connect(&window, &MainWindow::FirstPaint, &window, [&since_main] {
        PrintFirstPaint(since_main);
        QApplication::exit(0);
      });
    }
    QObject::connect(
        &window, &MainWindow::LoadEnded, &window,
        [&](bool opened) {
          if (!opened && options.script()) QApplication::exit(Fail(window.strip()->text().toStdString()));
        },
        Qt::QueuedConnection);  // after the message is in the strip
    auto* once = new QObject(&window);
    QObject::connect(&window, &MainWindow::DocumentShown, once, [&window, &options, once] {
      if (window.loading()) return;
      once->deleteLater();
      QObject::disconnect(&window, nullptr, once, nullptr);
      Act(&window, options);
      if (!options.screenshot.empty() || options.print_selection) Finish(&window, options);
    });
    window.Open(paths);
  }
  return QApplication::exec();
}

int Main(int argc, char** argv) {
  QElapsedTimer since_main;
  since_main.start();
  const absl::StatusOr<settings::ParsedOptions> parsed = settings::Parse("view", argc, argv);
  if (const std::optional<int> status = settings::Finished("view", parsed)) return *status;
  const absl::StatusOr<Options> made = MakeOptions(*parsed);
  if (!made.ok()) return settings::UsageError("view", made.status());
  const Options& options = *made;
  for (const std::string& path : options.paths) {
    struct stat st = {};
    if (stat(path.c_str(), &st) != 0) return Fail(path + ": " + strerror(errno));
  }
  const auto given = [](const char* name) { return getenv(name) != nullptr && *getenv(name) != 0; };
  if (!given("QT_QPA_PLATFORM") && !given("DISPLAY") && !given("WAYLAND_DISPLAY")) {
    if (!options.script()) {
      return Fail(
          "no display: DISPLAY and WAYLAND_DISPLAY are not set. Over ssh use ssh -X or -Y; without a screen: lockstep "
          "analyze PATH, or lockstep view --screenshot FILE PATH");
    }
    setenv("QT_QPA_PLATFORM", "offscreen", 1);
  }
  qInstallMessageHandler(OnMessage);
  // Qt gets only the program's name; it would parse a path like -style as an option.
  int qt_argc = 1;
  QApplication application(qt_argc, argv);
  QApplication::setApplicationName("lockstep-view");
  QApplication::setApplicationDisplayName("Lockstep");
  QApplication::setApplicationVersion(LOCKSTEP_VERSION);
  QApplication::setDesktopFileName("lockstep-view");
  QIcon icon;
  for (const char* file : {":/lockstep/lockstep-view-48.png", ":/lockstep/lockstep-view-128.png"}) icon.addFile(file);
  QApplication::setWindowIcon(icon);
  if (options.script()) QApplication::setStyle(QStyleFactory::create("Fusion"));
  if (!options.theme.empty()) ApplyAppearance(AppearanceByName(QString::fromStdString(options.theme)));

  WindowOptions window_options;
  if (options.width > 0) window_options.size = {options.width, options.height};
  for (int i = 0; i < static_cast<int>(std::size(kTabs)); ++i) {
    if (options.tab == kTabs[i]) window_options.tab = i;
  }
  window_options.restore = !options.script() && !options.fresh;
  if (!window_options.restore) window_options.settings = Session::kNothing;
  if (options.compare) return Compare(options, window_options);
  MainWindow window(window_options);
  JoinCompare(&window, window_options);
  return Show(&window, options, since_main);
}

}  // namespace
}  // namespace lockstep::gui

int main(int argc, char** argv) {
  const int status = lockstep::gui::Main(argc, argv);
  fflush(nullptr);
  _exit(status);  // an abandoned thread may still be reading a file, so no destructors run
}
