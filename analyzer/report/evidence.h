// Sentences made of the fields of evidence, and of what a verdict rules out.
#ifndef LOCKSTEP_ANALYZER_REPORT_EVIDENCE_H_
#define LOCKSTEP_ANALYZER_REPORT_EVIDENCE_H_

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// One sentence, as its fields say it; names from files are in it as they are.
std::string EvidenceText(const Evidence& evidence);

// Whether the report shows it in rows of their own ("state", "stack").
bool HasOwnRow(const Evidence& evidence);

// "network: no stuck operation has all its members in it", for a row that says "NOT".
std::string RuledOutText(const NotTheCause& ruled_out);
// The same with the "NOT", as Verdict::not_the_cause has it in JSON.
std::string NotTheCauseText(const NotTheCause& ruled_out);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_REPORT_EVIDENCE_H_
