// What every picture and table of the window can do beside showing itself: copy, export, be found by name.
#ifndef LOCKSTEP_GUI_VIEW_VIEW_H_
#define LOCKSTEP_GUI_VIEW_VIEW_H_

#include <QPainter>
#include <QSize>
#include <QString>
#include <QWidget>

#include "gui/model/document.h"
#include "gui/model/navigator.h"
#include "gui/view/theme.h"

namespace lockstep::gui {

// A view shows one document and one navigator's place. It never talks to another view. Created and used on the window's
// thread. Heavy work goes to a LatestJob or the view's own pool (work_pool.h explains why not Qt's) and returns by a
// queued call, which checks that the document is still the same.
class View : public QWidget {
  Q_OBJECT

 public:
  // `navigator` outlives the view.
  View(Navigator* navigator, const QString& name, QWidget* parent) : QWidget(parent), navigator_(navigator) {
    setObjectName(name);
    setAccessibleName(name);
  }

  // Null: nothing is open. Also called with partial documents while loading.
  virtual void SetDocument(DocumentPtr document) = 0;
  // What is selected here as tab-separated text; empty: nothing to copy.
  virtual QString CopyText() const { return {}; }
  // All that the view lists as CSV; empty: it has no such form.
  virtual QString Csv() const { return {}; }
  // Draws the view at any size, for PNG and SVG. False: it has no picture.
  virtual bool Paint(QPainter* painter, const QSize& size) { return (void)painter, (void)size, false; }
  // Zoom where the view can: factor > 1 nearer, at the cursor or the middle.
  virtual void Zoom(double factor) { (void)factor; }
  virtual void ZoomRows(double factor) { (void)factor; }                    // the axis of ranks or lanes alone
  virtual void Pan(double right, double down) { (void)right, (void)down; }  // by this share of the visible part
  virtual void Fit() {}                                                     // shows all of it
  virtual void CentreOnSelection() {}
  virtual void ZoomToSelection() { CentreOnSelection(); }
  // The view has finished its computations: it shows the selection. Tests wait for it.
  virtual bool Idle() const { return true; }

 protected:
  Navigator* navigator() const { return navigator_; }

 private:
  Navigator* navigator_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_VIEW_H_
