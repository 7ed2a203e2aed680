// Lockstep's messages on stderr: one line, one write, so that lines of many processes do not mix.
#ifndef LOCKSTEP_COLLECTOR_COMMON_SAY_H_
#define LOCKSTEP_COLLECTOR_COMMON_SAY_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lockstep {

// Writes "lockstep: TEXT\n" to stderr. A stderr that is closed or full is ignored.
void Say(absl::string_view text);
// Writes the lines of TEXT (the verdict block).
void SayBlock(absl::string_view text);
// The lines as SayBlock writes them.
std::string CleanLines(absl::string_view text);
// All of them replace control characters: any user can choose the names in the texts.

// Turns off protobuf's own messages on stderr, which any sender of invalid data could cause. Call it at start.
void SilenceLibraries();

// Opens closed standard descriptors (input, output, error) on /dev/null, for this program alone: its children find them
// closed again. Call it first in a program that opens files and sockets: otherwise one of these would get the number,
// and with it the messages for stderr.
void OccupyClosedStandardFiles();

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_COMMON_SAY_H_
