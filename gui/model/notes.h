// Marks and notes of users on an incident, in a file beside it: <opened path>.notes.json.
#ifndef LOCKSTEP_GUI_MODEL_NOTES_H_
#define LOCKSTEP_GUI_MODEL_NOTES_H_

#include <QString>

#include "gui/model/document.h"
#include "gui/model/notes_file.h"

namespace lockstep::gui {

// Converts a mark into a selection of this document, and a selection into a mark.
Selection SelectionOfMark(const Document& document, const Mark& mark);
Mark MarkOfSelection(const Document& document, const Selection& selection, const QString& text);
// Identity of a communicator as the index has it, and back; empty and -1 where there is none.
QString CommIdentity(const Document& document, int32_t comm);
int32_t CommByIdentity(const Document& document, const QString& identity);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_NOTES_H_
