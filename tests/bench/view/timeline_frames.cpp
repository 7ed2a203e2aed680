// Measures how long the timeline takes to read all times of an index, and to draw frames of 1600 x 900 while panning
// and zooming.
// Usage: timeline_frames INDEX
#include <time.h>

#include <QApplication>
#include <QComboBox>
#include <QElapsedTimer>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "gui/view/timeline/pane.h"
#include "gui/view/timeline/view.h"

namespace lockstep::gui {
namespace {

constexpr int kFrames = 100;

long AnonymousKib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return std::stol(line.substr(8));
  }
  return 0;
}

// Returns the CPU time of the GUI thread, because wall time includes other load.
double CpuMs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void Settle(TimelineView* view) {
  view->pane()->repaint();
  while (!view->Idle()) QApplication::processEvents(QEventLoop::WaitForMoreEvents, 20);
}

// `step` moves the picture. Measures the immediate drawing, without the refinement on another thread.
template <typename Step>
void Measure(const char* name, TimelineView* view, const Step& step) {
  Settle(view);
  std::vector<double> ms, cpu;
  for (int i = 0; i < kFrames; ++i) {
    step(i);
    const double before = CpuMs();
    QElapsedTimer timer;
    timer.start();
    view->pane()->repaint();
    cpu.push_back(CpuMs() - before);
    ms.push_back(static_cast<double>(timer.nsecsElapsed()) / 1e6);
    QApplication::processEvents();
  }
  QElapsedTimer sharp;
  sharp.start();
  Settle(view);
  std::sort(ms.begin(), ms.end());
  std::sort(cpu.begin(), cpu.end());
  std::printf("%-34s p50 %6.1f ms  p95 %6.1f ms  worst %6.1f ms  processor p95 %6.1f ms  sharp after %5lld ms\n", name,
              ms[kFrames / 2], ms[kFrames * 95 / 100], ms.back(), cpu[kFrames * 95 / 100],
              static_cast<long long>(sharp.elapsed()));
}

int Run(const std::string& path) {
  auto document = Document::Open(path, {path});
  if (!document.ok()) {
    std::fprintf(stderr, "%s\n", std::string(document.status().message()).c_str());
    return 1;
  }
  Navigator navigator;
  TimelineView view(&navigator);
  view.resize(1600, 960);
  QElapsedTimer timer;
  timer.start();
  view.SetDocument(*document);
  view.show();
  while (view.pane()->timeline() == nullptr) QApplication::processEvents(QEventLoop::WaitForMoreEvents, 20);
  std::printf("%d ranks, %llu operations: times read in %lld ms, picture %d x %d\n", (*document)->rank_count(),
              static_cast<unsigned long long>((*document)->index().operations()),
              static_cast<long long>(timer.elapsed()), view.pane()->width(), view.pane()->height());
  auto sway = [&](int i) { view.Pan(i % 20 < 10 ? 0.03 : -0.03, 0); };
  const auto boxes = view.findChildren<QComboBox*>();
  for (const auto& [index, name] : {std::pair(1, "ranks"), std::pair(0, "hosts")}) {
    boxes[0]->setCurrentIndex(index);
    view.Fit();
    Measure((std::string(name) + ", everything, resized").c_str(), &view,
            [&](int i) { view.pane()->resize(1600 - i % 2, 900); });
    Measure((std::string(name) + ", zooming in").c_str(), &view, [&](int) { view.Zoom(1.05); });
    view.Fit();
    view.Zoom(4);
    Measure((std::string(name) + ", 4 times, panning").c_str(), &view, sway);
    view.Zoom(64);
    Measure((std::string(name) + ", 256 times, panning").c_str(), &view, sway);
    for (int i = 0; i < 20; ++i) view.ZoomRows(2);
    Measure((std::string(name) + ", 256 times, few lanes").c_str(), &view, sway);
  }
  view.Fit();
  boxes[0]->setCurrentIndex(2);
  Measure("calls and streams, everything", &view, [&](int i) { view.Pan(0, i % 20 < 10 ? 0.3 : -0.3); });
  view.Zoom(30);
  Measure("calls and streams, 30 times", &view, sway);
  std::printf("anonymous memory %ld MiB\n", AnonymousKib() / 1024);
  return 0;
}

}  // namespace
}  // namespace lockstep::gui

int main(int argc, char** argv) {
  setenv("QT_QPA_PLATFORM", "offscreen", 0);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  QApplication application(argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: timeline_frames INDEX   (scale_index writes one)\n");
    return 2;
  }
  return lockstep::gui::Run(argv[1]);
}
