#include "gui/view/view.h"

#include <QKeyEvent>

namespace lockstep::gui {

void Clear(QLayout* layout) {
  while (QLayoutItem* item = layout->takeAt(0)) {
    if (QWidget* widget = item->widget()) {
      widget->hide();
      widget->deleteLater();
    }
    delete item;
  }
}

bool View::HandleFilterKey(QLineEdit* field, QWidget* list, QEvent* event) {
  if (event->type() != QEvent::KeyPress) return false;
  const int key = static_cast<QKeyEvent*>(event)->key();
  const bool leaves = key == Qt::Key_Down || key == Qt::Key_Return || key == Qt::Key_Enter;
  if (leaves) list->setFocus(Qt::TabFocusReason);
  if (leaves || key != Qt::Key_Escape || field->text().isEmpty()) return leaves;
  field->clear();
  return true;
}

}  // namespace lockstep::gui
