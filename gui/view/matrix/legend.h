// The states of the matrix: color, sign, name, and the number of visible cells in each.
#pragma once

#include <memory>

#include "gui/model/matrix/source.h"
#include "gui/view/view.h"

namespace lockstep::gui {

// A click or Enter on a state selects the next cell with the state after the selected cell, and wraps around at the
// end. Ctrl+click, Ctrl+Enter or the context menu keep only ranks with such cells; doing it again removes the filter.
class LegendView : public View {
  Q_OBJECT

 public:
  explicit LegendView(Navigator* navigator, QWidget* parent = nullptr);
  ~LegendView() override;

  void SetDocument(DocumentPtr document) override;
  QString CopyText() const override;
  QString Csv() const override;
  bool Paint(QPainter* painter, const QSize& size) override;
  bool Idle() const override;
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {120, 60}; }

  // Returns the number of visible cells in each state. Rows that the filters hide do not count.
  const StateCounts& counts() const;
  // Selects the next cell with the state. Returns false if there is none.
  bool SelectNext(ViewState state);
  QRect RectOf(ViewState state) const;
  // Returns the query that selects ranks with such cells: "state:missing"; empty if there is none.
  static QString FilterOf(ViewState state);

 Q_SIGNALS:
  // These filters must replace all existing ones.
  void FiltersWanted(const QStringList& filters);

 protected:
  void contextMenuEvent(QContextMenuEvent* event) override;
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void changeEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui
