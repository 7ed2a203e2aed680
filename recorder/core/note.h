// The note in the ring's header: settings that could not be applied, and what was switched off.
#pragma once

namespace lockstep::recorder {

// Adds a text unless the note contains it already. The text is cut if there is no room, and lost if another thread is
// adding a text. For cold paths only.
void AddNote(const char* text) noexcept;

}  // namespace lockstep::recorder
