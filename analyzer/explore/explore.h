// The incident as one page for a browser without network: verdict, matrix, waits, stacks, timeline, tables.
#ifndef LOCKSTEP_ANALYZER_EXPLORE_EXPLORE_H_
#define LOCKSTEP_ANALYZER_EXPLORE_EXPLORE_H_

#include <string>

#include "analyzer/model/bundle.h"
#include "proto/view.pb.h"

namespace lockstep {

// The Content-Security-Policy of the page allows only its own script and style, by hash. Texts from files are printable
// and are only in the page's data. For a large job the page holds the newest calls; it shows how many are missing.
std::string ExploreHtml(const Bundle& bundle, const ViewFacts& facts);

// The page's data as JSON without '<'.
std::string ExploreData(const Bundle& bundle, const ViewFacts& facts);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_EXPLORE_EXPLORE_H_
