#include "gui/view/matrix/accessible.h"

#include <QAccessible>
#include <QAccessibleWidget>

#include "gui/view/matrix/view.h"

namespace lockstep::gui {
namespace {

class MatrixAccessible : public QAccessibleWidget {
 public:
  explicit MatrixAccessible(MatrixView* view) : QAccessibleWidget(view, QAccessible::Chart) {}

  QString text(QAccessible::Text what) const override {
    if (what == QAccessible::Value) return static_cast<MatrixView*>(widget())->SpokenCursor();
    return QAccessibleWidget::text(what);
  }
  QAccessible::State state() const override {
    QAccessible::State state = QAccessibleWidget::state();
    state.readOnly = true;
    return state;
  }
};

QAccessibleInterface* Make(const QString& name, QObject* object) {
  if (name != "lockstep::gui::MatrixView") return nullptr;
  auto* view = qobject_cast<MatrixView*>(object);
  return view == nullptr ? nullptr : new MatrixAccessible(view);
}

}  // namespace

void InstallMatrixAccessible(MatrixView* view) {
  static const bool installed = [] {
    QAccessible::installFactory(Make);
    return true;
  }();
  (void)installed;
  // Qt may have created a generic interface while the view was under construction.
  if (QAccessibleInterface* early = QAccessible::queryAccessibleInterface(view))
    QAccessible::deleteAccessibleInterface(QAccessible::uniqueId(early));
}

}  // namespace lockstep::gui
