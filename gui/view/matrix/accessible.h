// The matrix for assistive technology: the value is the text of the cell under the cursor.
#pragma once

namespace lockstep::gui {

class MatrixView;

// Call at the end of the view's constructor.
void InstallMatrixAccessible(MatrixView* view);

}  // namespace lockstep::gui
