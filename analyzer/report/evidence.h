// Sentences for the fields of evidence, and for excluded causes.
#ifndef LOCKSTEP_ANALYZER_REPORT_EVIDENCE_H_
#define LOCKSTEP_ANALYZER_REPORT_EVIDENCE_H_

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// One sentence, made from the fields. Names from files are not escaped.
std::string EvidenceText(const Evidence& evidence);

// Whether the report has separate rows for it ("state", "stack").
bool HasOwnRow(const Evidence& evidence);

// "network: no stuck operation has all its members in it", for a row with the label "NOT".
std::string RuledOutText(const NotTheCause& ruled_out);
// The same with "NOT", as in Verdict::not_the_cause of the JSON.
std::string NotTheCauseText(const NotTheCause& ruled_out);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_REPORT_EVIDENCE_H_
