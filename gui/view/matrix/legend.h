// The states of the matrix: color, sign, name, and the number of visible cells in each.
#pragma once

#include <vector>

#include "gui/model/latest_job.h"
#include "gui/model/matrix/source.h"
#include "gui/view/view.h"

namespace lockstep::gui {

// A click or Enter on a state selects the next cell with the state after the selected cell, and wraps around at the
// end. Ctrl+click, Ctrl+Enter or the context menu keep only ranks with such cells; doing it again removes the filter.
class LegendView : public View {
  Q_OBJECT

 public:
  explicit LegendView(Navigator* navigator, QWidget* parent = nullptr);

  void SetDocument(DocumentPtr document) override;
  QString CopyText() const override;
  QString Csv() const override;
  bool Paint(QPainter* painter, const QSize& size) override;
  bool Idle() const override { return source_.idle() && !count_job_.busy(); }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {120, 60}; }

  // Returns the number of visible cells in each state. Rows that the filters hide do not count.
  const StateCounts& counts() const { return counts_; }
  // Selects the next cell with the state. Returns false if there is none.
  bool SelectNext(ViewState state);
  QRect RectOf(ViewState state) const;  // empty if there is no room for the state
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
  bool Filters(ViewState state) const;
  void ToggleFilter(ViewState state);
  int row_height() const;
  int Rows(int height) const;
  void Count();
  std::vector<ViewState> Order(int height) const;
  ViewState StateOf(int row) const;
  int RowAt(const QPoint& at) const;
  void Menu(ViewState state, const QPoint& at);
  QString CountText(ViewState state) const;
  void Draw(QPainter* painter, const QSize& size, bool live) const;

  DocumentPtr document_;
  MatrixSource source_;
  StateCounts counts_{};
  bool counted_ = false;
  Viewport counted_viewport_;
  LatestJob count_job_;
  int current_ = 0, hovered_ = -1;
};

}  // namespace lockstep::gui
