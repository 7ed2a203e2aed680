// English for the verdict as a whole: what it excludes, and what the record cannot show.
#pragma once

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// Fills every text that is made from fields.
void PutIntoWords(Verdict* verdict);

// "network: in each stuck operation, at least one member is missing", for the row labeled "NOT".
std::string RuledOutText(const NotTheCause& ruled_out);
// Returns "NOT " followed by RuledOutText, as in Verdict::not_the_cause of the JSON.
std::string NotTheCauseText(const NotTheCause& ruled_out);

// "killed by signal 9 (SIGKILL)", "inside an NCCL call"; empty if unknown.
std::string ConditionText(const Culprit& culprit);

}  // namespace lockstep
