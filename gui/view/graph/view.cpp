#include "gui/view/graph/view.h"

#include <QApplication>
#include <QFontMetricsF>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainterPath>
#include <QToolTip>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr double kMargin = 24, kPad = 8, kBar = 7;
constexpr double kNearest = 4, kFarthest = 0.02;
constexpr double kReadableScale = 0.85, kLargestFit = 1.25;  // Fit scrolls instead of making the text smaller
constexpr int kTitleLines = 3;

QColor KindColor(WaitClass::Kind kind, const Theme& theme) {
  switch (kind) {
    case WaitClass::CAUSE: return theme.cause;
    case WaitClass::IN_CYCLE: return theme.alarm;
    case WaitClass::VICTIM: return theme.victim;
    case WaitClass::NO_DATA: return theme.Of(ViewState::kNoData).fill;
    default: return theme.Of(ViewState::kCompleted).fill;
  }
}

// Breaks text into at most `most` lines of at most `width`; elides the last line.
QStringList Wrap(const QString& text, const QFontMetricsF& metrics, double width, int most) {
  QStringList lines;
  QString line;
  const QStringList words = text.split(' ', Qt::SkipEmptyParts);
  for (int i = 0; i < words.size(); ++i) {
    const QString longer = line.isEmpty() ? words[i] : line + ' ' + words[i];
    if (line.isEmpty() || metrics.horizontalAdvance(longer) <= width) {
      line = longer;
      continue;
    }
    if (lines.size() + 1 == most) {
      lines << metrics.elidedText(line + ' ' + words.mid(i).join(' '), Qt::ElideRight, width);
      return lines;
    }
    lines << metrics.elidedText(line, Qt::ElideMiddle, width);
    line = words[i];
  }
  if (!line.isEmpty()) lines << metrics.elidedText(line, Qt::ElideMiddle, width);
  return lines;
}

}  // namespace

WaitGraphView::WaitGraphView(Navigator* navigator, QWidget* parent) : View(navigator, "Wait-for graph", parent) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(false);
  setMinimumSize(160, 120);
  setAccessibleDescription(
      "Each node is a set of ranks in the same wait state. Arrow keys follow who waits for whom, Enter selects.");
  connect(navigator, &Navigator::SelectionChanged, this, [this] {
    Mark();
    update();
  });
}

void WaitGraphView::SetDocument(DocumentPtr document) {
  const bool same = document_ != nullptr && document != nullptr && document_->paths() == document->paths();
  document_ = std::move(document);
  if (!same) {
    focus_ = -1;
    fitted_ = true;
  }
  Rebuild();
}

void WaitGraphView::Rebuild() {
  graph_ = {};
  if (document_ != nullptr)
    graph_ = BuildWaitGraph(document_->facts(), [this](int32_t comm) { return document_->CommName(comm); });
  if (focus_ >= static_cast<int>(graph_.nodes.size())) focus_ = -1;
  Relayout();
  Mark();
}

QFont WaitGraphView::SmallFont() const {
  QFont small = font();
  if (small.pixelSize() > 0) {
    small.setPixelSize(std::max(8, small.pixelSize() * 6 / 7));
  } else {
    small.setPointSizeF(std::max(6.0, small.pointSizeF() * 6 / 7));
  }
  return small;
}

