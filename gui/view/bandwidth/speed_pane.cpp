#include "gui/view/bandwidth/speed_pane.h"

#include <QFontMetricsF>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>

#include <algorithm>
#include <climits>
#include <cmath>
#include <utility>

#include "gui/model/bandwidth/bandwidth.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr double kNearMark = 12;      // pixels
constexpr double kWidestColumn = 64;  // pixels
constexpr double kAbove = 1.05;       // largest share that is drawn
constexpr int kSpeedTicks = 4;
constexpr int kMarkShapes = 5;  // later series repeat the shapes, hollow

QString SizeTick(double power) {
  const int unit = std::clamp(static_cast<int>(power / 10), 0, 3);
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  return QString("%1 %2").arg(std::exp2(power - 10.0 * unit), 0, 'g', 4).arg(kUnits[unit]);
}

// Returns the smallest axis end of at least `most` whose quarters are round numbers.
double RoundTop(double most) {
  const double quarter = std::max(most, 1.0) / kSpeedTicks, unit = std::pow(10, std::floor(std::log10(quarter)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (unit * factor >= quarter) return kSpeedTicks * unit * factor;
  }
  return kSpeedTicks * unit * 10;
}

// Series differ by shape, not only by color.
void DrawMark(QPainter* painter, const QPointF& at, int series, const QColor& color, double radius) {
  QPainterPath path;
  const double r = radius;
  switch (series % kMarkShapes) {
    case 0: path.addEllipse(at, r, r); break;
    case 1: path.addRect(QRectF(at.x() - r, at.y() - r, 2 * r, 2 * r)); break;
    case 2: path.addPolygon(QPolygonF({at + QPointF(0, -r), at + QPointF(r, r), at + QPointF(-r, r)})); break;
    case 3:
      path.addPolygon(QPolygonF({at + QPointF(0, -r), at + QPointF(r, 0), at + QPointF(0, r), at + QPointF(-r, 0)}));
      break;
    default: path.addPolygon(QPolygonF({at + QPointF(-r, -r), at + QPointF(r, -r), at + QPointF(0, r)})); break;
  }
  path.closeSubpath();
  painter->setPen(QPen(color, 1.5));
  painter->setBrush(series / kMarkShapes % 2 == 0 ? QBrush(color) : QBrush(Qt::NoBrush));
  painter->drawPath(path);
}

}  // namespace

// The vertical axis. If `top` is 0, the axis shows shares of the possible speed; otherwise bytes per second up to
// `top`.
struct SpeedPane::Axis {
  double top = 0;
  double Of(const SpeedRow& row, double rate) const {
    const double whole = top > 0 ? top : row.possible;
    return whole > 0 ? std::clamp(rate / whole, 0.0, kAbove) : 0;
  }
  QString Label(double share) const {
    return top > 0 ? RateText(share * top) : QString("%1 %").arg(100 * share, 0, 'f', 0);
  }
};

struct SpeedPane::Drawing {
  QPainter* painter;
  const Theme& theme;
  QFontMetricsF metrics;
  static double Y(const QRect& plot, double share) { return plot.bottom() - share / kAbove * plot.height(); }
};

SpeedPane::SpeedPane(Navigator* navigator, QWidget* parent)
    : Pane("Speed plot",
           "Left and Right move between hosts; Enter selects the ranks of a host; Page Up and Page Down change the "
           "operation.",
           parent),
      navigator_(navigator) {
  setMinimumSize(240, 200);
}

const SpeedRow* SpeedPane::Row() const {
  return speed_ < 0 || speed_ >= static_cast<int>(speeds_.rows.size()) ? nullptr
                                                                       : &speeds_.rows[static_cast<size_t>(speed_)];
}

void SpeedPane::Show(DocumentPtr document, int speed) {
  if (document != document_) {
    document_ = std::move(document);
    speeds_ = document_ == nullptr ? Speeds() : SpeedsOf(document_->verdict());
    double first = 1e9, last = 0;
    for (const SpeedRow& row : speeds_.rows) {
      if (!IsPlotted(row)) continue;
      first = std::min(first, std::floor(std::log2(static_cast<double>(row.bytes))));
      last = std::max(last, std::ceil(std::log2(static_cast<double>(row.bytes))));
    }
    first_power_ = std::min(first, last);
    last_power_ = std::max(last, first_power_ + 1);
  }
  speed_ = speed;
  cursor_ = -1;
  update();
}

