// Measures how long users wait until the window shows a large incident, and whether the GUI thread is ever
// blocked. Usage: window_speed DIR (scale_index writes one)
#include <QApplication>
#include <QElapsedTimer>
#include <QMouseEvent>
#include <QTableView>
#include <QTimer>

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <random>

#include "goals.h"
#include "gui/app/main_window.h"
#include "gui/view/matrix/view.h"

namespace lockstep::gui {
namespace {

long Kib(const char* field) {
  std::ifstream status("/proc/self/status");
  const std::string name = field;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::stol(line.substr(name.size() + 1));
  }
  return 0;
}

// What the GUI thread has used so far, and the time that other virtual machines took.
struct Used {
  double processor = 0, system = 0;  // ms; `system` is the kernel's part
  long faults = 0, reads = 0;        // page faults without and with a disk access
  double stolen = 0;                 // ms of all cores that other virtual machines of the host used

  static Used Now() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    Used used{ProcessorMs(CLOCK_THREAD_CPUTIME_ID),
              static_cast<double>(usage.ru_stime.tv_sec) * 1e3 + static_cast<double>(usage.ru_stime.tv_usec) / 1e3,
              usage.ru_minflt, usage.ru_majflt, 0};
    std::ifstream stat("/proc/stat");
    std::string cpu;
    double ticks = 0;
    stat >> cpu;
    for (int i = 0; i < 8; ++i) stat >> ticks;
    used.stolen = ticks * 1e3 / static_cast<double>(sysconf(_SC_CLK_TCK));
    return used;
  }
  Used operator-(const Used& b) const {
    return {processor - b.processor, system - b.system, faults - b.faults, reads - b.reads, stolen - b.stolen};
  }
};

// Measures the longest time in which the GUI thread did not respond, the CPU time in that period, and the longest
// uninterrupted work.
class Heartbeat : public QObject {
 public:
  Heartbeat() {
    timer_.setTimerType(Qt::PreciseTimer);
    timer_.setInterval(2);
    connect(&timer_, &QTimer::timeout, this, [this] { Beat(); });
    timer_.start();
    Reset();
  }
  void Reset() {
    longest_ = longest_processor_ = 0;
    used_ = Used::Now();
    since_.start();
  }
  void Print(Goals* goals, const std::string& what) {
    Beat();
    goals->Print("window's thread blocked: " + what, longest_, 50, "ms", longest_processor_);
    if (longest_ > 50) {
      std::printf(
          "%-58s processor %.1f ms (kernel %.1f), %ld page faults (%ld from disk), stolen from the machine %.0f ms\n",
          "  in that time", in_longest_.processor, in_longest_.system, in_longest_.faults, in_longest_.reads,
          in_longest_.stolen);
    }
    Reset();
  }

 private:
  void Beat() {
    const double gap = static_cast<double>(since_.nsecsElapsed()) / 1e6 - 2;
    const Used now = Used::Now(), used = now - used_;
    longest_processor_ = std::max(longest_processor_, used.processor);
    if (gap > longest_) {
      longest_ = gap;
      in_longest_ = used;
    }
    used_ = now;
    since_.start();
  }

  QTimer timer_;
  QElapsedTimer since_;
  Used used_, in_longest_;
  double longest_ = 0, longest_processor_ = 0;
};

void Wait(const std::function<bool()>& done) {
  while (!done()) QApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents, 20);
}

struct Times {
  std::vector<double> wall, processor;
  void Measure(const std::function<void()>& work) {
    const double before = ProcessorMs(CLOCK_PROCESS_CPUTIME_ID);
    QElapsedTimer timer;
    timer.start();
    work();
    wall.push_back(static_cast<double>(timer.nsecsElapsed()) / 1e6);
    processor.push_back(ProcessorMs(CLOCK_PROCESS_CPUTIME_ID) - before);
  }
  void Print(Goals* goals, const std::string& what, double share, double goal) const {
    goals->Print(what, Share(wall, share), goal, "ms", Share(processor, share));
  }
};

void Search(const Document& document, Goals* goals) {
  for (const char* text :
       {"rank:17043 seq>1000", "op:AllReduce seq>1000", "comm:*0* seq:1500-1600", "state:waiting", "state:mismatch",
        "state:enqueued op:Broadcast", "-op:AllReduce -op:Send -op:Recv", "allgather", "host:n21* state:completed"}) {
    const auto query = ParseQuery(text);
    if (!query.ok()) continue;
    int64_t found = 0;
    Times times;
    for (int i = 0; i < 4; ++i) {
      auto run = [&] { found = RunQuery(document, *query).hit_count; };
      if (i == 0)
        run();  // the first run reads the columns into memory
      else
        times.Measure(run);
    }
    times.Print(goals, QString("search %1: %L2 hits").arg(text).arg(found).toStdString(), 1, 200);
  }
}

