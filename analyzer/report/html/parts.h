// The sections of the HTML report. Each function appends a whole <section>, or nothing if there is no data. Every
// text from a file passes through Escaped. Every list is bounded, so that a page for 24,576 ranks stays below 2 MB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct MergedStacks;

// Printable text with <, >, &, " and ' as entities, cut to `limit` columns.
std::string Escaped(std::string_view text, size_t limit = 2000);

const char* HtmlStyle();

// "<section><h2>title</h2>" .. ; close with "</section>\n".
void OpenSection(std::string_view id, std::string_view title, std::string* out);

// A rank's role: neither named nor waiting, waiting because of a finding, named by one, or without data.
enum class RankRole : uint8_t { kFine, kVictim, kCulprit, kNoData };
// Returns each rank's role, indexed by global rank, up to the largest known or expected one.
std::vector<RankRole> RolesOf(const Verdict& verdict, const Bundle& bundle);

// The chain as a flow, causes on top.
void AppendChain(const Finding& finding, std::string* out);
// A map with one cell for each rank; in large jobs, equal neighbors share a cell.
void AppendRankMap(const std::vector<RankRole>& roles, std::string* out);
// Each rank's progress on each communicator: ranks against sequence numbers.
void AppendSequences(const Verdict& verdict, const Bundle& bundle, const std::vector<RankRole>& roles,
                     std::string* out);
// The last calls of at most two culprits, then of waiting ranks, three ranks in all. Newest first, over all
// communicators.
void AppendLastCalls(const Verdict& verdict, const Bundle& bundle, const std::vector<RankRole>& roles,
                     std::string* out);
// Groups ranks by what they were doing.
void AppendStates(const Bundle& bundle, const std::vector<RankRole>& roles, std::string* out);
// Native and Python stacks, outermost frame first, merged where they are equal.
void AppendStacks(const Bundle& bundle, const std::vector<RankRole>& roles, const MergedStacks* merged,
                  std::string* out);
void AppendBandwidths(const Verdict& verdict, std::string* out);
void AppendArrivals(const Verdict& verdict, std::string* out);
void AppendClocks(const Verdict& verdict, const Bundle& bundle, std::string* out);
void AppendStartUp(const Verdict& verdict, std::string* out);

}  // namespace lockstep
