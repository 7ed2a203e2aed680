// The matrix for assistive technology: its value is the cell under the cursor.
#ifndef LOCKSTEP_GUI_VIEW_MATRIX_ACCESSIBLE_H_
#define LOCKSTEP_GUI_VIEW_MATRIX_ACCESSIBLE_H_

namespace lockstep::gui {

class MatrixView;

// Called at the end of the view's constructor.
void InstallMatrixAccessible(MatrixView* view);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_MATRIX_ACCESSIBLE_H_