QString SpeedPane::NotMeasured() const {
  if (document_ == nullptr) return "Nothing is open.";
  if (Row() != nullptr) return {};
  QStringList lines("Not measured: the data has no times of the operations themselves.");
  for (const std::string& text : document_->verdict().not_measured()) lines << "Not measured: " + Plain(text);
  return lines.mid(0, 6).join('\n');
}

SpeedPane::Axis SpeedPane::SizeAxis() const {
  Axis axis;
  if (speeds_.shares) return axis;
  for (const SpeedRow& row : speeds_.rows) axis.top = std::max(axis.top, row.rate.high);
  axis.top = RoundTop(axis.top);
  return axis;
}

SpeedPane::Axis SpeedPane::HostAxis() const {
  Axis axis;
  const SpeedRow* row = Row();
  if (row == nullptr || row->possible > 0) return axis;
  for (const HostSpeedRow& host : row->hosts) axis.top = std::max(axis.top, host.rate.high);
  axis.top = RoundTop(axis.top);
  return axis;
}

// From top to bottom: note, plot over sizes with its scale and legend, title, plot over hosts with their names.
QRect SpeedPane::SizePlot(const QSize& size) const {
  const QFontMetricsF metrics(font());
  const int line = static_cast<int>(metrics.height()),
            left = static_cast<int>(metrics.horizontalAdvance("888.8 GB/s")) + 14;
  const int top = 2 * line + 8, room = size.height() - top - 5 * line - 24;
  return QRect(left, top, std::max(1, size.width() - left - 16), std::max(1, room * 11 / 20));
}

QRect SpeedPane::HostPlot(const QSize& size) const {
  const int line = static_cast<int>(QFontMetricsF(font()).height());
  const QRect above = SizePlot(size);
  const int top = above.bottom() + 4 * line + 12;
  return QRect(above.left(), top, above.width(), std::max(1, size.height() - top - line - 8));
}

double SpeedPane::XOfSize(int64_t bytes, const QRect& plot) const {
  const double margin = std::min(30.0, plot.width() / 10.0);
  const double power = std::log2(static_cast<double>(bytes));
  return plot.left() + margin +
         (power - first_power_) / (last_power_ - first_power_) * std::max(1.0, plot.width() - 2 * margin);
}

QPointF SpeedPane::PointAt(int speed) const {
  const SpeedRow& row = speeds_.rows[static_cast<size_t>(speed)];
  const QRect plot = SizePlot(size());
  return {XOfSize(row.bytes, plot), Drawing::Y(plot, SizeAxis().Of(row, row.rate.median))};
}

QPointF SpeedPane::HostAt(int host) const {
  const QRect plot = HostPlot(size());
  const SpeedRow* row = Row();
  const double step = row == nullptr || row->hosts.empty()
                          ? plot.width()
                          : std::min(kWidestColumn, double(plot.width()) / row->hosts.size());
  return {plot.left() + (host + 0.5) * step, plot.bottom() - plot.height() / 4.0};
}

int SpeedPane::SpeedNear(const QPointF& at) const {
  int best = -1;
  double nearest = kNearMark * kNearMark;
  for (int i = 0; i < static_cast<int>(speeds_.rows.size()); ++i) {
    if (!IsPlotted(speeds_.rows[static_cast<size_t>(i)])) continue;
    const QPointF apart = PointAt(i) - at;
    const double distance = QPointF::dotProduct(apart, apart);
    if (distance >= nearest) continue;
    nearest = distance;
    best = i;
  }
  return best;
}

int SpeedPane::HostNear(const QPointF& at) const {
  const SpeedRow* row = Row();
  const QRect plot = HostPlot(size());
  if (row == nullptr || row->hosts.empty() || !QRectF(plot).contains(at)) return -1;
  const double step = HostAt(1).x() - HostAt(0).x();
  const int host = static_cast<int>((at.x() - plot.left()) / step);
  return host < static_cast<int>(row->hosts.size()) ? host : -1;
}

QString SpeedPane::TextAt(const QPointF& at) const {
  if (const int host = HostNear(at); host >= 0) {
    const HostSpeedRow& of = Row()->hosts[static_cast<size_t>(host)];
    return of.host + "\n" + SpeedText(*Row(), of.rate);
  }
  const int speed = SpeedNear(at);
  if (speed < 0) return {};
  const SpeedRow& row = speeds_.rows[static_cast<size_t>(speed)];
  return row.name + "\n" + SpeedText(row, row.rate);
}

