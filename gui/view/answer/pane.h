// The picture in AnswerView: the last calls around the fault, with a row for each row of the Focus.
#pragma once

#include <QRectF>

#include "gui/model/answer/answer.h"
#include "gui/view/pane.h"

namespace lockstep::gui {

class AnswerPane : public Pane {
  Q_OBJECT

 public:
  struct Cell {
    int row = -1, column = -1;  // column -1: the whole row
    bool operator==(const Cell&) const = default;
  };

  AnswerPane(Navigator* navigator, QWidget* parent);

  // `focus` must be in the document's facts; null for no picture.
  void Show(DocumentPtr document, const Focus* focus);
  const Focus* focus() const { return focus_; }
  // Returns the height for all rows, up to `most` if they can use more space.
  int HeightFor(int most) const;
  Cell cursor() const { return cursor_; }
  QRectF RectOf(Cell cell) const;
  Cell At(const QPointF& at) const;
  QString CellText(Cell cell) const;
  void Draw(QPainter* painter, const QSize& size, bool whole) override;

 Q_SIGNALS:
  void CursorMoved();

 protected:
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  QString TipAt(const QPoint& at) const override { return CellText(At(at)).toHtmlEscaped(); }

 private:
  struct Layout {
    double label = 0, cell = 0, head = 0, row = 0, end = 0, width = 0;
    double X(int column) const { return label + column * cell; }
    double Y(int row_number) const { return head + row_number * row; }
  };
  Layout LayoutFor(const QSize& size) const;
  void DrawHead(QPainter* painter, const Theme& theme, const Layout& layout) const;
  void DrawRow(QPainter* painter, const Theme& theme, const Layout& layout, int row) const;
  void DrawCell(QPainter* painter, const Theme& theme, const QRectF& rect, const Focus::Cell& cell, bool culprit) const;
  void DrawMark(QPainter* painter, const Theme& theme, const QRectF& rect, bool missing) const;
  bool Missing(const Focus::Row& row) const;
  void SetCursor(Cell cell);
  void Select(Cell cell);

  Navigator* navigator_;
  DocumentPtr document_;
  const Focus* focus_ = nullptr;
  Cell cursor_;
};

}  // namespace lockstep::gui
