// The note in the ring's header. It shows users which settings could not be applied.
#pragma once

namespace lockstep::recorder {

// Adds a sentence without its full stop, once, if there is room. For cold paths only.
void AddNote(const char* text) noexcept;

}  // namespace lockstep::recorder
