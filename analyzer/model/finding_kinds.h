// Facts about each kind of finding, for the analysis, the reports and the live detector, in one table.
#pragma once

#include "proto/verdict.pb.h"

namespace lockstep {

struct FindingFacts {
  FindingKind kind = FINDING_UNSPECIFIED;
  // The sort order of findings: certain and urgent ones first, inferred ones last.
  int order = 0;
  // The verdict if the first finding is of this kind. VERDICT_UNSPECIFIED means hung, or late if that is not certain
  // yet.
  VerdictKind verdict = VERDICT_UNSPECIFIED;
  const char* cause = "unknown";  // the category that an on-call engineer sees
  const char* differs = nullptr;  // the argument that differs; null if the kind is not a mismatch
  bool definite = false;          // ranks disagree, so waiting longer changes nothing
  bool rests_on_flight = false;   // the kind rests on operations that were in flight when the data was captured
  bool host_shows_why = false;    // samples of the culprits' processes may show the cause
  bool one_broken_thing = false;  // several culprits may share one broken host, switch or rack
  bool alike_is_one = true;       // several ranks in the same state are one finding
  const char* tells_apart = "";   // the fact that decides between several named ranks
};

const FindingFacts& FindingFactsOf(FindingKind kind);

}  // namespace lockstep
