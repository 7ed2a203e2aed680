// The time that a job's start took, in parts: `lockstep analyze --start`.
#ifndef LOCKSTEP_ANALYZER_REPORT_START_H_
#define LOCKSTEP_ANALYZER_REPORT_START_H_

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// The paragraph, the phases of a rank's start, the ranks that others waited for most, and a table of the longest
// creations, one a line of at most 120 columns. Reports missing records. Plain characters: names from files cannot
// control the terminal.
std::string StartUpReport(const Verdict& verdict);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_REPORT_START_H_