void WaitGraphView::Relayout() {
  const QFontMetricsF title(Bold(font())), small(SmallFont());
  const double most = title.averageCharWidth() * 26;
  lines_.clear();
  std::vector<QSizeF> sizes;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const WaitNode& node = graph_.nodes[i];
    QStringList lines = Wrap(node.title, title, most, kTitleLines);
    const auto titles = lines.size();
    double width = small.horizontalAdvance(WaitKindText(node.kind));
    for (const QString& line : lines) width = std::max(width, title.horizontalAdvance(line));
    QStringList rest;
    const QString ranks = node.ranks.size() == 1 ? QString() : "ranks " + RankList(node.ranks, 30);
    for (const QString& text : {ranks, node.state}) {
      if (!text.isEmpty() && text != node.title) rest << Wrap(text, small, most, 2);
    }
    for (const QString& line : rest) width = std::max(width, small.horizontalAdvance(line));
    lines_.push_back(QStringList{QString::number(titles)} + lines + rest);
    sizes.emplace_back(std::ceil(width + kBar + kPad * 2),
                       std::ceil(kPad * 2 + small.height() * static_cast<double>(rest.size() + 1) +
                                 title.height() * static_cast<double>(titles)));
  }
  double label = 40;
  for (const WaitArrow& arrow : graph_.arrows) {
    for (const QString& part : arrow.why) label = std::max(label, small.horizontalAdvance(part));
  }
  layout_ =
      LayOutWaitGraph(graph_, sizes, std::clamp(label + 56, 80.0, small.averageCharWidth() * 34), small.height() * 1.6);
  if (fitted_) Fit();
  update();
}

void WaitGraphView::Mark() {
  marked_.assign(graph_.nodes.size(), false);
  const Selection& selection = navigator()->selection();
  for (size_t i = 0; i < graph_.nodes.size(); ++i) marked_[i] = graph_.nodes[i].ranks.Intersects(selection.ranks);
}

QRectF WaitGraphView::SceneRect() const {
  // The curves and labels of cycles extend beyond the nodes.
  double bow = 0;
  const QFontMetricsF metrics(SmallFont());
  for (size_t a = 0; a < layout_.paths.size(); ++a) {
    if (!layout_.paths[a].bow) continue;
    double label = 0;
    for (const QString& part : graph_.arrows[a].why) label = std::max(label, metrics.horizontalAdvance(part));
    label = std::min(label, metrics.averageCharWidth() * 26) / 2 + 6;
    const double x = layout_.paths[a].points[1].x();
    bow = std::max({bow, label - x, x + label - layout_.size.width()});
  }
  return QRectF(QPointF(0, 0), layout_.size).adjusted(-bow, 0, bow, 0);
}

QRectF WaitGraphView::NodeRect(int node) const {
  const QRectF& rect = layout_.rect[static_cast<size_t>(node)];
  return QRectF(rect.topLeft() * scale_ + offset_, rect.size() * scale_);
}

// Shows everything if that is readable. Otherwise shows the causes and their direct waiters, and the user can scroll.
void WaitGraphView::Fit() {
  fitted_ = true;
  const QRectF scene = SceneRect();
  if (scene.isEmpty() || width() < 1 || height() < 1) return;
  const double wide = width() - kMargin * 2, high = height() - kMargin * 2;
  scale_ = std::min({wide / scene.width(), high / scene.height(), kLargestFit});
  offset_ = QPointF(width() / 2.0, height() / 2.0) - scene.center() * scale_;
  if (scale_ >= kReadableScale) return update();
  double right = 0;  // right edge of the first two columns
  QRectF causes;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (layout_.layer[i] >= 0 && layout_.layer[i] < 2) right = std::max(right, layout_.rect[i].right());
    if (graph_.nodes[i].kind == WaitClass::CAUSE || graph_.nodes[i].kind == WaitClass::IN_CYCLE)
      causes |= layout_.rect[i];
  }
  scale_ = std::clamp(wide / std::max(right - scene.left(), 1.0), kReadableScale, kLargestFit);
  offset_.setX(kMargin - scene.left() * scale_);
  // Centers the causes vertically, without scrolling past the top or the bottom.
  const double middle = (causes.isEmpty() ? scene : causes).center().y();
  offset_.setY(scene.height() * scale_ <= high
                   ? height() / 2.0 - scene.center().y() * scale_
                   : std::clamp(height() / 2.0 - middle * scale_, height() - kMargin - scene.bottom() * scale_,
                                kMargin - scene.top() * scale_));
  update();
}

