#include "gui/view/bandwidth/pane.h"

#include <QFontMetricsF>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr double kNear = 8;         // pixels
constexpr double kFewest = 4;       // points across the plot
constexpr double kLeastStripe = 3;  // stripes of hosts narrower than this are not drawn

}  // namespace

BandwidthPane::BandwidthPane(Navigator* navigator, QWidget* parent)
    : Pane("Bandwidth plot",
           "Left and Right move between ranks, with Ctrl between outliers; Enter selects; Page Up and Page Down change "
           "the series.",
           parent),
      navigator_(navigator) {
  setMinimumSize(240, 140);
  connect(navigator, &Navigator::SelectionChanged, this, [this] { update(); });
}

const BandwidthSeries* BandwidthPane::Series() const {
  if (document_ == nullptr || series_ < 0 || series_ >= document_->facts().bandwidths_size()) return nullptr;
  return &document_->facts().bandwidths(series_);
}

void BandwidthPane::Show(DocumentPtr document, int series) {
  document_ = std::move(document);
  series_ = series;
  const BandwidthSeries* s = Series();
  shares_ = s == nullptr ? BandwidthShares() : SharesOf(*s);
  cursor_ = -1;
  Fit();
}

QString BandwidthPane::NotMeasured() const {
  if (document_ == nullptr) return "Nothing is open.";
  const BandwidthSeries* s = Series();
  if (s != nullptr && s->points_size() > 0 && shares_.best_bytes_per_s > 0) return {};
  QStringList lines;
  if (s == nullptr) {
    if (document_->verdict().not_measured().empty())
      lines << "No kind and size of operation occurs often enough to measure its bandwidth.";
  } else if (s->clock().empty()) {
    lines << "Not measured, because neither markers, the profiler nor the framework recorded the GPU times of these "
             "operations.";
  } else {
    lines << "Not measured: no operation has both a start and a completion time.";
  }
  for (const std::string& text : document_->verdict().not_measured()) lines << "Not measured: " + Plain(text);
  return lines.mid(0, 6).join('\n');
}

QRect BandwidthPane::PlotOf(const QSize& size) const {
  const QFontMetricsF metrics(font());
  const int left = static_cast<int>(metrics.horizontalAdvance("100 %")) + 14,
            below = static_cast<int>(metrics.height() * 2) + 12;
  return QRect(left, 10, std::max(1, size.width() - left - 12), std::max(1, size.height() - below - 10));
}

double BandwidthPane::XOf(double point, const QRect& plot) const {
  return plot.left() + (point + 0.5 - x0_) / std::max(x1_ - x0_, 1e-9) * plot.width();
}

QPointF BandwidthPane::PointAt(int point) const {
  const QRect plot = PlotOf(size());
  return {XOf(point, plot), plot.bottom() - shares_.points[static_cast<size_t>(point)].median * plot.height()};
}

int BandwidthPane::NearestTo(const QPointF& at) const {
  const QRect plot = PlotOf(size());
  const double per_pixel = (x1_ - x0_) / plot.width();
  const double middle = x0_ + (at.x() - plot.left()) * per_pixel - 0.5;
  const int first = std::max(0, static_cast<int>(std::floor(middle - kNear * per_pixel)));
  const int last =
      std::min(static_cast<int>(shares_.points.size()) - 1, static_cast<int>(std::ceil(middle + kNear * per_pixel)));
  int best = -1;
  double nearest = kNear * kNear;
  for (const bool outliers : {true, false}) {
    for (int i = first; i <= last; ++i) {
      const BandwidthShare& share = shares_.points[static_cast<size_t>(i)];
      if (share.outlier != outliers) continue;
      const QPointF point = PointAt(i);
      // The line of a point extends from the median down to the worst value.
      const double down = plot.bottom() - share.worst * plot.height();
      const double y = std::clamp(at.y(), point.y(), std::max(point.y(), down));
      const double distance = (point.x() - at.x()) * (point.x() - at.x()) + (y - at.y()) * (y - at.y());
      if (distance < nearest) {
        nearest = distance;
        best = i;
      }
    }
    if (best >= 0) return best;
  }
  return best;
}

