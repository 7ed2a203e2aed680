// The picture in StackView: a box per node, a row per level, with the outermost frames on top.
#pragma once

#include <QRectF>
#include <QWidget>

#include <functional>
#include <vector>

#include "gui/model/stack_model.h"
#include "gui/view/theme.h"

namespace lockstep::gui {

class IciclePane : public QWidget {
  Q_OBJECT

 public:
  // `model` must outlive it.
  explicit IciclePane(const StackModel* model, QWidget* parent = nullptr);

  std::function<void(int)> on_current, on_select;  // the node in focus; the chosen node

  void Rebuild();  // call after model, root, width or font changed
  int root() const { return root_; }
  void SetRoot(int node);  // -1 for all
  void SetCurrent(int node);
  void SetLit(std::vector<bool> lit);      // one entry per node; empty if none is highlighted
  void SetFound(std::vector<bool> found);  // nodes that match the search
  QRectF BoxOf(int node) const;            // empty if not shown
  int NodeAt(const QPointF& at) const;
  int RowHeight() const;
  int WantedHeight() const;
  void Draw(QPainter* painter, const Theme& theme, const Icicle& icicle, double row_height, const QRectF& clip) const;
  Icicle Layout(double width) const;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool event(QEvent* event) override;

 private:
  void Step(int key);

  const StackModel* model_;
  Icicle icicle_;
  std::vector<bool> lit_, found_;
  int root_ = -1, current_ = -1;
};

}  // namespace lockstep::gui
