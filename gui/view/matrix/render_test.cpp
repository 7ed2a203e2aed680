#include "gui/view/matrix/render.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace lockstep::gui {
namespace {

constexpr uint8_t kMissing = static_cast<uint8_t>(ViewState::kMissing),
                  kCompleted = static_cast<uint8_t>(ViewState::kCompleted);

CellMatrix Filled(int rows, int columns, uint8_t state) {
  CellMatrix matrix;
  matrix.rows = rows;
  matrix.columns = columns;
  matrix.cells.assign(static_cast<size_t>(rows) * static_cast<size_t>(columns), state);
  return matrix;
}

CellMatrix Random(int rows, int columns, std::mt19937* random) {
  CellMatrix matrix = Filled(rows, columns, 0);
  // Faults are rare, so that both single and neighboring faults occur.
  for (uint8_t& cell : matrix.cells) {
    cell = static_cast<uint8_t>((*random)() % 40 == 0 ? (*random)() % static_cast<unsigned>(ViewState::kCount)
                                                      : (*random)() % 8);
  }
  return matrix;
}

std::vector<uint32_t> InOrder(int rows) {
  std::vector<uint32_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

ViewTransform RandomTransform(int columns, int lines, std::mt19937* random) {
  ViewTransform t(columns, lines, 1 + (*random)() % 150, 1 + (*random)() % 120);
  if ((*random)() % 3 != 0) t.x.Zoom(1 + (*random)() % 1000 / 60.0, (*random)() % 100);
  if ((*random)() % 3 != 0) t.y.Zoom(1 + (*random)() % 1000 / 60.0, (*random)() % 100);
  t.x.Pan(static_cast<double>((*random)() % 400) - 200);
  t.y.Pan(static_cast<double>((*random)() % 400) / 7);
  return t;
}

TEST(MatrixRenderTest, EveryVisibleCellHasAPixel) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    const int cells = 1 + static_cast<int>(random() % 700), pixels = 1 + static_cast<int>(random() % 300);
    ViewAxis axis(cells, pixels, 44, 64);
    axis.Zoom(1 + random() % 1000 / 100.0, random() % static_cast<unsigned>(pixels));
    axis.Pan(static_cast<double>(random() % 1000) / 3);
    const PixelCells map = CellsOfPixels(axis, pixels);
    std::vector<int> seen(static_cast<size_t>(cells), 0);
    for (int i = 0; i < pixels; ++i) {
      const int first = map.first[static_cast<size_t>(i)], end = map.end[static_cast<size_t>(i)];
      if (first < 0) {
        EXPECT_GE(axis.ToCell(i + 0.5), cells - 1e-6);
        continue;
      }
      ASSERT_LT(first, end);
      ASSERT_LE(end, cells);
      // The range exceeds the pixel by less than one cell.
      EXPECT_GE(first, axis.ToCell(i) - 1 - 1e-6);
      EXPECT_LE(end, axis.ToCell(i + 1) + 1 + 1e-6);
      for (int c = first; c < end; ++c) ++seen[static_cast<size_t>(c)];
    }
    for (int c = 0; c < cells; ++c) {
      const bool whole = axis.ToPixel(c) >= -1e-9 && axis.ToPixel(c + 1) <= pixels + 1e-9;
      EXPECT_TRUE(!whole || seen[static_cast<size_t>(c)] > 0) << "cell " << c << " of " << cells << " on " << pixels;
    }
  }
}