QString BandwidthPane::PointText(int point) const {
  const BandwidthSeries* s = Series();
  if (s == nullptr || point < 0 || point >= s->points_size()) return {};
  const auto& p = s->points(point);
  const BandwidthShare& share = shares_.points[static_cast<size_t>(point)];
  const int row = document_->RowOf(p.rank());
  QStringList lines;
  lines << QString("rank %1").arg(p.rank()) +
               (row >= 0 ? QString(" on %1, GPU %2").arg(document_->HostAt(row)).arg(document_->Entry(row).gpu)
                         : QString());
  lines << QString::fromStdString(s->label());
  lines << QString("median %1, %2 % of the best")
               .arg(RateText(p.median_bytes_per_s()))
               .arg(share.median * 100, 0, 'f', 0);
  lines << QString("worst %1 at #%2 on %3")
               .arg(RateText(p.worst_bytes_per_s()))
               .arg(p.worst_sequence())
               .arg(document_->CommName(p.comm()));
  lines << QString("%L1 operations").arg(p.operations());
  if (share.outlier) lines << "far below the others";
  return lines.join('\n');
}

void BandwidthPane::SetCursor(int point) {
  if (shares_.points.empty()) return;
  cursor_ = std::clamp(point, 0, static_cast<int>(shares_.points.size()) - 1);
  const double wide = x1_ - x0_;
  if (cursor_ < x0_ || cursor_ + 1 > x1_) {
    x0_ = std::clamp(cursor_ - wide / 2, 0.0, std::max(0.0, static_cast<double>(shares_.points.size()) - wide));
    x1_ = x0_ + wide;
  }
  setAccessibleDescription(PointText(cursor_));
  update();
}

void BandwidthPane::Select(int point) {
  const BandwidthSeries* s = Series();
  if (s == nullptr || point < 0 || point >= s->points_size()) return;
  const auto& p = s->points(point);
  navigator_->Select(Selection::Of(Ranks::Between(p.rank(), p.rank()), p.comm(), p.worst_sequence()));
}

void BandwidthPane::Zoom(double factor, double at_share) {
  const auto all = static_cast<double>(shares_.points.size());
  if (all == 0) return;
  const double at = x0_ + at_share * (x1_ - x0_), wide = std::clamp((x1_ - x0_) / factor, std::min(kFewest, all), all);
  x0_ = std::clamp(at - at_share * wide, 0.0, all - wide);
  x1_ = x0_ + wide;
  update();
}

void BandwidthPane::Pan(double right) {
  const double wide = x1_ - x0_, all = static_cast<double>(shares_.points.size());
  x0_ = std::clamp(x0_ + right * wide, 0.0, std::max(0.0, all - wide));
  x1_ = x0_ + wide;
  update();
}

void BandwidthPane::Fit() {
  x0_ = 0;
  x1_ = std::max<double>(1, static_cast<double>(shares_.points.size()));
  update();
}

void BandwidthPane::CentreOnSelection() {
  const BandwidthSeries* s = Series();
  for (int i = 0; s != nullptr && i < s->points_size(); ++i) {
    if (!navigator_->selection().ranks.Contains(s->points(i).rank())) continue;
    SetCursor(i);
    return;
  }
}

struct BandwidthPane::Drawing {
  QPainter* painter;
  const Theme& theme;
  QFontMetricsF metrics;
  QRect plot;
  int first, last;  // the points that are shown
  double Y(double share) const { return plot.bottom() - share * plot.height(); }
};

// Draws hosts as stripes, with names if there is space.
void BandwidthPane::DrawHosts(const Drawing& d, const QSize& size) const {
  const BandwidthSeries& s = *Series();
  QPainter* painter = d.painter;
  double free_from = d.plot.left();
  bool odd = false;
  for (int i = d.first; i < d.last;) {
    const int row = document_->RowOf(s.points(i).rank());
    const uint32_t host = row < 0 ? UINT32_MAX : document_->Entry(row).host;
    int next = i + 1;
    while (next < d.last) {
      const int other = document_->RowOf(s.points(next).rank());
      if ((other < 0 ? UINT32_MAX : document_->Entry(other).host) != host) break;
      ++next;
    }
    const double a = std::max<double>(XOf(i - 0.5, d.plot), d.plot.left()),
                 b = std::min<double>(XOf(next - 0.5, d.plot), d.plot.right() + 1);
    odd = !odd;
    if (odd && b - a >= kLeastStripe) {
      QColor stripe = d.theme.grid;
      stripe.setAlpha(80);
      painter->fillRect(QRectF(QPointF(a, d.plot.top()), QPointF(b, d.plot.bottom() + 1)), stripe);
    }
    if (row >= 0) {
      const QString name = document_->HostAt(row);
      const double width = d.metrics.horizontalAdvance(name);
      if (a >= free_from && a + width < size.width()) {
        painter->setPen(d.theme.faint_text);
        painter->drawLine(QPointF(a, d.plot.bottom() + 1), QPointF(a, d.plot.bottom() + 6));
        painter->drawText(QPointF(a + 3, d.plot.bottom() + d.metrics.height() + 2), name);
        free_from = a + width + 16;
      }
    }
    i = next;
  }
}

