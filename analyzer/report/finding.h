// One finding as labeled rows: why, whether the process is moving, the chain, how sure, what to do.
#pragma once

#include "analyzer/model/bundle.h"
#include "analyzer/report/block.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// `brief` is for later findings: it omits stacks, states and evidence.
ReportBlock FindingBlock(const Finding& finding, const Bundle& bundle, bool brief);

// Maximum number of links at the start of the row "chain".
inline constexpr int kMaxLinksShown = 12;

}  // namespace lockstep
