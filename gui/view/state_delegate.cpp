#include "gui/view/state_delegate.h"

#include <QApplication>
#include <QPainter>

namespace lockstep::gui {

void DrawStateMark(QPainter* painter, const QRect& square, const Theme& theme, ViewState state) {
  const StateStyle& style = theme.Of(state);
  painter->save();
  painter->fillRect(square, style.fill);
  if (style.hatch != Qt::NoBrush) painter->fillRect(square, QBrush(style.ink, style.hatch));
  painter->setPen(theme.grid);
  painter->drawRect(square.adjusted(0, 0, -1, -1));
  if (style.glyph != ' ' && style.hatch == Qt::NoBrush) {
    QFont font = painter->font();
    font.setPixelSize(std::max(6, square.height() - 2));
    painter->setFont(font);
    painter->setPen(style.ink);
    painter->drawText(square.adjusted(0, -1, 0, 0), Qt::AlignCenter, style.glyph);
  }
  painter->restore();
}

void StateDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const {
  QStyleOptionViewItem item = option;
  const Theme& theme = ThemeFor(option.palette);
  if (marked_ && marked_(index) && !item.state.testFlag(QStyle::State_Selected)) {
    QColor tint = option.palette.color(QPalette::Highlight);
    tint.setAlpha(60);
    painter->fillRect(option.rect, tint);
  }
  const auto state = static_cast<ViewState>(index.data(role_).toInt());
  // Keeps a gap between numbers and the next column.
  const int gap = option.fontMetrics.averageCharWidth();
  const auto behind = [&] {
    QStyleOptionViewItem whole = item;
    initStyleOption(&whole, index);
    const QStyle* style = item.widget != nullptr ? item.widget->style() : QApplication::style();
    style->drawPrimitive(QStyle::PE_PanelItemViewItem, &whole, painter, item.widget);
  };
  if (state == ViewState::kOutside || state >= ViewState::kCount) {
    behind();
    item.rect.adjust(0, 0, -gap, 0);
    return QStyledItemDelegate::paint(painter, item, index);
  }
  const int size = std::min(option.rect.height() - 6, option.fontMetrics.height() - 3), margin = 4;
  const QRect square(option.rect.left() + margin, option.rect.center().y() - size / 2, size, size);
  behind();
  item.rect.setLeft(square.right() + margin);
  item.rect.adjust(0, 0, -gap, 0);
  QStyledItemDelegate::paint(painter, item, index);
  DrawStateMark(painter, square, theme, state);
}

}  // namespace lockstep::gui