void BandwidthPane::DrawScale(const Drawing& d) const {
  QPainter* painter = d.painter;
  for (int percent = 0; percent <= 100; percent += 20) {
    const double y = d.plot.bottom() - percent / 100.0 * d.plot.height();
    painter->setPen(d.theme.grid);
    painter->drawLine(QPointF(d.plot.left(), y), QPointF(d.plot.right(), y));
    painter->setPen(d.theme.faint_text);
    painter->drawText(QRectF(0, y - d.metrics.height() / 2, d.plot.left() - 6, d.metrics.height()),
                      Qt::AlignRight | Qt::AlignVCenter, QString("%1 %").arg(percent));
  }
  painter->setPen(QPen(d.theme.link, 1, Qt::DashLine));
  const double middle = d.plot.bottom() - shares_.median_share * d.plot.height();
  painter->drawLine(QPointF(d.plot.left(), middle), QPointF(d.plot.right(), middle));
}

// Draws pixel columns, each with the range of its medians, and a line down to the worst value.
void BandwidthPane::DrawColumns(const Drawing& d) const {
  QPainter* painter = d.painter;
  const QColor usual = d.theme.Of(ViewState::kStarted).fill;
  QColor faint = usual;
  faint.setAlpha(90);
  int column = INT_MIN;
  double low = 0, high = 0, worst = 0;
  auto flush = [&] {
    if (column == INT_MIN) return;
    painter->fillRect(QRectF(column, d.Y(low), 1, std::max(1.0, d.Y(worst) - d.Y(low))), faint);
    painter->fillRect(QRectF(column, d.Y(high) - 1, 1, d.Y(low) - d.Y(high) + 2), usual);
  };
  for (int i = d.first; i < d.last; ++i) {
    const BandwidthShare& share = shares_.points[static_cast<size_t>(i)];
    const int x = static_cast<int>(XOf(i, d.plot));
    if (x != column) {
      flush();
      column = x;
      low = high = share.median;
      worst = share.worst;
    }
    low = std::min(low, share.median);
    high = std::max(high, share.median);
    worst = std::min(worst, share.worst);
  }
  flush();
}

// Draws a dot for the median of each rank, and a line down to its worst value.
void BandwidthPane::DrawDots(const Drawing& d, double apart) const {
  QPainter* painter = d.painter;
  const QColor usual = d.theme.Of(ViewState::kStarted).fill;
  QColor faint = usual;
  faint.setAlpha(90);
  painter->setRenderHint(QPainter::Antialiasing);
  const double radius = std::clamp(apart * 0.3, 1.5, 4.0);
  for (int i = d.first; i < d.last; ++i) {
    const BandwidthShare& share = shares_.points[static_cast<size_t>(i)];
    const double x = XOf(i, d.plot);
    painter->setPen(QPen(faint, std::min(apart * 0.4, 2.0)));
    painter->drawLine(QPointF(x, d.Y(share.median)), QPointF(x, d.Y(share.worst)));
    painter->setPen(Qt::NoPen);
    painter->setBrush(usual);
    painter->drawEllipse(QPointF(x, d.Y(share.median)), radius, radius);
  }
}

void BandwidthPane::DrawMarked(const Drawing& d) const {
  const BandwidthSeries& s = *Series();
  QPainter* painter = d.painter;
  double named_until = 0;
  for (int i = d.first; i < d.last; ++i) {
    const BandwidthShare& share = shares_.points[static_cast<size_t>(i)];
    const bool selected = navigator_->selection().ranks.Contains(s.points(i).rank());
    if (!share.outlier && !selected) continue;
    const QPointF at(XOf(i, d.plot), d.Y(share.median));
    if (share.outlier) {
      painter->setPen(QPen(d.theme.cause, 1.5));
      painter->setBrush(d.theme.cause);
      painter->drawLine(at, QPointF(at.x(), d.Y(share.worst)));
      const QPolygonF diamond({at + QPointF(0, -5), at + QPointF(5, 0), at + QPointF(0, 5), at + QPointF(-5, 0)});
      painter->drawPolygon(diamond);
      const QString name = QString("rank %1").arg(s.points(i).rank());
      const double width = d.metrics.horizontalAdvance(name);
      const double left = at.x() + 8 + width > d.plot.right() ? at.x() - 8 - width : at.x() + 8;
      if (left > named_until) {
        painter->setPen(d.theme.text);
        painter->drawText(QPointF(left, at.y() + d.metrics.ascent() / 2), name);
        named_until = left + width + 8;
      }
    }
    if (selected) {
      painter->setPen(QPen(d.theme.selection, 2));
      painter->setBrush(Qt::NoBrush);
      painter->drawEllipse(at, 8, 8);
    }
  }
}

