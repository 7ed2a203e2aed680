// Converts a position in one document to another: the same files read again, or a second incident next to the first.
#pragma once

#include "gui/model/document.h"
#include "gui/model/navigator.h"

namespace lockstep::gui {

// Finds communicators by ID, otherwise by a unique name, and operations by rank, communicator and number. Drops
// communicators and operations that `to` does not contain. Unless `same` (the same files, maybe more of them), also
// drops the visible parts and the selected times.
Place MapPlace(const Document& from, const Document& to, const Place& place, bool same);

// Maps the visible part of a picture. Columns of communicator mode map by sequence number. Columns of job mode, and
// times, map by their distance from the end, because jobs stall at the end. If the numbers of rows differ, rows map by
// relative position. `place` is in `from`; `there` is the result of MapPlace.
Viewport MapMatrix(const Document& from, const Document& to, const Place& place, const Place& there);
Viewport MapTimeline(const Document& from, const Document& to, const Viewport& shown);

}  // namespace lockstep::gui
