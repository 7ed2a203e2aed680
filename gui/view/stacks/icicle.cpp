#include "gui/view/stacks/icicle.h"

#include <QFontMetricsF>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPaintEvent>
#include <QPainter>

#include <algorithm>
#include <utility>

namespace lockstep::gui {
namespace {

constexpr double kLeast = 22;  // minimum width of a box, in pixels

struct KindStyle {
  QColor fill, text;
  Qt::BrushStyle hatch;
};

KindStyle StyleOf(StackFrame::Kind kind, const Theme& theme) {
  switch (kind) {
    case StackFrame::PYTHON:
      return theme.dark ? KindStyle{QColor("#1f4a66"), QColor("#e4f3fd"), Qt::NoBrush}
                        : KindStyle{QColor("#c4e2f5"), QColor("#0b2e45"), Qt::NoBrush};
    case StackFrame::KERNEL:
      return theme.dark ? KindStyle{QColor("#5e4410"), QColor("#fff1d2"), Qt::BDiagPattern}
                        : KindStyle{QColor("#f6dca0"), QColor("#3d2b00"), Qt::BDiagPattern};
    default:
      return theme.dark ? KindStyle{QColor("#363c40"), QColor("#eceff1"), Qt::NoBrush}
                        : KindStyle{QColor("#e6e5df"), QColor("#1b1b1b"), Qt::NoBrush};
  }
}

}  // namespace

IciclePane::IciclePane(const StackModel* model, QWidget* parent)
    : Pane("Stack picture",
           "Merged stacks, width by ranks. Arrow keys move, Enter selects the ranks, Backspace shows all again.",
           parent),
      model_(model) {}

int IciclePane::RowHeight() const { return static_cast<int>(QFontMetricsF(font()).height()) + 6; }
int IciclePane::WantedHeight() const { return std::max(1, icicle_.levels) * RowHeight() + 2; }
Icicle IciclePane::Layout(double width) const { return LayOutIcicle(*model_, root_, width, kLeast); }

void IciclePane::Rebuild() {
  if (root_ >= model_->node_count()) root_ = -1;
  if (current_ >= model_->node_count()) current_ = -1;
  icicle_ = Layout(width() - 2);
  update();
}

void IciclePane::SetRoot(int node) {
  root_ = node;
  Rebuild();
}

void IciclePane::SetCurrent(int node) {
  current_ = node;
  if (node >= 0) {
    setAccessibleDescription(model_->NodeText(node));
  }
  update();
}

void IciclePane::SetLit(std::vector<bool> lit) {
  lit_ = std::move(lit);
  update();
}

void IciclePane::SetFound(std::vector<bool> found) {
  found_ = std::move(found);
  update();
}

QRectF IciclePane::BoxOf(int node) const {
  for (const Icicle::Box& box : icicle_.boxes) {
    if (box.node == node) return QRectF(box.x + 1, box.level * RowHeight() + 1, box.width, RowHeight());
  }
  return {};
}

int IciclePane::NodeAt(const QPointF& at) const {
  const int level = static_cast<int>((at.y() - 1) / RowHeight());
  for (const Icicle::Box& box : icicle_.boxes) {
    if (box.level == level && at.x() - 1 >= box.x && at.x() - 1 < box.x + box.width) return box.node;
  }
  return -1;
}

void IciclePane::DrawBoxes(QPainter* painter, const Icicle& icicle, double row_height, const QRectF& clip) const {
  const Theme& theme = ThemeFor(palette());
  const QFontMetricsF metrics(font());
  const bool any_lit = std::find(lit_.begin(), lit_.end(), true) != lit_.end();
  for (const Icicle::Box& box : icicle.boxes) {
    if (box.width < 0.5) continue;
    const auto node = static_cast<size_t>(box.node);
    const QRectF rect(box.x, box.level * row_height, box.width, row_height);
    if (!rect.intersects(clip)) continue;
    const KindStyle style = StyleOf(model_->KindOf(box.node), theme);
    const bool faint = any_lit && node < lit_.size() && !lit_[node];
    const bool exceptional = model_->Exceptional(box.node);
    painter->setOpacity(faint ? 0.35 : 1);
    painter->fillRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), style.fill);
    if (style.hatch != Qt::NoBrush) {
      QColor hatch = style.text;
      hatch.setAlpha(60);
      painter->fillRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), QBrush(hatch, style.hatch));
    }
    if (node < found_.size() && found_[node]) {
      painter->fillRect(QRectF(rect.left() + 1, rect.bottom() - 4, rect.width() - 2, 3), theme.link);
    }
    QString text = model_->FrameOf(box.node);
    if (exceptional && box.width < metrics.height() * 4) {
      text = QString::fromUtf8("\u25c6");
    } else if (exceptional) {
      text = QString::fromUtf8("\u25c6 ") + text;
    }
    if (box.width > metrics.height() * 1.2) {
      const QString count = QString("  %L1").arg(model_->RanksIn(box.node));
      const double of_count = metrics.horizontalAdvance(count);
      const bool room = box.width > of_count + metrics.height() * 6;
      painter->setPen(style.text);
      painter->drawText(QPointF(rect.left() + 5, rect.center().y() + metrics.ascent() / 2 - metrics.descent() / 2),
                        metrics.elidedText(text, Qt::ElideMiddle, box.width - 8 - (room ? of_count : 0)));
      if (room)
        painter->drawText(
            QPointF(rect.right() - 4 - of_count, rect.center().y() + metrics.ascent() / 2 - metrics.descent() / 2),
            count);
    }
    painter->setBrush(Qt::NoBrush);
    if (exceptional) {
      painter->setPen(QPen(theme.cause, 2));
      painter->drawRect(rect.adjusted(1.5, 1.5, -1.5, -1.5));
    }
    painter->setOpacity(1);
  }
}

