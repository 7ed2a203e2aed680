// Lockstep's own words on stderr: one line, one write, so that lines of many processes do not mix.
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
// All of them replace control characters: texts contain names that any user chose.

// Turns off protobuf's own messages on stderr, which any sender of invalid data could cause. For a program's start.
void SilenceLibraries();

// Of standard input, output and error those that are closed are opened on /dev/null, for this program alone: what it
// starts finds them closed, as it would without it. First thing in a program that opens files and sockets of its own:
// one of them would get the number, and the words that are meant for stderr.
void OccupyClosedStandardFiles();

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_COMMON_SAY_H_
