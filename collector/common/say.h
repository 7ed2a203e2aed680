// Lockstep's messages on stderr. Writes each message with one call, so that the messages of several processes do not
// mix.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace lockstep {

// Writes "lockstep: TEXT\n" to stderr. Ignores a closed or full stderr.
void Say(absl::string_view text);
// Writes the lines of TEXT, such as a verdict.
void SayBlock(absl::string_view text);
// Returns the lines as SayBlock writes them.
std::string CleanLines(absl::string_view text);
// All functions above replace control characters, because any user can choose the names in the texts.

// Turns off protobuf's own messages on stderr, which any sender of invalid data could cause. Call it at start.
void SilenceLibraries();

// Opens closed standard descriptors (input, output, error) on /dev/null, for this program only. The children of the
// program get closed descriptors again. Programs that open files and sockets call this first. Otherwise a file or
// socket could get number 2, and receive the messages for stderr.
void OccupyClosedStandardFiles();

}  // namespace lockstep
