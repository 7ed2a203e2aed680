#include "gui/view/pane.h"

#include <QHelpEvent>
#include <QToolTip>

namespace lockstep::gui {

Pane::Pane(const QString& name, const QString& description, QWidget* parent) : QWidget(parent) {
  setObjectName(name);
  setAccessibleName(name);
  setAccessibleDescription(description);
  setFocusPolicy(Qt::StrongFocus);
}

bool Pane::Begin(QPainter* painter, const QSize& size, const QString& why) const {
  const Theme& theme = ThemeFor(palette());
  const QRect all(QPoint(0, 0), size);
  painter->fillRect(all, theme.background);
  painter->setFont(font());
  if (why.isEmpty()) return true;
  painter->setPen(theme.faint_text);
  painter->drawText(all.adjusted(20, 20, -20, -20), Qt::AlignCenter | Qt::TextWordWrap, why);
  return false;
}

void Pane::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  Draw(&painter, size(), false);
}

void Pane::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) Restyle();
  QWidget::changeEvent(event);
}

bool Pane::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  QToolTip::showText(help->globalPos(), TipAt(help->pos()), this);
  return true;
}

}  // namespace lockstep::gui