void SpeedPane::DrawScale(const Drawing& d, const QRect& plot, const Axis& axis) const {
  for (int tick = 0; tick <= kSpeedTicks; ++tick) {
    const double share = static_cast<double>(tick) / kSpeedTicks, y = Drawing::Y(plot, share);
    const bool roofline = axis.top == 0 && tick == kSpeedTicks;
    d.painter->setPen(roofline ? QPen(d.theme.text, 2) : QPen(d.theme.grid, 1));
    d.painter->drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
    d.painter->setPen(roofline ? d.theme.text : d.theme.faint_text);
    d.painter->drawText(QRectF(0, y - d.metrics.height() / 2, plot.left() - 6, d.metrics.height()),
                        Qt::AlignRight | Qt::AlignVCenter, axis.Label(share));
  }
}

void SpeedPane::DrawSizes(const Drawing& d, const QRect& plot) const {
  const Axis axis = SizeAxis();
  DrawScale(d, plot, axis);
  d.painter->setPen(d.theme.faint_text);
  double free_from = 0;
  for (double power = first_power_; power <= last_power_; ++power) {
    const QString text = SizeTick(power);
    const double width = d.metrics.horizontalAdvance(text),
                 x = XOfSize(static_cast<int64_t>(std::exp2(std::min(power, 62.0))), plot) - width / 2;
    if (x < free_from) continue;
    d.painter->drawText(QPointF(x, plot.bottom() + d.metrics.height() + 2), text);
    free_from = x + width + 14;
  }
  const QColor usual = d.theme.Of(ViewState::kStarted).fill;
  const double radius = d.metrics.height() * 0.28;
  // The chosen row is drawn last, on top.
  const int count = static_cast<int>(speeds_.rows.size());
  for (int n = 0; n <= count; ++n) {
    const int i = n == count ? speed_ : n;
    if (n < count && i == speed_) continue;
    const SpeedRow& row = speeds_.rows[static_cast<size_t>(i)];
    if (!IsPlotted(row)) continue;
    const bool chosen = i == speed_;
    const QColor color = chosen ? d.theme.selection : usual;
    const QPointF at(XOfSize(row.bytes, plot), Drawing::Y(plot, axis.Of(row, row.rate.median)));
    d.painter->setPen(QPen(color, chosen ? 3 : 1.5));
    d.painter->drawLine(QPointF(at.x(), Drawing::Y(plot, axis.Of(row, row.rate.low))),
                        QPointF(at.x(), Drawing::Y(plot, axis.Of(row, row.rate.high))));
    const auto series = std::find(speeds_.series.begin(), speeds_.series.end(), row.series);
    DrawMark(d.painter, at, static_cast<int>(series - speeds_.series.begin()), color, chosen ? radius * 1.3 : radius);
  }
}

void SpeedPane::DrawLegend(const Drawing& d, double top) const {
  const double radius = d.metrics.height() * 0.28, right = width();
  double left = SizePlot(size()).left();
  for (size_t i = 0; i < speeds_.series.size(); ++i) {
    const QString& text = speeds_.series[i];
    if (std::none_of(speeds_.rows.begin(), speeds_.rows.end(),
                     [&](const SpeedRow& row) { return row.series == text && IsPlotted(row); }))
      continue;
    const double wide = d.metrics.horizontalAdvance(text) + 3 * radius + 6;
    const bool last = left + wide > right - 16;
    if (!last)
      DrawMark(d.painter, {left + radius, top + d.metrics.height() / 2}, static_cast<int>(i), d.theme.faint_text,
               radius);
    d.painter->setPen(d.theme.text);
    d.painter->drawText(QPointF(left + (last ? 0 : 3 * radius), top + d.metrics.ascent()), last ? QString("..") : text);
    if (last) return;
    left += wide + 14;
  }
}

QString SpeedPane::HostTitle() const {
  const SpeedRow& row = *Row();
  const auto shown = static_cast<int>(row.hosts.size());
  if (shown == 0) return row.name + ": unknown by host, or all its hosts have the same speed";
  return row.name + (shown < row.hosts_measured
                         ? QString(": the slowest %L1 of %L2 hosts").arg(shown).arg(row.hosts_measured)
                         : QString(": %L1 hosts, slowest first").arg(shown));
}

