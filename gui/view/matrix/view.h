// The rank x sequence matrix: the picture that shows which rank stopped first.
#pragma once

#include <QPoint>
#include <QString>

#include <memory>
#include <optional>

#include "gui/view/matrix/paint.h"
#include "gui/view/view.h"

namespace lockstep::gui {

// Rows are ranks in the current grouping. Columns are the collectives of a communicator, or the last calls of each
// rank. Around the cells are axes, how far each rank is behind, how many ranks have completed each column, and a
// minimap. Place.matrix_mode, matrix_comm, matrix, grouping, filters and pinned determine the picture. While a new
// matrix is built, the old one stays.
// - Wheel: scrolls ranks, with Shift columns; with Ctrl it zooms columns at the pointer, with Ctrl+Shift ranks. A drag
//   with the middle button or Shift pans both.
// - Arrows move the cursor; with Shift they measure an area, with Ctrl they move by ten. PgUp, PgDn move by a screen;
//   Home and End go to the ends of the row, with Ctrl of the ranks. Enter selects; Ctrl+Enter shows the collective's
//   column.
// - A left drag measures an area (on an axis: whole rows or columns), Esc removes it. A double click shows the
//   collective's column. Other keys are the window's actions.
class MatrixView : public View {
  Q_OBJECT

 public:
  explicit MatrixView(Navigator* navigator, QWidget* parent = nullptr);
  ~MatrixView() override;

  void SetDocument(DocumentPtr document) override;
  QString CopyText() const override;
  QString Csv() const override;
  bool Paint(QPainter* painter, const QSize& size) override;
  void Zoom(double factor) override;
  void ZoomRows(double factor) override;
  void Pan(double right, double down) override;
  void Fit() override;
  void CentreOnSelection() override;
  void ZoomToSelection() override;
  bool Idle() const override;
  QSize sizeHint() const override { return {900, 600}; }
  QSize minimumSizeHint() const override { return {240, 140}; }

  using Cell = MatrixCell;
  std::optional<Cell> cursor() const;
  void MoveCursor(Cell cell);
  // Returns the cursor's cell for a screen reader; empty if there is none.
  QString SpokenCursor() const;
  // For tests: the current data and layout. Null if nothing is open.
  const MatrixData* data() const;
  const ViewTransform& transform() const;
  std::optional<Cell> CellAt(const QPoint& at) const;
  QPoint CentreOf(Cell cell) const;
  const std::optional<LineBox>& area() const;

 protected:
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui
