// The job as a tree: hosts with their ranks, communicators with their members, each with its state.
#pragma once

#include <memory>

#include "gui/view/view.h"

namespace lockstep::gui {

class TreePane : public View {
  Q_OBJECT

 public:
  explicit TreePane(Navigator* navigator, QWidget* parent = nullptr);
  ~TreePane() override;

  void SetDocument(DocumentPtr document) override;
  QString CopyText() const override;
  bool Idle() const override;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui
