// The incident as one page that a browser opens without a network: verdict, matrix, waits, stacks, timeline, tables.
#ifndef LOCKSTEP_ANALYZER_EXPLORE_EXPLORE_H_
#define LOCKSTEP_ANALYZER_EXPLORE_EXPLORE_H_

#include <string>

#include "analyzer/model/bundle.h"
#include "proto/view.pb.h"

namespace lockstep {

// Its Content-Security-Policy allows its own script and style only, by hash. Texts from files are printable, and stand
// in the page's data alone. For a large job it holds the newest calls only; the page says how many are missing.
std::string ExploreHtml(const Bundle& bundle, const ViewFacts& facts);

// The page's data as JSON without '<'.
std::string ExploreData(const Bundle& bundle, const ViewFacts& facts);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_EXPLORE_EXPLORE_H_
