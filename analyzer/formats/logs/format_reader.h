#pragma once

#include "analyzer/formats/format_reader.h"

namespace lockstep {

// Problem::like for a log that contains nothing about a hang.
inline constexpr char kNothingInLog[] = "nothing in log";
// Name of a collective if a log contains only its number.
inline constexpr char kUntoldOperation[] = "an operation that the log does not name";

// `py-spy dump --json`. Tried before other JSON formats that begin in the same way.
const FormatReader& PySpyJsonFormat();
// `ncclras -f json`. Tried before other JSON formats, too.
const FormatReader& RasJsonFormat();
// Lines of NCCL's Inspector. Tried before other JSON formats, too.
const FormatReader& InspectorFormat();
// Any text: job logs and printed stacks. Tried last.
const FormatReader& TextFormat();

}  // namespace lockstep
