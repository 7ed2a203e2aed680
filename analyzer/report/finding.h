// One finding as labelled rows: why, whether it moves, the chain, how sure, what to do.
#ifndef LOCKSTEP_ANALYZER_REPORT_FINDING_H_
#define LOCKSTEP_ANALYZER_REPORT_FINDING_H_

#include "analyzer/model/bundle.h"
#include "analyzer/report/block.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// `brief`: for later findings, without stacks, states and evidence.
ReportBlock FindingBlock(const Finding& finding, const Bundle& bundle, bool brief);

// "ranks 1, 3 wait in AllReduce #41 on dp_1 for rank 5".
std::string LinkText(const ChainLink& link);

// "high; would be refuted by ..", and whether it is a hypothesis.
std::string SureText(const Finding& finding);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_REPORT_FINDING_H_
