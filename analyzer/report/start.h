// The phases of a job's start and how long each took: `lockstep analyze --start`.
#pragma once

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// A paragraph, the phases of a rank's start, the ranks that others waited for most, and a table of the longest
// creations. Lines have at most 120 columns. Reports missing records. All text is printable.
std::string StartUpReport(const Verdict& verdict);

}  // namespace lockstep
