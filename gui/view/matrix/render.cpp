#include "gui/view/matrix/render.h"

#include <QFont>
#include <QPainter>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "analyzer/util/parallel.h"

namespace lockstep::gui {
namespace {

// The number of parts of `lines` that are worth a thread.
int PartsOf(int lines, int threads) { return std::clamp(threads, 1, std::max(1, lines / 64)); }

void MaxInto(uint8_t* __restrict out, const uint8_t* __restrict in, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = out[i] > in[i] ? out[i] : in[i];
}

// Combines four rows at once: memory access dominates the cost, and this accesses the result once for four rows.
void MaxInto4(uint8_t* __restrict out, const uint8_t* __restrict a, const uint8_t* __restrict b,
              const uint8_t* __restrict c, const uint8_t* __restrict d, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint8_t ab = a[i] > b[i] ? a[i] : b[i], cd = c[i] > d[i] ? c[i] : d[i];
    const uint8_t all = ab > cd ? ab : cd;
    out[i] = out[i] > all ? out[i] : all;
  }
}

// Sets out[i] to the largest of in[i] .. in[i + length - 1]; `in` must have `length` zeros after its n elements.
void SlidingMax(const uint8_t* in, size_t n, int length, std::vector<uint8_t>* scratch, uint8_t* __restrict out) {
  scratch->assign(in, in + n + static_cast<size_t>(length));
  int reach = 1;
  uint8_t* m = scratch->data();
  const size_t size = scratch->size();
  for (; reach * 2 <= length; reach *= 2) {
    const size_t by = static_cast<size_t>(reach);
    for (size_t i = 0; i + by < size; ++i) m[i] = m[i] > m[i + by] ? m[i] : m[i + by];
  }
  const size_t rest = static_cast<size_t>(length - reach);
  for (size_t i = 0; i < n; ++i) out[i] = m[i] > m[i + rest] ? m[i] : m[i + rest];
}

// Converts the columns' states to a line of pixels.
class Columns {
 public:
  Columns(const PixelCells& cells, const ViewAxis& axis, int width) : cells_(cells), width_(width) {
    int32_t end = 0;
    begin_ = INT32_MAX;
    for (int x = 0; x < width; ++x) {
      if (cells.first[static_cast<size_t>(x)] < 0) continue;
      begin_ = std::min(begin_, cells.first[static_cast<size_t>(x)]);
      end = std::max(end, cells.end[static_cast<size_t>(x)]);
    }
    count_ = begin_ < end ? end - begin_ : 0;
    if (count_ == 0) begin_ = 0;
    length_ = axis.scale() >= 1 ? 1 : std::max(1, static_cast<int>(std::floor(1 / axis.scale())));
    const bool grid = axis.scale() >= kGridFrom;
    // source_ maps each pixel to an element of [windows of `length`, windows of `length` + 1, grid, empty].
    source_.resize(static_cast<size_t>(width));
    const uint32_t n = static_cast<uint32_t>(count_);
    for (int x = 0; x < width; ++x) {
      const size_t i = static_cast<size_t>(x);
      const int32_t first = cells.first[i], length = cells.end[i] - first;
      if (first < 0) {
        source_[i] = 2 * n + 1;
      } else if (grid && (x + 1 == width ? axis.CellAt(x + 1.5) != first : cells.first[i + 1] != first)) {
        source_[i] = 2 * n;
      } else {
        source_[i] = static_cast<uint32_t>(first - begin_) + (length == length_ + 1 ? n : 0);
        if (length != length_ && length != length_ + 1) odd_.push_back(x);
      }
      wide_ |= length == length_ + 1;
    }
  }

  int32_t begin() const { return begin_; }
  int32_t count() const { return count_; }
  struct Scratch {
    std::vector<uint8_t> states, windows, sliding;
  };
  void Prepare(Scratch* scratch) const {
    scratch->states.assign(static_cast<size_t>(count_ + length_ + 2), 0);
    scratch->windows.assign(static_cast<size_t>(count_) * 2 + 2, 0);
    scratch->windows[static_cast<size_t>(count_) * 2] = kGridPixel;
    scratch->windows[static_cast<size_t>(count_) * 2 + 1] = kEmptyPixel;
  }
  // scratch->states must contain the states of the columns.
  void Line(Scratch* scratch, uint8_t* __restrict out) const {
    const size_t n = static_cast<size_t>(count_);
    if (length_ == 1) {
      std::memcpy(scratch->windows.data(), scratch->states.data(), n);
    } else {
      SlidingMax(scratch->states.data(), n, length_, &scratch->sliding, scratch->windows.data());
    }
    if (wide_) SlidingMax(scratch->states.data(), n, length_ + 1, &scratch->sliding, scratch->windows.data() + n);
    const uint8_t* __restrict windows = scratch->windows.data();
    const uint32_t* __restrict source = source_.data();
    for (int x = 0; x < width_; ++x) out[x] = windows[source[x]];
    for (const int x : odd_) {
      uint8_t worst = 0;
      for (int32_t c = cells_.first[static_cast<size_t>(x)]; c < cells_.end[static_cast<size_t>(x)]; ++c) {
        worst = std::max(worst, scratch->states[static_cast<size_t>(c - begin_)]);
      }
      out[x] = worst;
    }
  }

