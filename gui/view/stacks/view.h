// The merged stacks of all ranks as a picture, and below it as a tree. The width of a node is proportional to its
// ranks. Exceptional ranks are marked and come first. A click or Enter selects a node's ranks. Without stacks, the view
// shows the reason.
#pragma once

#include <vector>

#include "gui/model/tables/stacks.h"
#include "gui/view/view.h"

class QLabel;
class QLineEdit;
class QScrollArea;
class QSplitter;
class QTreeView;

namespace lockstep::gui {

class IciclePane;

class StackView : public View {
  Q_OBJECT

 public:
  explicit StackView(Navigator* navigator, QWidget* parent = nullptr);
  void SetDocument(DocumentPtr document) override;
  QString CopyText() const override;  // the node in focus with its path, or the whole tree as indented text
  QString Csv() const override;
  bool Paint(QPainter* painter, const QSize& size) override;
  void Zoom(double factor) override;  // makes the picture wider
  void Pan(double right, double down) override;
  void Fit() override;
  void CentreOnSelection() override;
  void ZoomToSelection() override;

  const StackModel& model() const { return *model_; }
  int current() const { return current_; }  // node in focus; -1 if there is none
  void SetCurrent(int node);
  QRect BoxOf(int node) const;  // in the picture, in coordinates of this widget; empty if not shown
  QString Message() const;      // why stacks are missing

 protected:
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* object, QEvent* event) override;

 private:
  void SelectNode(int node);
  void Mark();
  void Find(int step);
  void SizePane();
  void ShowCurrent();

  DocumentPtr document_;
  StackModel* model_;
  QLineEdit* search_;
  QLabel* found_;
  QLabel* message_;
  QSplitter* splitter_;
  QScrollArea* area_;
  IciclePane* pane_ = nullptr;
  QTreeView* tree_;
  std::vector<int> matches_;
  int match_ = -1;
  int current_ = -1;
  double zoom_ = 1;
};

}  // namespace lockstep::gui
