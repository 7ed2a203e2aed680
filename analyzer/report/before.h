// The answers of an archive of earlier incidents (docs/archive.md) about a verdict's culprits. A separate process asks,
// lockstep-archive beside this program. A slow or hostile server therefore costs the verdict a bounded wait and nothing
// else.
#ifndef LOCKSTEP_ANALYZER_REPORT_BEFORE_H_
#define LOCKSTEP_ANALYZER_REPORT_BEFORE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/report/content.h"
#include "analyzer/report/report.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct MergedStacks;

constexpr int64_t kArchiveWaitNs = 1'500'000'000;

// LOCKSTEP_ARCHIVE; empty: no archive is configured.
std::string ArchiveFromEnvironment();

// The archive's answer; empty: none was asked, or it knows nothing.
struct Before {
  struct Item {
    std::string what, name;    // "host" or "code place"
    int64_t culprit_of = 0;    // number of earlier incidents that name it first
    int64_t incidents = 0;     // examined ones: the newest, of all jobs
    int64_t last_real_ns = 0;  // of the newest one that names it; 0: none
    std::string last_kind;     // "GPU_STALL"
    std::string text;          // one sentence
  };
  std::vector<Item> items;
  std::string unknown;  // why the archive gave no answer; else empty
  bool empty() const { return items.empty() && unknown.empty(); }
};

// The reports of report.h with it.
std::string VerdictText(const Verdict& verdict, const Bundle& bundle, const Before& before,
                        const TextStyle& style = {});
std::string ReportText(const Verdict& verdict, const Bundle& bundle, const Before& before);
std::string ReportJson(const Verdict& verdict, const Before& before);
std::string ReportHtml(const Verdict& verdict, const Bundle& bundle, const MergedStacks* merged, const Before& before);
void AddBeforeRow(const Before& before, ReportContent* content);

// The hosts and places of the first finding's culprits as JSON, at most 30 KiB; empty: no question. `until_real_ns`:
// only incidents before that moment count; 0: all.
std::string BeforeQuestion(const Verdict& verdict, int64_t until_real_ns);
// Parses an answer of `lockstep archive before`, which is not trusted.
Before TakeBefore(std::string_view answer);

// Asks the archive at `url`, within a time limit. Errors become Before::unknown. Without culprits nothing is asked.
Before AskBefore(const std::string& url, const Verdict& verdict, int64_t until_real_ns,
                 int64_t limit_ns = kArchiveWaitNs);

// When the incident in this folder was taken, from its manifest; 0: missing or unreadable.
int64_t CapturedRealNs(const std::string& folder);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_REPORT_BEFORE_H_
