// What an archive of earlier incidents (docs/export.md) knows about a verdict's culprits. A separate process,
// lockstep-archive from this program's folder, sends the query: a slow or hostile server can only delay the verdict by
// a bounded time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/report/content.h"
#include "analyzer/report/report.h"
#include "analyzer/report/roofline.h"
#include "proto/verdict.pb.h"

namespace lockstep {

constexpr int64_t kArchiveWaitNs = 1'500'000'000;

// LOCKSTEP_ARCHIVE; empty if no archive is configured.
std::string ArchiveFromEnvironment();

// Adds the row with the archive's answer.
void AddBeforeRow(const Before& before, ReportContent* content);

// Returns the hosts and code places of the first finding's culprits as JSON; empty if there are none, or if it would
// exceed 60,000 bytes. The query covers only incidents before `until_real_ns`, or all if it is 0.
std::string BeforeQuestion(const Verdict& verdict, int64_t until_real_ns);
// Parses an answer of `lockstep archive before`. The answer is untrusted.
Before TakeBefore(std::string_view answer);

// Queries the archive at `url`, within a time limit. Errors become Before::unknown. Without culprits it sends no query.
Before AskBefore(const std::string& url, const Verdict& verdict, int64_t until_real_ns,
                 int64_t limit_ns = kArchiveWaitNs);

// Queries the archive for the best bus bandwidth in earlier incidents, for at most 64 of the verdict's speeds that have
// no roofline. Empty if it does not answer within the time limit.
std::vector<BestEver> AskBest(const std::string& url, const Verdict& verdict, int64_t until_real_ns,
                              int64_t limit_ns = kArchiveWaitNs);

// Returns when this folder's incident was captured, from its manifest; 0 if missing or unreadable.
int64_t CapturedRealNs(const std::string& folder);

}  // namespace lockstep
