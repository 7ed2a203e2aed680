// Translates a place of one document into another: the same files read again, or a second incident beside the first.
#ifndef LOCKSTEP_GUI_APP_PLACE_MAPPING_H_
#define LOCKSTEP_GUI_APP_PLACE_MAPPING_H_

#include "gui/model/document.h"
#include "gui/model/navigator.h"

namespace lockstep::gui {

// Communicators are found by their identity, else by their name where it is the only one; an operation by its rank,
// communicator and number. What `to` has not is left out. Viewports stay as they are where `same` (the same files,
// maybe more of them), else only selection, filters, mode and grouping are taken over.
Place MapPlace(const Document& from, const Document& to, const Place& place, bool same);

// The same part of the picture: columns of a communicator by sequence number, the last calls and times counted back
// from the end, where jobs stall; rows by their share where there are not as many. `place` is one of `from`, `there`
// what MapPlace made of it.
Viewport MapMatrix(const Document& from, const Document& to, const Place& place, const Place& there);
Viewport MapTimeline(const Document& from, const Document& to, const Viewport& shown);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_PLACE_MAPPING_H_