 private:
  const PixelCells& cells_;
  int width_;
  int32_t begin_ = 0, count_ = 0;
  int length_ = 1;
  bool wide_ = false;
  std::vector<uint32_t> source_;
  std::vector<int> odd_;
};

// The colors of each state, as a tile of 8 x 8 pixels, because some states are hatched.
struct Colours {
  std::array<QRgb, 8 * (kEmptyPixel + 1) * 8> at;  // [y & 7][state][x & 7]

  explicit Colours(const Theme& theme) {
    auto set = [&](int y, size_t state, int x, const QColor& colour) {
      at[(static_cast<size_t>(y) * (kEmptyPixel + 1) + state) * 8 + static_cast<size_t>(x)] = colour.rgb();
    };
    for (int y = 0; y < 8; ++y) {
      for (int x = 0; x < 8; ++x) {
        for (size_t s = 0; s < static_cast<size_t>(ViewState::kCount); ++s) {
          const StateStyle& style = theme.states[s];
          const bool line = style.hatch == Qt::BDiagPattern ? ((x + y) & 7) < 2
                            : style.hatch == Qt::NoBrush
                                ? false
                                : ((x & 3) == 0 && (y & 7) == 1) || ((x & 3) == 2 && (y & 7) == 5);
          set(y, s, x, line ? style.ink : style.fill);
        }
        set(y, kGridPixel, x, theme.background);
        set(y, kEmptyPixel, x, theme.background);
      }
    }
  }
};

// The hatch must move with the cells.
int Phase(double offset) { return static_cast<int>(static_cast<int64_t>(std::floor(std::fmod(offset, 8.0)) + 8) & 7); }

// The sign of each state in its ink color, on a transparent background; null if there is none.
std::array<QImage, static_cast<size_t>(ViewState::kCount)> Glyphs(const Theme& theme, double width, double height) {
  std::array<QImage, static_cast<size_t>(ViewState::kCount)> out;
  const int size = std::clamp(static_cast<int>(std::min(width, height) * 0.78), 7, 40);
  for (size_t s = 0; s < out.size(); ++s) {
    const StateStyle& style = theme.states[s];
    if (style.glyph == ' ') continue;
    QImage image(size + 2, size + 2, QImage::Format_ARGB32_Premultiplied);
    image.fill(Qt::transparent);
    QPainter painter(&image);
    painter.setRenderHint(QPainter::Antialiasing);
    QFont font("DejaVu Sans");
    font.setPixelSize(size);
    font.setBold(true);
    painter.setFont(font);
    painter.setPen(style.ink);
    painter.drawText(image.rect(), Qt::AlignCenter, QString(style.glyph));
    painter.end();
    out[s] = std::move(image);
  }
  return out;
}

void DrawGlyphs(const CellMatrix& matrix, absl::Span<const uint32_t> rows, const ViewTransform& transform,
                const Theme& theme, QImage* image) {
  if (transform.x.scale() < kGlyphsFrom || transform.y.scale() < kGlyphsFrom) return;
  const auto glyphs = Glyphs(theme, transform.x.scale(), transform.y.scale());
  QPainter painter(image);
  const int first_line = std::max(0, static_cast<int>(std::floor(transform.y.first())));
  const int last_line =
      std::min(static_cast<int>(rows.size()) - 1, static_cast<int>(transform.y.ToCell(image->height())));
  const int first_column = std::max(0, static_cast<int>(std::floor(transform.x.first())));
  const int last_column = std::min(matrix.columns - 1, static_cast<int>(transform.x.ToCell(image->width())));
  for (int line = first_line; line <= last_line; ++line) {
    const uint32_t row = rows[static_cast<size_t>(line)];
    if (row >= static_cast<uint32_t>(matrix.rows)) continue;
    const uint8_t* cells = matrix.Row(static_cast<int>(row));
    const double middle = (transform.y.ToPixel(line) + transform.y.ToPixel(line + 1) - 1) / 2;
    for (int column = first_column; column <= last_column; ++column) {
      const uint8_t state = cells[column];
      if (state >= glyphs.size() || glyphs[state].isNull()) continue;
      const QImage& glyph = glyphs[state];
      const double centre = (transform.x.ToPixel(column) + transform.x.ToPixel(column + 1) - 1) / 2;
      painter.drawImage(static_cast<int>(std::lround(centre - glyph.width() / 2.0)),
                        static_cast<int>(std::lround(middle - glyph.height() / 2.0)), glyph);
    }
  }
}

}  // namespace

