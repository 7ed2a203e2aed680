// The wait-for graph. A node is a set of ranks in equal wait states. Causes are on the left, the most distant victims
// on the right, and cycles are highlighted. A click or Enter selects a node's ranks and operation; Left and Right
// follow the arrows; the selection of other views is marked.
#pragma once

#include <QPainterPath>
#include <QPointF>
#include <QString>

#include <vector>

#include "gui/model/graph/layout.h"
#include "gui/view/view.h"

namespace lockstep::gui {

class WaitGraphView : public View {
  Q_OBJECT

 public:
  explicit WaitGraphView(Navigator* navigator, QWidget* parent = nullptr);
  void SetDocument(DocumentPtr document) override;
  QString CopyText() const override;  // the chain, causes first
  QString Csv() const override;       // one line per arrow, and one per node without an arrow
  bool Paint(QPainter* painter, const QSize& size) override;
  void Zoom(double factor) override;
  void Pan(double right, double down) override;
  void Fit() override;
  void CentreOnSelection() override;
  void ZoomToSelection() override;

  const WaitGraph& graph() const { return graph_; }
  int focused() const { return focus_; }  // -1 if there is none
  QRectF NodeRect(int node) const;        // in coordinates of the widget
  QString NodeText(int node) const;       // at most six lines
  bool Marked(int node) const {
    return marked_[static_cast<size_t>(node)];
  }  // whether the node shares ranks with the selection

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool event(QEvent* event) override;

 private:
  void Rebuild();
  void Relayout();
  void Mark();
  void Draw(QPainter* painter, const Theme& theme) const;
  void DrawNode(QPainter* painter, const Theme& theme, int node) const;
  void DrawArrow(QPainter* painter, const Theme& theme, size_t arrow, std::vector<QRectF>* taken) const;
  int NodeAt(const QPointF& at) const;
  void SelectNode(int node);
  void FocusNode(int node);
  void Step(int key);
  void ZoomAt(const QPointF& at, double factor);
  void Show(const QRectF& scene);  // scrolls until `scene` is visible
  QRectF SceneRect() const;
  QRectF MarkedRect() const;  // of the nodes that share ranks with the selection
  QFont SmallFont() const;

  DocumentPtr document_;
  WaitGraph graph_;
  WaitLayout layout_;
  std::vector<QStringList> lines_;  // for each node, the title first
  std::vector<bool> marked_;
  double scale_ = 1;
  QPointF offset_;      // widget = scene * scale + offset
  bool fitted_ = true;  // follows the window's size until the user zooms or scrolls
  int focus_ = -1;
  QPointF press_, drag_offset_;
  bool panning_ = false, moved_ = false;
};

}  // namespace lockstep::gui
