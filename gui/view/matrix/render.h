// The matrix as pixels, without a widget. Pure functions; any thread may call them.
#pragma once

#include <QImage>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "gui/model/matrix/cells.h"
#include "gui/view/theme.h"
#include "gui/view/transform.h"

namespace lockstep::gui {

// The contents of a pixel: a ViewState, or one of these.
constexpr uint8_t kGridPixel = 11, kEmptyPixel = 12;
// If a cell is smaller than this many pixels on an axis, faults are enlarged to this size, so that they are not
// overlooked.
constexpr double kLeastFaultPixels = 3;
constexpr double kGridFrom = 8, kGlyphsFrom = 10;  // pixels per cell
constexpr bool IsFault(uint8_t pixel) {
  return pixel >= static_cast<uint8_t>(ViewState::kFailed) && pixel <= static_cast<uint8_t>(ViewState::kMissing);
}

// For each pixel of an axis: the first cell, and one past the last; -1 if there is none. Ascending; every cell between
// the first and the last pixel is in at least one pixel.
struct PixelCells {
  std::vector<int32_t> first, end;
};
PixelCells CellsOfPixels(const ViewAxis& axis, int pixels);

// The pixels of a matrix, line by line, each with the worst state of its cells. `rows` maps each line of the
// transform's y axis to a row of the matrix. Faults are not enlarged. Uses up to `threads` threads.
struct PixelStates {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;
  uint8_t At(int x, int y) const {
    return pixels[static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)];
  }
};
PixelStates WorstStates(const CellMatrix& matrix, absl::Span<const uint32_t> rows, const ViewTransform& transform,
                        int threads = 1);
// Enlarges faults until each covers kLeastFaultPixels, even at an edge of the picture. Never covers another fault.
void GrowFaults(const ViewTransform& transform, PixelStates* states);

// The transform is in pixels of the image. For a screen with several pixels per point, pass a Magnified one.
QImage RenderMatrix(const CellMatrix& matrix, absl::Span<const uint32_t> rows, const ViewTransform& transform,
                    const Theme& theme, int threads = 1);
// A sample of a state as the matrix draws it, for legends.
QImage RenderSample(ViewState state, const Theme& theme, QSize size, double ratio);

}  // namespace lockstep::gui
