// The picture in StackView: a box per node, a row per level, with the outermost frames on top.
#pragma once

#include <QRectF>

#include <functional>
#include <vector>

#include "gui/model/tables/stacks.h"
#include "gui/view/pane.h"

namespace lockstep::gui {

class IciclePane : public Pane {
  Q_OBJECT

 public:
  // `model` must outlive the pane.
  explicit IciclePane(const StackModel* model, QWidget* parent = nullptr);

  std::function<void(int)> on_current, on_select;  // the node in focus; the chosen node

  void Rebuild();  // call after the model, root, width or font changed
  int root() const { return root_; }
  void SetRoot(int node);  // -1 for all
  void SetCurrent(int node);
  void SetLit(std::vector<bool> lit);      // one entry per node; empty if none is highlighted
  void SetFound(std::vector<bool> found);  // nodes that match the search
  QRectF BoxOf(int node) const;            // empty if not shown
  int NodeAt(const QPointF& at) const;
  int RowHeight() const;
  int WantedHeight() const;
  void DrawBoxes(QPainter* painter, const Icicle& icicle, double row_height, const QRectF& clip) const;
  void Draw(QPainter* painter, const QSize& size, bool whole) override;
  Icicle Layout(double width) const;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  QString TipAt(const QPoint& at) const override {
    const int node = NodeAt(at);
    return node < 0 ? QString() : model_->NodeText(node);
  }
  void Restyle() override { Rebuild(); }

 private:
  void Step(int key);

  const StackModel* model_;
  Icicle icicle_;
  QRectF shown_;  // the part that is painted
  std::vector<bool> lit_, found_;
  int root_ = -1, current_ = -1;
};

}  // namespace lockstep::gui