TEST(MatrixRenderTest, TheWorstStateWinsAtEveryZoom) {
  std::mt19937 random(12);
  for (int round = 0; round < 400; ++round) {
    const int rows = 1 + static_cast<int>(random() % 300), columns = 1 + static_cast<int>(random() % 300);
    const CellMatrix matrix = Random(rows, columns, &random);
    std::vector<uint32_t> order = InOrder(rows);
    std::shuffle(order.begin(), order.end(), random);
    order.resize(1 + random() % order.size());
    const ViewTransform t = RandomTransform(columns, static_cast<int>(order.size()), &random);
    const PixelStates got = WorstStates(matrix, order, t, 1 + static_cast<int>(random() % 3));
    const PixelCells across = CellsOfPixels(t.x, got.width), down = CellsOfPixels(t.y, got.height);
    for (int y = 0; y < got.height; ++y) {
      for (int x = 0; x < got.width; ++x) {
        const int c0 = across.first[static_cast<size_t>(x)], l0 = down.first[static_cast<size_t>(y)];
        const uint8_t pixel = got.At(x, y);
        if (c0 < 0 || l0 < 0) {
          ASSERT_EQ(pixel, kEmptyPixel);
          continue;
        }
        if (pixel == kGridPixel) {
          // A grid line is at the end of a cell that is wider than one pixel.
          const bool right = t.x.scale() >= kGridFrom && t.x.CellAt(x + 1.5) != c0;
          const bool below = t.y.scale() >= kGridFrom && t.y.CellAt(y + 1.5) != l0;
          ASSERT_TRUE(right || below) << x << " " << y;
          continue;
        }
        uint8_t worst = 0;
        for (int l = l0; l < down.end[static_cast<size_t>(y)]; ++l) {
          for (int c = c0; c < across.end[static_cast<size_t>(x)]; ++c) {
            worst = std::max(worst, matrix.Row(static_cast<int>(order[static_cast<size_t>(l)]))[c]);
          }
        }
        ASSERT_EQ(pixel, worst) << "round " << round << " pixel " << x << " " << y;
      }
    }
  }
}

TEST(MatrixRenderTest, FaultsAreEnlargedAndHideNoOtherFault) {
  std::mt19937 random(13);
  for (int round = 0; round < 300; ++round) {
    const int rows = 3 + static_cast<int>(random() % 300), columns = 3 + static_cast<int>(random() % 300);
    const CellMatrix matrix = Random(rows, columns, &random);
    const ViewTransform t = RandomTransform(columns, rows, &random);
    const PixelStates before = WorstStates(matrix, InOrder(rows), t);
    PixelStates after = before;
    GrowFaults(t, &after);
    if (before.width < 3 || before.height < 3) continue;
    const bool across = t.x.scale() < kLeastFaultPixels, down = t.y.scale() < kLeastFaultPixels;
    // Returns the first and last pixel of the enlarged fault at `at`, on an axis with `size` pixels.
    auto reach = [](int at, int size, bool grows) {
      if (!grows) return std::pair(at, at);
      return std::pair(at == size - 1 ? at - 2 : std::max(at - 1, 0), at == 0 ? 2 : std::min(at + 1, size - 1));
    };
    PixelStates expected = before;
    for (int y = 0; y < before.height; ++y) {
      for (int x = 0; x < before.width; ++x) {
        if (!IsFault(before.At(x, y))) continue;
        const auto [x0, x1] = reach(x, before.width, across);
        const auto [y0, y1] = reach(y, before.height, down);
        for (int v = y0; v <= y1; ++v) {
          for (int u = x0; u <= x1; ++u) {
            uint8_t& pixel = expected.pixels[static_cast<size_t>(v * before.width + u)];
            if (IsFault(before.At(u, v))) continue;
            pixel = IsFault(pixel) ? std::max(pixel, before.At(x, y)) : before.At(x, y);
          }
        }
      }
    }
    ASSERT_EQ(after.pixels, expected.pixels) << "round " << round;
  }
}

