// Wording that all reports share: rank lists, rates, culprits, advice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/report/words/words.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/time_text.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// "rank 5", "ranks 0-3, 6".
std::string RanksText(const std::vector<int32_t>& ranks, size_t limit = 60);

// "46.2 GB/s"; "not measured" for 0.
std::string RateText(double bytes_per_s);

// "64 KiB", "1.5 GiB".
std::string BytesText(int64_t bytes);

// "high", "medium", "low".
std::string ConfidenceWord(double confidence);

// Returns whether the culprit's host, GPU or PID is known.
bool MoreThanItsNumber(const Culprit& culprit);

// "HUNG"; "ENDED EARLY" if the rank exited with status 0, which the JSON calls CRASHED.
std::string VerdictWord(const Verdict& verdict);

// "rank 5 (node03, GPU 1)", with the parts that are known; `full` adds "0000:1b:00.0, PID 48211".
std::string CulpritText(const Culprit& culprit, bool full);

// A communicator's name, or its id if it has no name.
std::string CommName(const CommunicatorRef& comm);

// "host node03", "switch leaf7": the part that all or most culprits share; empty if there is none.
std::string CommonText(const Finding& finding);

// One sentence: which rank, where in the code, and what it did not do. If all culprits share a host or switch, it
// comes before their ranks. Otherwise a few known hosts follow the ranks: "ranks 8, 9 (both on node-3)". Unless the
// confidence is high, the sentence begins with "cause open: ", "likely cause: " or "possible cause: ".
std::string Headline(const Finding& finding);

// Returns the clauses of the headline, safe to print, the most important first. The first names the ranks.
std::vector<Clause> HeadlineClauses(const Finding& finding);

// Whether the report has a separate row for this evidence ("state", "stack").
bool HasOwnRow(const Evidence& evidence);

// "3 of the 8", "all 8", "both", for use before a noun.
std::string ShareText(int32_t part, int32_t whole);

// "63 of 64 ranks read (for 1 more, only the end is known)".
std::string RanksReadText(const Verdict& verdict);

// "7 other ranks are waiting for it."; empty if no rank is waiting.
std::string WaitingText(const Finding& finding);

// "Also at fault: rank 20.": the other ranks that further, certain findings name. "Also suspected: ..." if no further
// finding that names another rank is certain. Empty if there is none.
std::string AlsoText(const Verdict& verdict);

// Finding::advice_steps, safe to print.
std::vector<std::string> AdviceSteps(const Finding& finding);

// Returns ranks from 0 to `expected` - 1 that are not in `present` (ascending); checks at most a million.
std::vector<int32_t> MissingRanks(int32_t expected, const std::vector<int32_t>& present);

}  // namespace lockstep
