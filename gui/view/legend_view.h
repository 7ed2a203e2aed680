// The states of the matrix: colour, sign, name, and how many cells of what is shown are in each.
#ifndef LOCKSTEP_GUI_VIEW_LEGEND_VIEW_H_
#define LOCKSTEP_GUI_VIEW_LEGEND_VIEW_H_

#include <memory>

#include "gui/view/view.h"

namespace lockstep::gui {

// A click, or Enter, on a state selects its next cell.
class LegendView : public View {
  Q_OBJECT

 public:
  explicit LegendView(Navigator* navigator, QWidget* parent = nullptr);
  ~LegendView() override;

  void SetDocument(DocumentPtr document) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_LEGEND_VIEW_H_
