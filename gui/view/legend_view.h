// The states of the matrix: color, sign, name, and the number of visible cells in each.
#ifndef LOCKSTEP_GUI_VIEW_LEGEND_VIEW_H_
#define LOCKSTEP_GUI_VIEW_LEGEND_VIEW_H_

#include <memory>

#include "gui/model/matrix_source.h"
#include "gui/view/view.h"

namespace lockstep::gui {

// A click, or Enter, on a state selects its next cell in the matrix, the one after the selected; after the last comes
// the first. Ctrl+click, ctrl+Enter, or the menu of the right button, filters: only ranks that have such cells stay,
// until it is done again.
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

  // Of what the matrix shows: the part in sight, rows that the filters leave.
  const StateCounts& counts() const;
  // False: there is none.
  bool SelectNext(ViewState state);
  QRect RectOf(ViewState state) const;
  // The query that leaves ranks with such cells: "state:missing"; empty: there is none.
  static QString FilterOf(ViewState state);

 Q_SIGNALS:
  // Filters like the search bar's; replaces all of them.
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

#endif  // LOCKSTEP_GUI_VIEW_LEGEND_VIEW_H_