void WaitGraphView::ZoomAt(const QPointF& at, double factor) {
  const double scale = std::clamp(scale_ * factor, kFarthest, kNearest);
  offset_ = at - (at - offset_) * (scale / scale_);
  scale_ = scale;
  fitted_ = false;
  update();
}

void WaitGraphView::Zoom(double factor) {
  const QPoint cursor = mapFromGlobal(QCursor::pos());
  ZoomAt(rect().contains(cursor) ? QPointF(cursor) : QPointF(rect().center()), factor);
}

void WaitGraphView::Pan(double right, double down) {
  offset_ -= QPointF(right * width(), down * height());
  fitted_ = false;
  update();
}

void WaitGraphView::Show(const QRectF& scene) {
  const QRectF shown(scene.topLeft() * scale_ + offset_, scene.size() * scale_);
  const QRectF inside = QRectF(rect()).adjusted(kMargin, kMargin, -kMargin, -kMargin);
  QPointF move;
  if (shown.left() < inside.left())
    move.setX(inside.left() - shown.left());
  else if (shown.right() > inside.right())
    move.setX(std::max(inside.right() - shown.right(), inside.left() - shown.left()));
  if (shown.top() < inside.top())
    move.setY(inside.top() - shown.top());
  else if (shown.bottom() > inside.bottom())
    move.setY(std::max(inside.bottom() - shown.bottom(), inside.top() - shown.top()));
  if (move.isNull()) return;
  offset_ += move;
  fitted_ = false;
}

QRectF WaitGraphView::MarkedRect() const {
  QRectF all;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (marked_[i]) all |= layout_.rect[i];
  }
  return all;
}

void WaitGraphView::CentreOnSelection() {
  const QRectF all = MarkedRect();
  if (all.isEmpty()) return;
  offset_ = QPointF(width() / 2.0, height() / 2.0) - all.center() * scale_;
  // Shows no empty space on one side while contents are hidden on the other.
  const QRectF scene = SceneRect();
  if (scene.width() * scale_ > width() - kMargin * 2)
    offset_.setX(std::clamp(offset_.x(), width() - kMargin - scene.right() * scale_, kMargin - scene.left() * scale_));
  fitted_ = false;
  update();
}

void WaitGraphView::ZoomToSelection() {
  const QRectF all = MarkedRect();
  if (all.isEmpty()) return;
  scale_ = std::clamp(std::min((width() - kMargin * 2) / all.width(), (height() - kMargin * 2) / all.height()),
                      kFarthest, 1.5);
  CentreOnSelection();
}

QString WaitGraphView::NodeText(int node) const {
  if (node < 0 || node >= static_cast<int>(graph_.nodes.size())) return {};
  const WaitNode& n = graph_.nodes[static_cast<size_t>(node)];
  QStringList lines = {QString("%1: %2").arg(WaitKindText(n.kind), n.title),
                       QString("ranks %1").arg(RankList(n.ranks))};
  if (!n.state.isEmpty()) lines << n.state;
  QStringList waits, waiters;
  for (const WaitArrow& arrow : graph_.arrows) {
    if (arrow.from == node)
      waits << graph_.nodes[static_cast<size_t>(arrow.to)].title +
                   (arrow.why.isEmpty() ? "" : " (" + arrow.why.join(", ") + ")");
    if (arrow.to == node) waiters << graph_.nodes[static_cast<size_t>(arrow.from)].title;
  }
  auto several = [](const QStringList& texts) {
    return texts.size() <= 2 ? texts.join("; ")
                             : QString("%1; %2; and %3 more").arg(texts[0], texts[1]).arg(texts.size() - 2);
  };
  if (!waits.isEmpty()) lines << "waits for " + several(waits);
  if (!waiters.isEmpty()) lines << "waited for by " + several(waiters);
  return lines.join('\n');
}

