// The verdict in the formats that people and programs read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct MergedStacks;

struct TextStyle {
  size_t width = 80;
  bool color = false;
};

// What an archive of earlier incidents (analyzer/report/before.h) knows about the culprits; empty if no archive was
// queried, or it knows nothing.
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

// These functions need a verdict that has its circumstances (analyzer/report/circumstances.h).

// Returns the first screen: which rank, where, what, how long, what to do and why. At most 24 lines at 80 columns or
// more, for any job size. Ends in a newline.
std::string VerdictText(const Verdict& verdict, const Bundle& bundle, const Before& before = {},
                        const TextStyle& style = {});
// Returns the full report as plain text, at most 100 columns. Ends in a newline.
std::string ReportText(const Verdict& verdict, const Bundle& bundle, const Before& before = {});
// Returns the messages of proto/verdict.proto and the key `recommended` as JSON. Deterministic; ends in a newline.
std::string ReportJson(const Verdict& verdict, const Before& before = {});
// Returns the JSON Schema (draft 7) of ReportJson.
std::string JsonSchema();
// Returns one self-contained HTML page without scripts. `merged` is the incident's stacks.json; it may be null.
std::string ReportHtml(const Verdict& verdict, const Bundle& bundle, const MergedStacks* merged = nullptr,
                       const Before& before = {});
// Returns the exit status of the analyze verb: 0 if the job is healthy without any finding, otherwise 1.
int ExitStatus(const Verdict& verdict);
// "HUNG", "RANK_NOT_ARRIVED": enum names as the JSON writes them.
std::string VerdictName(VerdictKind kind);
std::string FindingName(FindingKind kind);

}  // namespace lockstep
