// English for a whole verdict: what it excludes, and what the record cannot show.
#pragma once

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// Fills all texts that are made of fields.
void PutIntoWords(Verdict* verdict);

std::string NotSeenText(const NotSeen& not_seen);

// "network: in each stuck operation, at least one member is missing", for a row with the label "NOT".
std::string RuledOutText(const NotTheCause& ruled_out);
// The same with "NOT", as in Verdict::not_the_cause of the JSON.
std::string NotTheCauseText(const NotTheCause& ruled_out);

// "killed by signal 9 (SIGKILL)", "inside an NCCL call"; empty: not known.
std::string ConditionText(const Culprit& culprit);

}  // namespace lockstep