PixelCells CellsOfPixels(const ViewAxis& axis, int pixels) {
  PixelCells out;
  out.first.assign(static_cast<size_t>(std::max(pixels, 0)), -1);
  out.end = out.first;
  const int64_t cells = static_cast<int64_t>(axis.cells());
  constexpr double kHair = 1e-6;  // tolerance for rounding errors, as a fraction of a cell
  for (int i = 0; i < pixels; ++i) {
    int64_t first = 0, end = 0;
    if (axis.scale() >= 1) {
      first = static_cast<int64_t>(std::floor(axis.ToCell(i + 0.5)));
      end = first + 1;
    } else {
      first = static_cast<int64_t>(std::floor(axis.ToCell(i) + kHair));
      const double next = axis.ToCell(i + 1);
      end = i + 1 == pixels ? static_cast<int64_t>(std::ceil(next - kHair))
                            : static_cast<int64_t>(std::floor(next + kHair));
      end = std::max(end, first + 1);
    }
    if (first < 0 || first >= cells) continue;
    out.first[static_cast<size_t>(i)] = static_cast<int32_t>(first);
    out.end[static_cast<size_t>(i)] = static_cast<int32_t>(std::min(end, cells));
  }
  return out;
}

PixelStates WorstStates(const CellMatrix& matrix, absl::Span<const uint32_t> rows, const ViewTransform& transform,
                        int threads) {
  PixelStates out;
  out.width = std::clamp(static_cast<int>(std::ceil(transform.x.pixels())), 0, 32768);
  out.height = std::clamp(static_cast<int>(std::ceil(transform.y.pixels())), 0, 32768);
  out.pixels.resize(static_cast<size_t>(out.width) * static_cast<size_t>(out.height));
  const size_t width = static_cast<size_t>(out.width);
  const PixelCells across = CellsOfPixels(transform.x, out.width), down = CellsOfPixels(transform.y, out.height);
  const Columns columns(across, transform.x, out.width);
  const bool grid = transform.y.scale() >= kGridFrom;
  const size_t count = static_cast<size_t>(columns.count());
  InParts(out.height, PartsOf(out.height, threads), [&](int first, int last) {
    Columns::Scratch scratch;
    columns.Prepare(&scratch);
    std::vector<const uint8_t*> sources;
    int32_t drawn_first = -2, drawn_end = -2;
    const uint8_t* drawn = nullptr;
    for (int y = first; y < last; ++y) {
      uint8_t* line = out.pixels.data() + static_cast<size_t>(y) * width;
      const int32_t begin = down.first[static_cast<size_t>(y)];
      const int32_t end = std::min(down.end[static_cast<size_t>(y)], static_cast<int32_t>(rows.size()));
      if (begin < 0 || begin >= end || count == 0) {
        std::memset(line, kEmptyPixel, width);
        continue;
      }
      const bool edge =
          grid && (y + 1 == out.height ? transform.y.CellAt(y + 1.5) : down.first[static_cast<size_t>(y) + 1]) != begin;
      if (edge) {
        for (size_t x = 0; x < width; ++x) line[x] = across.first[x] < 0 ? kEmptyPixel : kGridPixel;
        continue;
      }
      if (begin == drawn_first && end == drawn_end) {
        std::memcpy(line, drawn, width);
        continue;
      }
      sources.clear();
      for (int32_t l = begin; l < end; ++l) {
        const uint32_t row = rows[static_cast<size_t>(l)];
        if (row < static_cast<uint32_t>(matrix.rows))
          sources.push_back(matrix.Row(static_cast<int>(row)) + columns.begin());
      }
      uint8_t* states = scratch.states.data();
      std::memset(states, 0, count);
      size_t s = 0;
      for (; s + 4 <= sources.size(); s += 4)
        MaxInto4(states, sources[s], sources[s + 1], sources[s + 2], sources[s + 3], count);
      for (; s < sources.size(); ++s) MaxInto(states, sources[s], count);
      columns.Line(&scratch, line);
      drawn_first = begin;
      drawn_end = end;
      drawn = line;
    }
  });
  return out;
}

