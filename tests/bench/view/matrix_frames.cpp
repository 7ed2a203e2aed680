// Measures the cost of a full-size frame of the matrix while panning and zooming: p50 and p95 of 300 frames, in
// milliseconds of wall and CPU time. Every frame must show a fault of one cell.
#include <QApplication>
#include <QElapsedTimer>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <numeric>
#include <random>
#include <vector>

#include "gui/view/matrix/render.h"
#include "gui/view/matrix/view.h"

using namespace lockstep;
using namespace lockstep::gui;

namespace {

constexpr int kRows = 24576, kColumns = 2048, kFrames = 300;
constexpr double kGoalMs = 16;

double CpuMs() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

struct Frames {
  std::vector<double> wall, cpu;
  void Print(const char* what, int width, int height) {
    std::sort(wall.begin(), wall.end());
    std::sort(cpu.begin(), cpu.end());
    auto at = [](const std::vector<double>& v, double share) {
      return v[static_cast<size_t>(share * static_cast<double>(v.size() - 1))];
    };
    printf(
        "%-28s %4d x %-4d  wall p50 %6.2f p95 %6.2f ms (goal %.0f ms at 1600 x 900: %s)   processor p50 %6.2f p95 "
        "%6.2f ms\n",
        what, width, height, at(wall, 0.5), at(wall, 0.95), kGoalMs,
        width > 1600                ? "no goal here"
        : at(wall, 0.95) <= kGoalMs ? "met"
                                    : "MISSED",
        at(cpu, 0.5), at(cpu, 0.95));
    fflush(stdout);
  }
};

// A healthy job in which ranks have progressed differently; the caller adds the fault.
CellMatrix Synthetic() {
  CellMatrix matrix;
  matrix.rows = kRows;
  matrix.columns = kColumns;
  matrix.cells.assign(size_t{kRows} * kColumns, static_cast<uint8_t>(ViewState::kCompleted));
  std::mt19937 random(1);
  for (int row = 0; row < kRows; ++row) {
    uint8_t* line = matrix.cells.data() + size_t(row) * kColumns;
    std::fill(line, line + random() % 40, static_cast<uint8_t>(ViewState::kOverwritten));
    std::fill(line + kColumns - 1 - random() % 6, line + kColumns, static_cast<uint8_t>(ViewState::kWaiting));
    matrix.rank_of_row.push_back(row);
  }
  return matrix;
}

bool Shows(const QImage& image, QRgb colour) {
  for (int y = 0; y < image.height(); ++y) {
    const QRgb* line = reinterpret_cast<const QRgb*>(image.constScanLine(y));
    if (std::find(line, line + image.width(), colour) != line + image.width()) return true;
  }
  return false;
}

// Returns whether every frame showed the fault.
bool Measure(const CellMatrix& matrix, const std::vector<uint32_t>& order, int row, int column, int width, int height,
             int threads) {
  const Theme& theme = LightTheme();
  const QRgb fault = theme.Of(ViewState::kMissing).fill.rgb();
  const int line = static_cast<int>(std::find(order.begin(), order.end(), static_cast<uint32_t>(row)) - order.begin());
  bool good = true;
  struct Scene {
    const char* name;
    double zoom_x, zoom_y;
    bool zooming;
  };
  for (const Scene& scene : {Scene{"everything", 1, 1, false}, Scene{"4 times, panning", 4, 4, false},
                             Scene{"cells of 4 x 16, panning", 0, 0, false}, Scene{"zooming in and out", 1, 1, true}}) {
    Frames frames;
    for (int i = 0; i < kFrames; ++i) {
      ViewTransform t(kColumns, kRows, width, height);
      // From frame to frame, the fault moves across the picture.
      const double phase = 0.05 + 0.9 * (i % 100) / 99.0;
      const double way = scene.zooming ? std::pow(600.0, (i < kFrames / 2 ? i : kFrames - i) / (kFrames / 2.0)) : 1;
      t.x.Zoom(scene.zoom_x > 0 ? scene.zoom_x * std::sqrt(way) : 4 / t.x.scale(), 0);
      t.y.Zoom(scene.zoom_y > 0 ? scene.zoom_y * way : 16 / t.y.scale(), 0);
      t.x.Centre(column + (phase - 0.5) * width / t.x.scale());
      t.y.Centre(line + (phase - 0.5) * height / t.y.scale());
      const double cpu = CpuMs();
      QElapsedTimer timer;
      timer.start();
      const QImage image = RenderMatrix(matrix, order, t, theme, threads);
      frames.wall.push_back(static_cast<double>(timer.nsecsElapsed()) * 1e-6);
      frames.cpu.push_back(CpuMs() - cpu);
      if (!Shows(image, fault)) {
        printf("LOST: frame %d of \"%s\" does not show the fault at row %d, column %d\n", i, scene.name, row, column);
        good = false;
      }
    }
    frames.Print(scene.name, width, height);
  }
  return good;
}

int WithIndex(const char* path) {
  QElapsedTimer timer;
  timer.start();
  auto document = Document::Open(path, {path});
  if (!document.ok()) {
    fprintf(stderr, "%s\n", document.status().ToString().c_str());
    return 1;
  }
  printf("document opened in %.0f ms: %d ranks, %d communicators\n", static_cast<double>(timer.nsecsElapsed()) * 1e-6,
         (*document)->rank_count(), (*document)->comm_count());
  int32_t widest = 0;
  for (int32_t c = 0; c < (*document)->comm_count(); ++c) {
    if ((*document)->index().comms()[size_t(c)].size > (*document)->index().comms()[size_t(widest)].size) widest = c;
  }
  for (int round = 0; round < 3; ++round) {
    timer.restart();
    const auto job = BuildJobMatrix(**document);
    const double first = static_cast<double>(timer.nsecsElapsed()) * 1e-6;
    timer.restart();
    const auto comm = BuildCommMatrix(**document, widest);
    const double second = static_cast<double>(timer.nsecsElapsed()) * 1e-6;
    timer.restart();
    const RowOrder order = BuildRowOrder(**document, *job, RowGrouping::kState, nullptr, {});
    printf(
        "matrix of all ranks, %d x %d: %.0f ms; of the widest communicator, %d x %d: %.0f ms; rows by state: %.0f ms\n",
        job->rows, job->columns, first, comm->rows, comm->columns, second,
        static_cast<double>(timer.nsecsElapsed()) * 1e-6);
  }
  Navigator navigator;
  MatrixView view(&navigator);
  for (const QSize size : {QSize(1600, 900), QSize(3840, 2160)}) {
    view.resize(size);
    view.show();
    view.SetDocument(*document);
    while (!view.Idle()) QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents | QEventLoop::AllEvents, 50);
    for (const double zoom : {1.0, 4.0}) {
      view.Fit();
      view.Zoom(zoom);
      view.ZoomRows(zoom);
      Frames frames;
      for (int i = 0; i < kFrames; ++i) {
        const double cpu = CpuMs();
        timer.restart();
        if (zoom > 1) {
          view.Pan(i % 100 < 50 ? 0.02 : -0.02, i % 60 < 30 ? 0.03 : -0.03);
        } else {
          view.Zoom(i % 2 == 0 ? 1.001 : 0.999);
        }
        view.repaint();
        frames.wall.push_back(static_cast<double>(timer.nsecsElapsed()) * 1e-6);
        frames.cpu.push_back(CpuMs() - cpu);
      }
      frames.Print(zoom > 1 ? "widget, 4 times, panning" : "widget, everything", size.width(), size.height());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  setenv("QT_QPA_PLATFORM", "offscreen", 0);
  QApplication application(argc, argv);
  CellMatrix matrix = Synthetic();
  const int row = 17043, column = 1979;
  matrix.cells[size_t(row) * kColumns + size_t(column)] = static_cast<uint8_t>(ViewState::kMissing);
  std::vector<uint32_t> order(kRows);
  std::iota(order.begin(), order.end(), 0);
  bool good = Measure(matrix, order, row, column, 1600, 900, 1);
  printf("rows in a random order:\n");
  std::mt19937 random(2);
  std::vector<uint32_t> shuffled = order;
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  good = Measure(matrix, shuffled, row, column, 1600, 900, 1) && good;
  printf("two threads:\n");
  good = Measure(matrix, order, row, column, 3840, 2160, 2) && good;
  const int rc = argc > 1 ? WithIndex(argv[1]) : 0;
  return good ? rc : 1;
}
