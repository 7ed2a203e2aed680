// The line of code in which a culprit stands, taken from a finding's evidence ("rank 5 stack: read < load (train.py:88)
// < .."): what tells the same trouble in two jobs.
#ifndef LOCKSTEP_ANALYZER_REPORT_PLACES_H_
#define LOCKSTEP_ANALYZER_REPORT_PLACES_H_

#include <string>
#include <string_view>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep {

// Of one item of evidence: the innermost Python frame that is no library's, else the innermost Python frame, else the
// innermost native frame that is neither the kernel's nor the C library's; without offsets, at most 200 bytes. Empty:
// it is no stack, or says nothing of the kind.
std::string PlaceOfEvidence(std::string_view text);

// Of all evidence of a finding, each once, in its order, at most `limit`.
std::vector<std::string> PlacesOf(const Finding& finding, size_t limit);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_REPORT_PLACES_H_