void IciclePane::paintEvent(QPaintEvent* event) {
  shown_ = event->rect();
  Pane::paintEvent(event);
}

void IciclePane::Draw(QPainter* painter, const QSize& size, bool) {
  Begin(painter, size, {});
  painter->translate(1, 1);
  DrawBoxes(painter, icicle_, RowHeight(), shown_);
  painter->translate(-1, -1);
  if (const QRectF box = BoxOf(current_); !box.isEmpty()) {
    painter->setBrush(Qt::NoBrush);
    painter->setPen(QPen(ThemeFor(palette()).cursor, 1.5, hasFocus() ? Qt::SolidLine : Qt::DotLine));
    painter->drawRect(box.adjusted(0, 0, -1, -1));
  }
}

void IciclePane::resizeEvent(QResizeEvent*) { Rebuild(); }

void IciclePane::mousePressEvent(QMouseEvent* event) {
  const int node = NodeAt(event->position());
  if (node < 0 || event->button() != Qt::LeftButton) return;
  if (on_current) on_current(node);
  if (on_select) on_select(node);
}

void IciclePane::mouseDoubleClickEvent(QMouseEvent* event) {
  const int node = NodeAt(event->position());
  if (node >= 0) SetRoot(node == root_ ? -1 : node);
}

void IciclePane::Step(int key) {
  if (model_->node_count() == 0) return;
  int to = -1;
  if (current_ < 0) {
    to = root_ >= 0 ? root_ : model_->ChildrenOf(-1).front();
  } else if (key == Qt::Key_Up) {
    to = current_ == root_ ? -1 : model_->ParentOf(current_);
  } else if (key == Qt::Key_Down) {
    // Follows the last child. It has the most ranks, unless an exceptional child has more.
    if (const std::vector<int>& children = model_->ChildrenOf(current_); !children.empty()) to = children.back();
  } else {
    const std::vector<int>& siblings = model_->ChildrenOf(model_->ParentOf(current_));
    const int at = static_cast<int>(std::find(siblings.begin(), siblings.end(), current_) - siblings.begin()) +
                   (key == Qt::Key_Right ? 1 : -1);
    if (at >= 0 && at < static_cast<int>(siblings.size())) to = siblings[static_cast<size_t>(at)];
  }
  if (to >= 0 && on_current) on_current(to);
}

void IciclePane::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Left:
    case Qt::Key_Right:
    case Qt::Key_Up:
    case Qt::Key_Down: Step(event->key()); break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space:
      if (current_ >= 0 && on_select) on_select(current_);
      break;
    case Qt::Key_Backspace: SetRoot(-1); break;
    default: QWidget::keyPressEvent(event);
  }
}

}  // namespace lockstep::gui