void BandwidthPane::Draw(QPainter* painter, const QSize& size, bool whole) {
  if (!Begin(painter, size, NotMeasured())) return;
  const Theme& theme = ThemeFor(palette());
  const BandwidthSeries& s = *Series();
  Drawing d{painter, theme, QFontMetricsF(font()), PlotOf(size), std::clamp(static_cast<int>(x0_), 0, s.points_size()),
            0};
  d.last = std::clamp(static_cast<int>(std::ceil(x1_)), d.first, s.points_size());
  DrawHosts(d, size);
  DrawScale(d);
  const double apart = d.plot.width() / std::max(x1_ - x0_, 1e-9);
  painter->save();
  painter->setClipRect(d.plot.adjusted(-6, -6, 6, 6));
  if (apart < 3)
    DrawColumns(d);
  else
    DrawDots(d, apart);
  painter->setRenderHint(QPainter::Antialiasing);
  DrawMarked(d);
  if (cursor_ >= d.first && cursor_ < d.last && !whole) {
    painter->setPen(QPen(theme.cursor, 1, hasFocus() ? Qt::SolidLine : Qt::DotLine));
    painter->setBrush(Qt::NoBrush);
    painter->drawRect(
        QRectF(XOf(cursor_, d.plot) - 7, d.Y(shares_.points[static_cast<size_t>(cursor_)].median) - 7, 14, 14));
  }
  painter->restore();
  painter->setPen(theme.faint_text);
  const QString note = QString("100 % = %1, measured by %2; dot: median of a rank, line: down to its worst")
                           .arg(RateText(shares_.best_bytes_per_s), QString::fromStdString(s.clock()));
  painter->drawText(QRectF(d.plot.left(), size.height() - d.metrics.height() - 3, d.plot.width(), d.metrics.height()),
                    Qt::AlignLeft | Qt::AlignVCenter, d.metrics.elidedText(note, Qt::ElideRight, d.plot.width()));
}

void BandwidthPane::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  const int point = NearestTo(event->position());
  if (point < 0) return;
  SetCursor(point);
  Select(point);
}

void BandwidthPane::wheelEvent(QWheelEvent* event) {
  const double turn = (event->angleDelta().y() != 0 ? event->angleDelta().y() : event->angleDelta().x()) / 120.0;
  const QRect plot = PlotOf(size());
  if (event->modifiers().testFlag(Qt::ControlModifier)) {
    Zoom(std::pow(1.25, turn), std::clamp((event->position().x() - plot.left()) / plot.width(), 0.0, 1.0));
  } else {
    Pan(-turn * 0.1);
  }
  event->accept();
}

void BandwidthPane::keyPressEvent(QKeyEvent* event) {
  const int step = event->key() == Qt::Key_Left ? -1 : 1;
  const int count = static_cast<int>(shares_.points.size());
  switch (event->key()) {
    case Qt::Key_Left:
    case Qt::Key_Right:
      if (event->modifiers().testFlag(Qt::ControlModifier)) {
        for (int i = cursor_ < 0 ? (step > 0 ? 0 : count - 1) : cursor_ + step; i >= 0 && i < count; i += step) {
          if (!shares_.points[static_cast<size_t>(i)].outlier) continue;
          SetCursor(i);
          break;
        }
      } else {
        SetCursor(cursor_ < 0 ? static_cast<int>(x0_) : cursor_ + step);
      }
      break;
    case Qt::Key_Home: SetCursor(0); break;
    case Qt::Key_End: SetCursor(count - 1); break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space: Select(cursor_); break;
    case Qt::Key_PageUp:
      if (on_series) on_series(-1);
      break;
    case Qt::Key_PageDown:
      if (on_series) on_series(1);
      break;
    default: QWidget::keyPressEvent(event);
  }
}

}  // namespace lockstep::gui
