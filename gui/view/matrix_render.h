// The matrix as pixels, without a widget. Pure functions, any thread.
#ifndef LOCKSTEP_GUI_VIEW_MATRIX_RENDER_H_
#define LOCKSTEP_GUI_VIEW_MATRIX_RENDER_H_

#include <QImage>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "gui/model/cell_matrix.h"
#include "gui/view/theme.h"
#include "gui/view/view_transform.h"

namespace lockstep::gui {

// The contents of a pixel: a ViewState, or one of these.
constexpr uint8_t kGridPixel = 11, kEmptyPixel = 12;
// A cell smaller than this on an axis shares a pixel with others or is easily overlooked: a fault grows to that many
// pixels.
constexpr double kLeastFaultPixels = 3;
constexpr double kGridFrom = 8, kGlyphsFrom = 10;  // pixels of a cell
constexpr bool IsFault(uint8_t pixel) {
  return pixel >= static_cast<uint8_t>(ViewState::kFailed) && pixel <= static_cast<uint8_t>(ViewState::kMissing);
}

// First and one past the last cell of each pixel of an axis, ascending; every cell between the first and the last
// pixel's is in at least one. Both -1 where there is nothing.
struct PixelCells {
  std::vector<int32_t> first, end;
};
PixelCells CellsOfPixels(const ViewAxis& axis, int pixels);

// width x height bytes, line by line: of all cells of a pixel the worst state. `rows`: the matrix's row of each line of
// the transform's y axis. Faults are not grown. Uses up to `threads` threads.
struct PixelStates {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;
  uint8_t At(int x, int y) const {
    return pixels[static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)];
  }
};
PixelStates WorstStates(const CellMatrix& matrix, absl::Span<const uint32_t> rows, const ViewTransform& transform,
                        int threads = 1);
// Enlarges faults over faultless pixels until each covers kLeastFaultPixels, also at an edge of the picture; never over
// another fault.
void GrowFaults(const ViewTransform& transform, PixelStates* states);

// The transform counts the image's own pixels: for a screen of more pixels than points give it Magnified.
QImage RenderMatrix(const CellMatrix& matrix, absl::Span<const uint32_t> rows, const ViewTransform& transform,
                    const Theme& theme, int threads = 1);
// A sample of a state as the matrix draws it, for legends.
QImage RenderSample(ViewState state, const Theme& theme, QSize size, double ratio);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_MATRIX_RENDER_H_
