// Marks and notes that people leave on an incident, kept in a file beside it: <what was opened>.notes.json.
#ifndef LOCKSTEP_GUI_MODEL_NOTES_H_
#define LOCKSTEP_GUI_MODEL_NOTES_H_

#include <QString>

#include "gui/model/document.h"
#include "gui/model/notes_file.h"

namespace lockstep::gui {

// Of a mark: what it selects in this document, and the mark of a selection.
Selection SelectionOfMark(const Document& document, const Mark& mark);
Mark MarkOfSelection(const Document& document, const Selection& selection, const QString& text);
// Identity of a communicator as the index has it, and back; empty and -1 where there is none.
QString CommIdentity(const Document& document, int32_t comm);
int32_t CommByIdentity(const Document& document, const QString& identity);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_NOTES_H_
