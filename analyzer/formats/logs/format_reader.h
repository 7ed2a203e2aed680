#pragma once

#include "analyzer/formats/format_reader.h"

namespace lockstep {

// Problem::like for a log that contains nothing about a hang.
inline constexpr char kNothingInLog[] = "nothing in log";
// Name of a collective if a log contains only its number.
inline constexpr char kUntoldOperation[] = "an operation that the log does not name";

// Reads logs, printed stacks, and the JSON of py-spy, ncclras and NCCL's Inspector.
void ReadLogs(const std::vector<std::string>& paths, const ReadControl& control, Records* records);

}  // namespace lockstep
