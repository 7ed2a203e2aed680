// Converts between cells of a picture and pixels, without a widget. Pixels are real numbers from the picture's top
// left; cell i covers [i, i + 1).
#pragma once

#include <QString>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gui/model/navigator.h"

namespace lockstep::gui {

// One axis: `cells` of content on `pixels` of screen. Limits hold after every call: the content fills the screen if it
// can, a cell has at most `nearest` pixels, and scrolling stops at the ends.
class ViewAxis {
 public:
  ViewAxis() = default;
  // `widest` is the maximum number of pixels per cell when everything is shown, so that a few cells do not fill the
  // screen.
  ViewAxis(double cells, double pixels, double widest, double nearest)
      : cells_(std::max(cells, 0.0)),
        pixels_(std::max(pixels, 0.0)),
        widest_(widest),
        nearest_(std::max(nearest, widest)) {
    Fit();
  }

  double cells() const { return cells_; }
  double pixels() const { return pixels_; }
  double scale() const { return scale_; }  // pixels per cell
  double first() const { return first_; }  // at pixel 0
  double last() const { return std::min(first_ + pixels_ / scale_, std::max(cells_, 1.0)); }
  bool fits() const { return scale_ <= least(); }  // everything is visible
  double ToPixel(double cell) const { return (cell - first_) * scale_; }
  double ToCell(double pixel) const { return first_ + pixel / scale_; }
  // -1 if there is no cell.
  int CellAt(double pixel) const {
    const double cell = std::floor(ToCell(pixel));
    return cell >= 0 && cell < cells_ ? static_cast<int>(cell) : -1;
  }
  int ClampedCellAt(double pixel) const {
    return static_cast<int>(std::clamp(std::floor(ToCell(pixel)), 0.0, std::max(cells_ - 1, 0.0)));
  }

  void Fit() {
    scale_ = least();
    first_ = 0;
  }
  // The cell under `pixel` stays there unless an end of the content becomes visible.
  void Zoom(double factor, double pixel) {
    if (!(factor > 0) || !std::isfinite(factor)) return;
    const double cell = ToCell(pixel);
    scale_ = std::clamp(scale_ * factor, least(), nearest_);
    first_ = cell - pixel / scale_;
    Clamp();
  }
  void Pan(double pixels) {
    if (!std::isfinite(pixels)) return;
    first_ += pixels / scale_;
    Clamp();
  }
  void Show(double first, double last) {
    if (!(last > first) || !std::isfinite(first) || !std::isfinite(last) || pixels_ <= 0) return Fit();
    scale_ = std::clamp(pixels_ / (last - first), least(), nearest_);
    first_ = (first + last) / 2 - pixels_ / scale_ / 2;
    // Within the limits, the requested part starts at `first`.
    if (scale_ >= pixels_ / (last - first)) first_ = first;
    Clamp();
  }
  void Centre(double cell) {
    first_ = cell - pixels_ / scale_ / 2;
    Clamp();
  }
  // Returns the same axis for a screen with `ratio` times as many pixels.
  ViewAxis Magnified(double ratio) const {
    ViewAxis out = *this;
    if (!(ratio > 0)) return out;
    for (double* value : {&out.pixels_, &out.widest_, &out.nearest_, &out.scale_}) *value *= ratio;
    return out;
  }
  // Scrolls as little as possible to show [first, last) with some margin.
  void Reveal(double first, double last, double room) {
    const double span = pixels_ / scale_;
    const double margin = std::min(room, std::max((span - (last - first)) / 2, 0.0));
    if (first - margin < first_) {
      first_ = first - margin;
    } else if (last + margin > first_ + span) {
      first_ = last - first > span ? first : last + margin - span;
    }
    Clamp();
  }

 private:
  double least() const { return cells_ > 0 && pixels_ > 0 ? std::min(pixels_ / cells_, widest_) : widest_; }
  void Clamp() { first_ = std::clamp(first_, 0.0, std::max(cells_ - pixels_ / scale_, 0.0)); }

  double cells_ = 0, pixels_ = 0, widest_ = 1, nearest_ = 1;
  double scale_ = 1, first_ = 0;
};

// Both axes of the matrix: columns and lines.
struct ViewTransform {
  static constexpr double kWidest = 44, kTallest = 26, kNearest = 64;

  ViewTransform() = default;
  ViewTransform(double columns, double lines, double width, double height)
      : x(columns, width, kWidest, kNearest), y(lines, height, kTallest, kNearest) {}

  // The range of a completely visible axis is empty.
  Viewport viewport() const {
    Viewport out;
    if (!x.fits()) out.x0 = x.first(), out.x1 = x.first() + x.pixels() / x.scale();
    if (!y.fits()) out.y0 = y.first(), out.y1 = y.first() + y.pixels() / y.scale();
    return out;
  }
  void Show(const Viewport& viewport) {
    x.Show(viewport.x0, viewport.x1);
    y.Show(viewport.y0, viewport.y1);
  }

  ViewTransform Magnified(double ratio) const {
    ViewTransform out = *this;
    out.x = x.Magnified(ratio);
    out.y = y.Magnified(ratio);
    return out;
  }

  ViewAxis x, y;
};

struct Tick {
  int64_t value = 0;
  QString label;
};
// Returns round numbers (1, 2 or 5 times a power of ten, at least 1 apart) in [first, last], at least `least` pixels
// apart.
std::vector<Tick> Ticks(double first, double last, double pixels_per_unit, double least);

}  // namespace lockstep::gui