void GrowFaults(const ViewTransform& transform, PixelStates* states) {
  const bool across = transform.x.scale() < kLeastFaultPixels, down = transform.y.scale() < kLeastFaultPixels;
  const int width = states->width, height = states->height;
  if ((!across && !down) || width < 3 || height < 3) return;
  const size_t w = static_cast<size_t>(width);
  auto fault = [](uint8_t s) -> uint8_t {
    return static_cast<uint8_t>(s - static_cast<uint8_t>(ViewState::kFailed)) <= 2 ? s : 0;
  };
  // Copies the faults to `spread`. With `across`, each becomes one pixel wider on both sides.
  std::vector<uint8_t> spread(states->pixels.size()), faults(w);
  std::vector<char> has(static_cast<size_t>(height), 0);
  for (int y = 0; y < height; ++y) {
    const uint8_t* line = states->pixels.data() + static_cast<size_t>(y) * w;
    uint8_t any = 0;
    for (size_t x = 0; x < w; ++x) {
      faults[x] = fault(line[x]);
      any |= faults[x];
    }
    if (any == 0) continue;
    has[static_cast<size_t>(y)] = 1;
    uint8_t* out = spread.data() + static_cast<size_t>(y) * w;
    std::memcpy(out, faults.data(), w);
    if (!across) continue;
    MaxInto(out, faults.data() + 1, w - 1);
    MaxInto(out + 1, faults.data(), w - 1);
    out[2] = std::max(out[2], faults[0]);
    out[w - 3] = std::max(out[w - 3], faults[w - 1]);
  }
  std::vector<uint8_t> worst(w);
  for (int y = 0; y < height; ++y) {
    int from[5], n = 0;
    for (const int other : {y, down ? y - 1 : -1, down ? y + 1 : -1, down && y == 2 ? 0 : -1,
                            down && y == height - 3 ? height - 1 : -1}) {
      if (other >= 0 && other < height && has[static_cast<size_t>(other)] != 0) from[n++] = other;
    }
    if (n == 0) continue;
    std::memset(worst.data(), 0, w);
    for (int i = 0; i < n; ++i) MaxInto(worst.data(), spread.data() + static_cast<size_t>(from[i]) * w, w);
    uint8_t* line = states->pixels.data() + static_cast<size_t>(y) * w;
    for (size_t x = 0; x < w; ++x) line[x] = fault(line[x]) != 0 || worst[x] == 0 ? line[x] : worst[x];
  }
}

QImage RenderMatrix(const CellMatrix& matrix, absl::Span<const uint32_t> rows, const ViewTransform& transform,
                    const Theme& theme, int threads) {
  PixelStates states = WorstStates(matrix, rows, transform, threads);
  if (states.width == 0 || states.height == 0) return {};
  GrowFaults(transform, &states);
  QImage image(states.width, states.height, QImage::Format_RGB32);
  if (image.isNull()) return image;
  const Colours colours(theme);
  const int px = Phase(transform.x.first() * transform.x.scale()),
            py = Phase(transform.y.first() * transform.y.scale());
  uchar* bits = image.bits();
  const qsizetype stride = image.bytesPerLine();
  InParts(states.height, PartsOf(states.height, threads), [&](int first, int last) {
    for (int y = first; y < last; ++y) {
      const QRgb* table = colours.at.data() + ((y + py) & 7) * (kEmptyPixel + 1) * 8;
      QRgb* out = reinterpret_cast<QRgb*>(bits + y * stride);
      const uint8_t* in = states.pixels.data() + static_cast<size_t>(y) * static_cast<size_t>(states.width);
      for (int x = 0; x < states.width; ++x) out[x] = table[in[x] * 8 + ((x + px) & 7)];
    }
  });
  DrawGlyphs(matrix, rows, transform, theme, &image);
  return image;
}

QImage RenderSample(ViewState state, const Theme& theme, QSize size, double ratio) {
  CellMatrix matrix;
  matrix.rows = matrix.columns = 1;
  matrix.cells = {static_cast<uint8_t>(state)};
  const double width = size.width() * ratio, height = size.height() * ratio;
  ViewTransform transform;
  transform.x = ViewAxis(1, width, width + 2, width + 2);
  transform.y = ViewAxis(1, height, height + 2, height + 2);
  const uint32_t row = 0;
  QImage image = RenderMatrix(matrix, {&row, 1}, transform, theme);
  image.setDevicePixelRatio(ratio);
  return image;
}

}  // namespace lockstep::gui
