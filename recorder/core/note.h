// The header's note, which people read: settings that could not be applied.
#pragma once

namespace lockstep::recorder {

// Adds a sentence without its full stop. Each sentence is added once, while there is room. Only for cold paths.
void AddNote(const char* text) noexcept;

}  // namespace lockstep::recorder
