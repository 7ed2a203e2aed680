// The report of `lockstep analyze` in parts for a viewer: the same lines, each with its finding.
#pragma once

#include "analyzer/model/bundle.h"
#include "proto/view.pb.h"

namespace lockstep {

// Sets report and report_text. Pure.
void SetReport(const Bundle& bundle, const Verdict& verdict, ViewFacts* facts);

}  // namespace lockstep
