// The rank x sequence matrix: the picture that shows who stopped first.
#ifndef LOCKSTEP_GUI_VIEW_MATRIX_VIEW_H_
#define LOCKSTEP_GUI_VIEW_MATRIX_VIEW_H_

#include <memory>

#include "gui/view/view.h"

namespace lockstep::gui {

// Rows are ranks in the place's grouping, columns collectives of a communicator or the last calls of each rank. Beside it: row
// and column axes, how far each rank is behind, how many have completed each column, and a minimap. What it shows is
// Place.matrix_mode, matrix_comm, matrix, grouping and filters. Keys and mouse: docs/viewer.md, "The matrix".
class MatrixView : public View {
  Q_OBJECT

 public:
  explicit MatrixView(Navigator* navigator, QWidget* parent = nullptr);
  ~MatrixView() override;

  void SetDocument(DocumentPtr document) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_MATRIX_VIEW_H_