QString WaitGraphView::Csv() const {
  if (graph_.nodes.empty()) return {};
  QString out = "node,what,ranks,state,waits for,why,in a cycle\n";
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const WaitNode& node = graph_.nodes[i];
    const QString own = CsvCell(node.title) + ',' + WaitKindName(node.kind) + ',' + CsvCell(RankList(node.ranks)) +
                        ',' + CsvCell(node.state);
    bool any = false;
    for (const WaitArrow& arrow : graph_.arrows) {
      if (arrow.from != static_cast<int>(i)) continue;
      any = true;
      out += own + ',' + CsvCell(graph_.nodes[static_cast<size_t>(arrow.to)].title) + ',' +
             CsvCell(arrow.why.join(", ")) + (arrow.in_cycle ? ",yes\n" : ",no\n");
    }
    if (!any) out += own + ",,,\n";
  }
  return out;
}

QString WaitGraphView::CopyText() const { return graph_.nodes.empty() ? QString() : WaitGraphText(graph_); }

int WaitGraphView::NodeAt(const QPointF& at) const {
  const QPointF scene = (at - offset_) / scale_;
  for (size_t i = 0; i < layout_.rect.size(); ++i) {
    if (layout_.rect[i].contains(scene)) return static_cast<int>(i);
  }
  return -1;
}

void WaitGraphView::SelectNode(int node) {
  if (node < 0 || node >= static_cast<int>(graph_.nodes.size())) return;
  const WaitNode& n = graph_.nodes[static_cast<size_t>(node)];
  navigator()->Select(Selection::Of(n.ranks, n.comm, n.sequence));
}

void WaitGraphView::FocusNode(int node) {
  focus_ = node;
  if (node >= 0) {
    Show(layout_.rect[static_cast<size_t>(node)]);
    setAccessibleDescription(NodeText(node));
  }
  update();
}

// Left: to the node that the focused node waits for; right: to a node that waits for it; up and down: within the layer.
void WaitGraphView::Step(int key) {
  const int n = static_cast<int>(graph_.nodes.size());
  if (n == 0) return;
  if (focus_ < 0) {
    int first = 0;
    for (int i = 1; i < n; ++i) {
      auto before = [&](int a, int b) {
        const bool ca = graph_.nodes[static_cast<size_t>(a)].kind == WaitClass::CAUSE,
                   cb = graph_.nodes[static_cast<size_t>(b)].kind == WaitClass::CAUSE;
        return ca != cb ? ca : layout_.rect[static_cast<size_t>(a)].top() < layout_.rect[static_cast<size_t>(b)].top();
      };
      if (before(i, first)) first = i;
    }
    FocusNode(first);
    return;
  }
  const QPointF here = layout_.rect[static_cast<size_t>(focus_)].center();
  int best = -1;
  double nearest = std::numeric_limits<double>::max();
  auto consider = [&](int node, double distance) {
    if (distance < nearest) {
      nearest = distance;
      best = node;
    }
  };
  if (key == Qt::Key_Left || key == Qt::Key_Right) {
    for (const WaitArrow& arrow : graph_.arrows) {
      const int other = key == Qt::Key_Left && arrow.from == focus_  ? arrow.to
                        : key == Qt::Key_Right && arrow.to == focus_ ? arrow.from
                                                                     : -1;
      if (other >= 0) consider(other, std::abs(layout_.rect[static_cast<size_t>(other)].center().y() - here.y()));
    }
  } else {
    for (int i = 0; i < n; ++i) {
      const QPointF there = layout_.rect[static_cast<size_t>(i)].center();
      const double down = key == Qt::Key_Down ? there.y() - here.y() : here.y() - there.y();
      const bool row = layout_.layer[static_cast<size_t>(i)] < 0;
      if (row && layout_.layer[static_cast<size_t>(focus_)] < 0 && i != focus_ && (key == Qt::Key_Down) == (i > focus_))
        consider(i, std::abs(i - focus_));
      if (down > 0.5)
        consider(
            i,
            down + std::abs(there.x() - here.x()) *
                       (layout_.layer[static_cast<size_t>(i)] == layout_.layer[static_cast<size_t>(focus_)] ? 0 : 4));
    }
  }
  if (best >= 0) FocusNode(best);
}

