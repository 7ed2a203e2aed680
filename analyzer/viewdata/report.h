// The report of `lockstep analyze` in parts for a viewer: the same lines, each with its finding.
#ifndef LOCKSTEP_ANALYZER_VIEWDATA_REPORT_H_
#define LOCKSTEP_ANALYZER_VIEWDATA_REPORT_H_

#include "analyzer/model/bundle.h"
#include "proto/view.pb.h"

namespace lockstep {

// Sets report and report_text. Pure.
void SetReport(const Bundle& bundle, const Verdict& verdict, ViewFacts* facts);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_VIEWDATA_REPORT_H_
