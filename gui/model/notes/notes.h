// Users' marks and notes on an incident, in a file next to it: <opened path>.notes.json.
#pragma once

#include <QString>

#include "gui/model/document.h"
#include "gui/model/notes/file.h"

namespace lockstep::gui {

// Converts a mark into a selection of this document, and back.
Selection SelectionOfMark(const Document& document, const Mark& mark);
Mark MarkOfSelection(const Document& document, const Selection& selection, const QString& text);
// Converts a communicator to its ID, and back; empty and -1 if there is none.
QString CommIdentity(const Document& document, int32_t comm);
int32_t CommByIdentity(const Document& document, const QString& identity);

}  // namespace lockstep::gui