void WaitGraphView::resizeEvent(QResizeEvent*) {
  if (fitted_) Fit();
}

void WaitGraphView::mousePressEvent(QMouseEvent* event) {
  press_ = event->position();
  drag_offset_ = offset_;
  moved_ = false;
  const int node = NodeAt(press_);
  panning_ = event->button() == Qt::MiddleButton || (event->button() == Qt::LeftButton && node < 0);
}

void WaitGraphView::mouseMoveEvent(QMouseEvent* event) {
  if (!panning_) return;
  const QPointF by = event->position() - press_;
  if (!moved_ && by.manhattanLength() < QApplication::startDragDistance()) return;
  moved_ = true;
  fitted_ = false;
  offset_ = drag_offset_ + by;
  setCursor(Qt::ClosedHandCursor);
  update();
}

void WaitGraphView::mouseReleaseEvent(QMouseEvent* event) {
  const bool moved = std::exchange(moved_, false);
  panning_ = false;
  unsetCursor();
  if (moved || event->button() != Qt::LeftButton) return;
  if (const int node = NodeAt(event->position()); node >= 0) {
    FocusNode(node);
    SelectNode(node);
  }
}

void WaitGraphView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (NodeAt(event->position()) >= 0) ZoomToSelection();
}

void WaitGraphView::wheelEvent(QWheelEvent* event) {
  const QPointF turn = QPointF(event->angleDelta()) / 120.0;
  if (event->modifiers().testFlag(Qt::ControlModifier)) {
    ZoomAt(event->position(), std::pow(1.25, turn.y() != 0 ? turn.y() : turn.x()));
  } else {
    const bool sideways = event->modifiers().testFlag(Qt::ShiftModifier);
    offset_ += (sideways ? QPointF(turn.y() + turn.x(), 0) : turn) * 60;
    fitted_ = false;
    update();
  }
  event->accept();
}

void WaitGraphView::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Left:
    case Qt::Key_Right:
    case Qt::Key_Up:
    case Qt::Key_Down: Step(event->key()); break;
    case Qt::Key_Home:
      focus_ = -1;
      Step(Qt::Key_Home);
      break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space: SelectNode(focus_); break;
    default: View::keyPressEvent(event);
  }
}

void WaitGraphView::focusInEvent(QFocusEvent* event) {
  View::focusInEvent(event);
  if (focus_ < 0 && (event->reason() == Qt::TabFocusReason || event->reason() == Qt::BacktabFocusReason))
    Step(Qt::Key_Home);
  update();
}

void WaitGraphView::changeEvent(QEvent* event) {
  if (event->type() == QEvent::FontChange) Relayout();
  if (event->type() == QEvent::PaletteChange) update();
  View::changeEvent(event);
}

bool WaitGraphView::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return View::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const int node = NodeAt(help->pos());
  QToolTip::showText(help->globalPos(), node < 0 ? QString() : NodeText(node), this);
  return true;
}

