// The header's note for people: settings that could not be honored.
#ifndef LOCKSTEP_RECORDER_CORE_NOTE_H_
#define LOCKSTEP_RECORDER_CORE_NOTE_H_

namespace lockstep::recorder {

// Adds a sentence without its full stop; once each, as long as there is room. Cold paths only.
void AddNote(const char* text) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_CORE_NOTE_H_
