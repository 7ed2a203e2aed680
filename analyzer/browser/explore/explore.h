// The incident as one page for a browser without network access: verdict, matrix, waits, stacks, timeline, tables.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/browser/explore/calls.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"
#include "proto/view.pb.h"

namespace lockstep {

// The maximum size of a page. Calls are omitted first, then everything except the verdict. The page reports what is
// missing, and which command shows it.
inline constexpr size_t kMostExploreBytes = 5'000'000;

// The page's Content-Security-Policy allows only its own script and style, by hash. Texts from files are printable
// and appear only in the page's data. For a large job the page contains the newest calls, and shows how many are
// missing.
std::string ExploreHtml(const Bundle& bundle, const ViewFacts& facts, size_t most_bytes = kMostExploreBytes);

// Returns the page's Content-Security-Policy, which a server sends in a header.
std::string ExplorePolicy();

// Like ExploreHtml, for a server that has the calls. The page requests grids.json (ExploreGrids), and calls.json?A,B,C
// (ExploreCalls): the calls of some ranks, by index in the bundle. The policy allows these requests.
std::string ExploreServedHtml(const Bundle& bundle, const ViewFacts& facts, const CallSource& calls);
std::string ExploreServedPolicy();
std::string ExploreGrids(const Bundle& bundle, const ViewFacts& facts, const CallSource& calls);
std::string ExploreCalls(const Bundle& bundle, const ViewFacts& facts, const CallSource& calls,
                         const std::vector<size_t>& rows);

// Returns whether this version could have written the page. Checks only that its data contains no markup.
bool IsExplorePage(std::string_view page);

// Like ExploreHtml, for the contents of an incident folder. Takes about as long as the analysis.
std::string ExplorePage(const Bundle& bundle, const Verdict& verdict, const MergedStacks& stacks);

// Returns the page's data as JSON without '<'.
std::string ExploreData(const Bundle& bundle, const ViewFacts& facts, size_t most_bytes = kMostExploreBytes);
std::string ExploreServedData(const Bundle& bundle, const ViewFacts& facts, const CallSource& calls);

}  // namespace lockstep
