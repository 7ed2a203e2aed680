// A picture inside a view: paints itself, updates when palette or font change, and shows tooltips.
#pragma once

#include <QPainter>
#include <QPoint>
#include <QSize>
#include <QString>
#include <QWidget>

#include "gui/view/theme.h"

namespace lockstep::gui {

class Pane : public QWidget {
 public:
  Pane(const QString& name, const QString& description, QWidget* parent);

  // `whole` is true for exports, which have no cursor.
  virtual void Draw(QPainter* painter, const QSize& size, bool whole) = 0;

 protected:
  virtual QString TipAt(const QPoint& at) const = 0;
  virtual void Restyle() { update(); }  // the palette or font changed
  // Fills the background. If `why` is not empty, draws only that text, and returns false.
  bool Begin(QPainter* painter, const QSize& size, const QString& why) const;

  void paintEvent(QPaintEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool event(QEvent* event) override;
};

}  // namespace lockstep::gui
