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

struct MergedStacks;

constexpr int64_t kArchiveWaitNs = 1'500'000'000;

// LOCKSTEP_ARCHIVE; empty if no archive is configured.
std::string ArchiveFromEnvironment();

// The archive's answer; empty if no archive was queried, or it knows nothing.
struct Before {
  struct Item {
    std::string what, name;    // "host" or "code place"
    int64_t culprit_of = 0;    // number of earlier incidents whose first finding names it
    int64_t incidents = 0;     // number of incidents searched: the newest, of all jobs
    int64_t last_real_ns = 0;  // time of the newest incident that names it; 0 if there is none
    std::string last_kind;     // "GPU_STALL"
    std::string text;          // one sentence
  };
  std::vector<Item> items;
  std::string unknown;  // why the archive did not answer; empty if it did
  bool empty() const { return items.empty() && unknown.empty(); }
};

// Like VerdictText and the other functions in report.h, with the archive's answer.
std::string VerdictText(const Verdict& verdict, const Bundle& bundle, const Before& before,
                        const TextStyle& style = {});
std::string ReportText(const Verdict& verdict, const Bundle& bundle, const Before& before);
std::string ReportJson(const Verdict& verdict, const Before& before);
std::string ReportHtml(const Verdict& verdict, const Bundle& bundle, const MergedStacks* merged, const Before& before);
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