// One fault among 50 million cells has at least 3 x 3 pixels of its color, at any zoom.
TEST(MatrixRenderTest, OneBadCellOfFullSizeIsSeenFromAnywhere) {
  const int rows = 24576, columns = 2048;
  CellMatrix matrix = Filled(rows, columns, kCompleted);
  const std::vector<uint32_t> order = InOrder(rows);
  std::mt19937 random(14);
  const Theme& theme = LightTheme();
  auto seen = [&](const QImage& image) {
    const QRgb fill = theme.Of(ViewState::kMissing).fill.rgb();
    int count = 0;
    for (int y = 0; y < image.height(); ++y) {
      const QRgb* line = reinterpret_cast<const QRgb*>(image.constScanLine(y));
      for (int x = 0; x < image.width(); ++x) count += line[x] == fill ? 1 : 0;
    }
    return count;
  };
  for (int round = 0; round < 12; ++round) {
    const int row = round == 0 ? 0 : round == 1 ? rows - 1 : static_cast<int>(random() % rows);
    const int column = round == 0 ? columns - 1 : round == 1 ? 0 : static_cast<int>(random() % columns);
    uint8_t& cell = matrix.cells[static_cast<size_t>(row) * columns + static_cast<size_t>(column)];
    cell = kMissing;
    ViewTransform t(columns, rows, 1200, 700);
    EXPECT_EQ(seen(RenderMatrix(matrix, order, t, theme)), 9) << row << " " << column;
    for (const double zoom : {2.0, 3.7, 40.0, 1000.0}) {
      t.Show({});
      t.x.Zoom(zoom, 0);
      t.y.Zoom(zoom, 0);
      t.x.Centre(column + 0.5);
      t.y.Centre(row + 0.5);
      EXPECT_GE(seen(RenderMatrix(matrix, order, t, theme, 2)), 9) << zoom;
    }
    cell = kCompleted;
  }
  EXPECT_EQ(seen(RenderMatrix(matrix, order, ViewTransform(columns, rows, 1200, 700), theme)), 0);
}

TEST(MatrixRenderTest, CellsHaveTheirColoursSignsAndGrid) {
  CellMatrix matrix = Filled(4, 6, kCompleted);
  matrix.cells[1 * 6 + 2] = kMissing;
  matrix.cells[2 * 6 + 3] = static_cast<uint8_t>(ViewState::kNoData);
  for (const Theme* theme : {&LightTheme(), &DarkTheme()}) {
    ViewTransform t(6, 4, 44 * 6, 26 * 4);
    const QImage image = RenderMatrix(matrix, InOrder(4), t, *theme);
    EXPECT_EQ(image.pixel(0, 0), theme->Of(ViewState::kCompleted).fill.rgb());
    EXPECT_EQ(image.pixel(2 * 44 + 3, 26 + 3), theme->Of(ViewState::kMissing).fill.rgb());
    EXPECT_EQ(image.pixel(43, 5), theme->background.rgb()) << "grid";
    int ink = 0, hatch = 0;
    for (int y = 0; y < 25; ++y) {
      for (int x = 0; x < 43; ++x) {
        ink += image.pixel(2 * 44 + x, 26 + y) != theme->Of(ViewState::kMissing).fill.rgb() ? 1 : 0;
        hatch += image.pixel(3 * 44 + x, 52 + y) == theme->Of(ViewState::kNoData).ink.rgb() ? 1 : 0;
      }
    }
    EXPECT_GT(ink, 20) << "must show a sign";
    EXPECT_GT(hatch, 100);
  }
}

TEST(MatrixRenderTest, AnEmptyMatrixIsDrawn) {
  EXPECT_TRUE(RenderMatrix(CellMatrix(), {}, ViewTransform(0, 0, 0, 0), LightTheme()).isNull());
  const QImage image = RenderMatrix(CellMatrix(), {}, ViewTransform(0, 0, 20, 10), LightTheme());
  EXPECT_EQ(image.pixel(5, 5), LightTheme().background.rgb());
  const std::vector<uint32_t> wrong = {7, 8};
  const CellMatrix small = Filled(1, 1, kMissing);
  EXPECT_EQ(WorstStates(small, wrong, ViewTransform(1, 2, 30, 30)).At(3, 3), 0) << "rows that do not exist";
  EXPECT_FALSE(RenderSample(ViewState::kMissing, DarkTheme(), QSize(20, 14), 2).isNull());
}

}  // namespace
}  // namespace lockstep::gui