void WaitGraphView::DrawNode(QPainter* painter, const Theme& theme, int node) const {
  const auto i = static_cast<size_t>(node);
  const WaitNode& n = graph_.nodes[i];
  const QRectF rect = layout_.rect[i];
  const bool alarm = n.kind == WaitClass::IN_CYCLE || n.kind == WaitClass::CAUSE;
  const QColor color = KindColor(n.kind, theme);
  painter->setPen(Qt::NoPen);
  painter->setBrush(theme.dark ? QColor("#23272a") : QColor("#fbfbf9"));
  painter->drawRect(rect);
  if (n.kind == WaitClass::NO_DATA) {
    QColor hatch = theme.Of(ViewState::kNoData).fill;
    hatch.setAlpha(90);
    painter->setBrush(QBrush(hatch, Qt::BDiagPattern));
    painter->drawRect(rect);
  }
  painter->setBrush(color);
  painter->drawRect(QRectF(rect.left(), rect.top(), kBar, rect.height()));
  painter->setBrush(Qt::NoBrush);
  painter->setPen(QPen(alarm ? color : theme.faint_text, alarm ? 2.5 : 1));
  painter->drawRect(rect);
  if (n.kind == WaitClass::IN_CYCLE) painter->drawRect(rect.adjusted(-4, -4, 4, 4));

  const QFont bold = Bold(font());
  const QFontMetricsF title(bold), small(SmallFont());
  double y = rect.top() + kPad;
  const double x = rect.left() + kBar + kPad;
  painter->setFont(SmallFont());
  painter->setPen(alarm ? color : theme.faint_text);
  painter->drawText(QPointF(x, y + small.ascent()), WaitKindText(n.kind));
  y += small.height();
  const QStringList& lines = lines_[i];
  const int titles = lines.front().toInt();
  for (int k = 1; k < lines.size(); ++k) {
    const bool of_title = k <= titles;
    painter->setFont(of_title ? bold : SmallFont());
    painter->setPen(of_title ? theme.text : theme.faint_text);
    painter->drawText(QPointF(x, y + (of_title ? title.ascent() : small.ascent())), lines[k]);
    y += of_title ? title.height() : small.height();
  }
  painter->setBrush(Qt::NoBrush);
  if (marked_[i]) {
    painter->setPen(QPen(theme.selection, 3));
    painter->drawRect(rect.adjusted(-2, -2, 2, 2));
  }
}

void WaitGraphView::DrawArrow(QPainter* painter, const Theme& theme, size_t index, std::vector<QRectF>* taken) const {
  const WaitArrow& arrow = graph_.arrows[index];
  const std::vector<QPointF>& points = layout_.paths[index].points;
  const bool of_focus = focus_ >= 0 && hasFocus() && (arrow.from == focus_ || arrow.to == focus_);
  const QColor color = arrow.in_cycle ? theme.alarm : of_focus ? theme.link : theme.faint_text;
  QPainterPath path(points.front());
  QPointF before;  // the last point before the end, for the direction of the arrowhead
  if (layout_.paths[index].bow) {
    const QPointF control(points[1].x() * 2 - (points[0].x() + points[2].x()) / 2, points[1].y());
    path.quadTo(control, points[2]);
    before = control;
  } else {
    for (size_t k = 1; k < points.size(); ++k) {
      const double middle = (points[k - 1].x() + points[k].x()) / 2;
      path.cubicTo(QPointF(middle, points[k - 1].y()), QPointF(middle, points[k].y()), points[k]);
    }
    before = points.back() + QPointF(10, 0);
  }
  painter->setBrush(Qt::NoBrush);
  painter->setPen(QPen(color, arrow.in_cycle ? 3 : of_focus ? 2 : 1.2));
  painter->drawPath(path);
  const QPointF tip = points.back();
  const QPointF back = before - tip;
  const double length = std::max(1e-6, std::sqrt(QPointF::dotProduct(back, back)));
  const QPointF unit = back / length, side(-unit.y(), unit.x());
  const double head = arrow.in_cycle ? 12 : 9;
  painter->setPen(Qt::NoPen);
  painter->setBrush(color);
  painter->drawPolygon(
      QPolygonF({tip, tip + unit * head + side * head * 0.45, tip + unit * head - side * head * 0.45}));

  if (arrow.why.isEmpty()) return;
  const QFontMetricsF metrics(SmallFont());
  const bool bow = layout_.paths[index].bow;
  const double room = bow ? metrics.averageCharWidth() * 26 : std::abs(points[0].x() - points[1].x()) - 34;
  QStringList lines;
  for (const QString& part : arrow.why) lines << metrics.elidedText(part, Qt::ElideRight, std::max(room, 40.0));
  double width = 0;
  for (const QString& line : lines) width = std::max(width, metrics.horizontalAdvance(line));
  const double height = metrics.height() * static_cast<double>(lines.size());
  // The label is above the line, close to the waiting node, where lines do not overlap yet.
  const QPointF middle = bow ? path.pointAtPercent(0.5) : points[0] - QPointF(10 + width / 2, height / 2 + 2);
  const QRectF label(middle.x() - width / 2 - 3, middle.y() - height / 2 - 1, width + 6, height + 2);
  for (const QRectF& other : *taken) {
    if (other.intersects(label)) return;
  }
  taken->push_back(label);
  QColor paper = theme.background;
  paper.setAlpha(225);
  painter->setBrush(paper);
  painter->drawRect(label);
  painter->setPen(arrow.in_cycle ? theme.alarm : theme.text);
  painter->setFont(SmallFont());
  for (int k = 0; k < lines.size(); ++k) {
    painter->drawText(QPointF(label.left() + 3, label.top() + 1 + metrics.ascent() + metrics.height() * k), lines[k]);
  }
}

