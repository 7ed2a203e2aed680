// The base class of all pictures and tables of the window.
#pragma once

#include <QLayout>
#include <QLineEdit>
#include <QPainter>
#include <QSize>
#include <QString>
#include <QWidget>

#include "gui/model/document.h"
#include "gui/model/navigator.h"
#include "gui/view/theme.h"

namespace lockstep::gui {

// Sets what a screen reader says about a widget.
inline void Announce(QWidget* widget, const QString& name, const QString& description) {
  widget->setAccessibleName(name);
  widget->setAccessibleDescription(description);
}

// Removes all items of a layout. Widgets disappear now and are deleted later, because one may be handling an event.
void Clear(QLayout* layout);

// Shows one document at one navigator's position, and never calls another view. Created and used on the GUI thread.
// Long work runs in a LatestJob, never in Qt's global pool (work_pool.h explains why). A queued call returns the
// result, and checks that the document is still the same.
class View : public QWidget {
  Q_OBJECT

 public:
  // `navigator` must outlive the view.
  View(Navigator* navigator, const QString& name, QWidget* parent) : QWidget(parent), navigator_(navigator) {
    setObjectName(name);
    setAccessibleName(name);
  }

  // `document` is null if nothing is open, and may be partial while loading.
  virtual void SetDocument(DocumentPtr document) = 0;
  // Returns the selection in this view as tab-separated text; empty if there is nothing to copy.
  virtual QString CopyText() const { return {}; }
  // Returns all rows of the view as CSV; empty if it has no such form.
  virtual QString Csv() const { return {}; }
  // Draws the view at any size, for PNG and SVG, and may change the painter's state. Returns false if it has no
  // picture.
  virtual bool Paint(QPainter* painter, const QSize& size) { return (void)painter, (void)size, false; }
  // Zooms if the view supports it: factor > 1 zooms in, at the cursor or the middle.
  virtual void Zoom(double factor) { (void)factor; }
  virtual void ZoomRows(double factor) { (void)factor; }  // zooms only the axis of ranks or lanes
  // Moves the view by these shares of the visible part.
  virtual void Pan(double right, double down) { (void)right, (void)down; }
  virtual void Fit() {}  // shows all contents
  virtual void CentreOnSelection() {}
  virtual void ZoomToSelection() { CentreOnSelection(); }
  // Whether the view has finished its computations and shows the selection. Tests wait for this.
  virtual bool Idle() const { return true; }

 protected:
  // For the field above a list: down and Enter go to the list, Escape clears the field. Returns false for other events.
  static bool HandleFilterKey(QLineEdit* field, QWidget* list, QEvent* event);
  Navigator* navigator() const { return navigator_; }

 private:
  Navigator* navigator_;
};

}  // namespace lockstep::gui