void Clicks(MainWindow* window, Heartbeat* heart, Goals* goals) {
  auto* matrix = dynamic_cast<MatrixView*>(window->view("Matrix"));
  if (matrix == nullptr || matrix->data() == nullptr) return;
  auto all_there = [window] { return window->Idle(); };
  std::mt19937 random(3);
  Times cells, anomalies;
  for (int i = 0; i < 40; ++i) {
    const QPoint at(100 + static_cast<int>(random() % static_cast<unsigned>(std::max(1, matrix->width() - 200))),
                    60 + static_cast<int>(random() % static_cast<unsigned>(std::max(1, matrix->height() - 120))));
    cells.Measure([&] {
      for (const QEvent::Type type : {QEvent::MouseButtonPress, QEvent::MouseButtonRelease}) {
        QMouseEvent event(type, at, matrix->mapToGlobal(QPointF(at)), Qt::LeftButton,
                          type == QEvent::MouseButtonPress ? Qt::LeftButton : Qt::NoButton, Qt::NoModifier);
        QApplication::sendEvent(matrix, &event);
      }
      Wait(all_there);
    });
  }
  cells.Print(goals, "click on a cell to all panes, the slowest of 40", 1, 100);
  for (int i = 0; i < std::min(10, window->document()->anomaly_count()); ++i) {
    anomalies.Measure([&] {
      window->SelectAnomaly(i);
      Wait(all_there);
    });
  }
  anomalies.Print(goals, "anomaly to all panes, the slowest of 10", 1, 100);
  heart->Print(goals, "clicks");
}

void Tables(MainWindow* window, Heartbeat* heart, Goals* goals) {
  for (const char* name : {"Communicators", "Ranks", "Mismatches", "In flight"}) {
    View* view = window->view(name);
    auto* table = view == nullptr ? nullptr : view->findChild<QTableView*>();
    if (table == nullptr) continue;
    window->dock(name)->raise();
    Wait([window] { return window->Idle(); });
    heart->Reset();
    Times times;
    for (int column = 0; column < table->model()->columnCount(); ++column) {
      times.Measure([&] {
        table->sortByColumn(column, column % 2 == 0 ? Qt::AscendingOrder : Qt::DescendingOrder);
        Wait([view] { return view->Idle(); });
      });
    }
    times.Print(goals,
                QString("%1, %L2 rows: the slowest sort").arg(name).arg(table->model()->rowCount()).toStdString(), 1,
                1000);
    heart->Print(goals, std::string("sorting ") + name);
  }
}

void Pictures(MainWindow* window, Heartbeat* heart, Goals* goals) {
  for (int tab = 0; tab < window->tabs()->count(); ++tab) {
    heart->Reset();
    Times times;
    times.Measure([&] {
      window->tabs()->setCurrentIndex(tab);
      Wait([window] { return window->Idle(); });
    });
    const std::string name = window->tabs()->tabText(tab).toStdString();
    std::printf("%-58s %9.1f ms   (processor %.1f ms)\n", (name + ", first shown and complete").c_str(), times.wall[0],
                times.processor[0]);
    heart->Print(goals, name + " shown");
  }
}

int Run(const QString& path) {
  Goals goals;
  WindowOptions options;
  options.settings = Session::kNothing;
  options.restore = false;
  MainWindow window(options);
  window.resize(1600, 900);
  window.show();
  QApplication::processEvents();
  Heartbeat heart;
  bool painted = false, ended = false;
  Times first, whole;
  QObject::connect(&window, &MainWindow::FirstPaint, &window, [&] { painted = true; });
  QObject::connect(&window, &MainWindow::LoadEnded, &window, [&](bool) { ended = true; });
  whole.Measure([&] {
    first.Measure([&] {
      window.Open({path});
      Wait([&] { return painted || (ended && window.document() == nullptr); });
    });
    if (window.document() == nullptr) return;
    goals.Print("verdict and matrix on the screen, in a window that is there", first.wall[0], 1000, "ms",
                first.processor[0]);
    std::printf("%d ranks, %llu operations, %d communicators; resident %ld MiB, of it anonymous %ld MiB\n",
                window.document()->rank_count(),
                static_cast<unsigned long long>(window.document()->index().operations()),
                window.document()->comm_count(), Kib("VmRSS") / 1024, Kib("RssAnon") / 1024);
    Wait([&] { return window.Idle(); });
  });
  if (window.document() == nullptr) {
    std::fprintf(stderr, "window_speed: it cannot be opened\n");
    return 1;
  }
  std::printf("%-58s %9.1f ms   (processor %.1f ms)\n", "all panes filled", whole.wall[0], whole.processor[0]);
  heart.Print(&goals, "opening");
  Clicks(&window, &heart, &goals);
  Tables(&window, &heart, &goals);
  Search(*window.document(), &goals);
  heart.Reset();
  window.search()->Search("op:AllReduce state:waiting");
  Wait([&] { return window.Idle(); });
  heart.Print(&goals, "searching");
  window.search()->SetFilters({"state:waiting"});
  Wait([&] { return window.Idle(); });
  heart.Print(&goals, "filtering");
  window.search()->SetFilters({});
  Wait([&] { return window.Idle(); });
  Pictures(&window, &heart, &goals);
  ended = false;
  heart.Reset();
  window.Open({path});
  Wait([&] { return ended && window.Idle(); });
  heart.Print(&goals, "opening it again");
  goals.Print("anonymous memory, with every picture shown", static_cast<double>(Kib("RssAnon")) / 1024, 512, "MiB");
  std::printf(goals.missed() == 0 ? "all goals met\n" : "%d goals missed\n", goals.missed());
  return goals.far() ? 1 : 0;
}

}  // namespace
}  // namespace lockstep::gui

int main(int argc, char** argv) {
  setenv("QT_QPA_PLATFORM", "offscreen", 0);
  QApplication application(argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: window_speed DIR   (scale_index writes one)\n");
    return 2;
  }
  const int status = lockstep::gui::Run(QString::fromLocal8Bit(argv[1]));
  std::fflush(nullptr);
  _exit(status);
}