void WaitGraphView::Draw(QPainter* painter, const Theme& theme) const {
  std::vector<QRectF> taken;
  // Cycles are drawn last, on top.
  for (const bool cycle : {false, true}) {
    for (size_t a = 0; a < graph_.arrows.size(); ++a) {
      if (graph_.arrows[a].in_cycle == cycle) DrawArrow(painter, theme, a, &taken);
    }
  }
  for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) DrawNode(painter, theme, i);
}

bool WaitGraphView::Paint(QPainter* painter, const QSize& size) {
  const Theme& theme = ThemeFor(palette());
  painter->fillRect(QRect(QPoint(0, 0), size), theme.background);
  const QRectF scene = SceneRect();
  if (!scene.isEmpty()) {
    painter->setRenderHint(QPainter::Antialiasing);
    const double scale =
        std::min((size.width() - kMargin * 2) / scene.width(), (size.height() - kMargin * 2) / scene.height());
    if (scale > 0) {
      painter->translate(QPointF(size.width() / 2.0, size.height() / 2.0) - scene.center() * scale);
      painter->scale(scale, scale);
      Draw(painter, theme);
    }
  }
  return !graph_.nodes.empty();
}

void WaitGraphView::paintEvent(QPaintEvent*) {
  const Theme& theme = ThemeFor(palette());
  QPainter painter(this);
  painter.fillRect(rect(), theme.background);
  if (graph_.nodes.empty()) {
    painter.setPen(theme.faint_text);
    const QString text = document_ == nullptr ? "Nothing is open." : "No rank is known to wait for another.";
    painter.drawText(rect().adjusted(20, 20, -20, -20), Qt::AlignCenter | Qt::TextWordWrap, text);
    return;
  }
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.translate(offset_);
  painter.scale(scale_, scale_);
  Draw(&painter, theme);
  if (focus_ >= 0 && hasFocus()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme.cursor, 1.5 / scale_, Qt::DashLine));
    painter.drawRect(layout_.rect[static_cast<size_t>(focus_)].adjusted(-7, -7, 7, 7));
  }
  painter.restore();
  QString note = "Arrows lead from waiting ranks to what they wait for.";
  if (graph_.level == WaitGraph::Level::kCommunicators) {
    note = QString("%L1 different waits, drawn by communicator. ").arg(document_->facts().classes_size()) + note;
  } else if (graph_.level == WaitGraph::Level::kDistances) {
    note = QString("%L1 different waits, drawn by their distance from the causes. ")
               .arg(document_->facts().classes_size()) +
           note;
  }
  painter.setFont(SmallFont());
  painter.setPen(theme.faint_text);
  painter.drawText(rect().adjusted(8, 4, -8, -4), Qt::AlignLeft | Qt::AlignBottom, note);
}

}  // namespace lockstep::gui
