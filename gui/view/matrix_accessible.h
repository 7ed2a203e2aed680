// What assistive technology is told of the matrix: its value is the cell under the cursor.
#ifndef LOCKSTEP_GUI_VIEW_MATRIX_ACCESSIBLE_H_
#define LOCKSTEP_GUI_VIEW_MATRIX_ACCESSIBLE_H_

namespace lockstep::gui {

// From then on every MatrixView is read out. Once is enough, again does no harm.
void InstallMatrixAccessible();

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_MATRIX_ACCESSIBLE_H_
