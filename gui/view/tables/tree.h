// The job as a tree: hosts with their ranks, communicators with their members, each with its state.
#pragma once

#include "gui/model/tables/tree.h"
#include "gui/view/view.h"

class QTreeView;

namespace lockstep::gui {

class TreePane : public View {
  Q_OBJECT

 public:
  explicit TreePane(Navigator* navigator, QWidget* parent = nullptr);
  ~TreePane() override;

  void SetDocument(DocumentPtr document) override;
  QString CopyText() const override;
  bool Idle() const override { return model_->Idle(); }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void Filter();
  void Share();
  void ShowSelection();
  void TakeSelection();

  IncidentTree* model_;
  QLineEdit* filter_;
  QTreeView* tree_;
  bool showing_ = false;  // the tree's selection follows the navigator's, and must not be sent back
};

}  // namespace lockstep::gui