void SpeedPane::DrawHosts(const Drawing& d, const QRect& plot, bool whole) const {
  const SpeedRow& row = *Row();
  const QRectF title(plot.left(), plot.top() - 1.5 * d.metrics.height() - 4, plot.width(), d.metrics.height());
  d.painter->setPen(d.theme.text);
  d.painter->drawText(title, Qt::AlignLeft | Qt::AlignVCenter,
                      d.metrics.elidedText(HostTitle(), Qt::ElideRight, title.width()));
  if (row.hosts.empty()) return;
  const Axis axis = HostAxis();
  DrawScale(d, plot, axis);
  const double step = std::min(kWidestColumn, double(plot.width()) / static_cast<double>(row.hosts.size()));
  double free_from = 0;
  for (size_t i = 0; i < row.hosts.size(); ++i) {
    const HostSpeedRow& host = row.hosts[i];
    const double left = plot.left() + static_cast<double>(i) * step, middle = left + step / 2;
    const double top = Drawing::Y(plot, axis.Of(row, host.rate.median));
    const QRectF column(left + 1, top, std::max(1.0, step - 2), plot.bottom() - top);
    d.painter->fillRect(column, d.theme.Of(ViewState::kStarted).fill);
    d.painter->setPen(QPen(d.theme.text, 1.5));
    d.painter->drawLine(QPointF(middle, Drawing::Y(plot, axis.Of(row, host.rate.low))),
                        QPointF(middle, Drawing::Y(plot, axis.Of(row, host.rate.high))));
    if (static_cast<int>(i) == cursor_ && !whole) {
      d.painter->setPen(QPen(d.theme.cursor, 2, hasFocus() ? Qt::SolidLine : Qt::DotLine));
      d.painter->setBrush(Qt::NoBrush);
      d.painter->drawRect(column.adjusted(-2, -2, 2, 1));
    }
    const QString name = d.metrics.elidedText(host.host, Qt::ElideRight, 8 * d.metrics.height());
    const double width = d.metrics.horizontalAdvance(name);
    if (left < free_from || left + width > plot.right() + 16) continue;
    d.painter->setPen(d.theme.faint_text);
    d.painter->drawText(QPointF(left + 1, plot.bottom() + d.metrics.height() + 2), name);
    free_from = left + width + 12;
  }
}

void SpeedPane::Draw(QPainter* painter, const QSize& size, bool whole) {
  if (!Begin(painter, size, NotMeasured())) return;
  const Theme& theme = ThemeFor(palette());
  painter->setRenderHint(QPainter::Antialiasing);
  const Drawing d{painter, theme, QFontMetricsF(font())};
  const QRect sizes = SizePlot(size);
  painter->setPen(theme.faint_text);
  painter->drawText(QRectF(12, 4, size.width() - 24, 2 * d.metrics.height()),
                    Qt::AlignLeft | Qt::AlignTop | Qt::TextWordWrap, speeds_.note);
  DrawSizes(d, sizes);
  DrawLegend(d, sizes.bottom() + 1.5 * d.metrics.height());
  DrawHosts(d, HostPlot(size), whole);
}

void SpeedPane::SelectHost(int host) {
  if (Row() == nullptr || host < 0 || host >= static_cast<int>(Row()->hosts.size())) return;
  std::vector<int32_t> ranks;
  for (int row = 0; row < document_->rank_count(); ++row) {
    if (Plain(document_->HostAt(row), 120) == Row()->hosts[static_cast<size_t>(host)].host)
      ranks.push_back(document_->RankAt(row));
  }
  if (!ranks.empty()) navigator_->Select(Selection::Of(Ranks::Of(std::move(ranks))));
}

void SpeedPane::SetCursor(int host) {
  if (Row() == nullptr || Row()->hosts.empty()) return;
  cursor_ = std::clamp(host, 0, static_cast<int>(Row()->hosts.size()) - 1);
  const HostSpeedRow& of = Row()->hosts[static_cast<size_t>(cursor_)];
  setAccessibleDescription(of.host + ", " + SpeedText(*Row(), of.rate));
  update();
}

void SpeedPane::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  if (const int host = HostNear(event->position()); host >= 0) {
    SetCursor(host);
    SelectHost(host);
  } else if (const int speed = SpeedNear(event->position()); speed >= 0 && on_speed) {
    on_speed(speed);
  }
}

void SpeedPane::keyPressEvent(QKeyEvent* event) {
  const int last = static_cast<int>(speeds_.rows.size()) - 1;
  switch (event->key()) {
    case Qt::Key_Left: SetCursor(cursor_ - 1); break;
    case Qt::Key_Right: SetCursor(cursor_ + 1); break;
    case Qt::Key_Home: SetCursor(0); break;
    case Qt::Key_End: SetCursor(INT_MAX); break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space: SelectHost(cursor_); break;
    case Qt::Key_PageUp:
      if (on_speed && speed_ > 0) on_speed(speed_ - 1);
      break;
    case Qt::Key_PageDown:
      if (on_speed && speed_ < last) on_speed(speed_ + 1);
      break;
    default: QWidget::keyPressEvent(event);
  }
}

}  // namespace lockstep::gui
