// The verdict in the formats that people and programs read.
#pragma once

#include <cstddef>
#include <string>

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct MergedStacks;

struct TextStyle {
  size_t width = 80;
  bool color = false;
};

// These functions need a verdict that has its circumstances (analyzer/report/circumstances.h).

// Returns the first screen: which rank, where, what, how long, what to do and why. At most 24 lines at 80 columns or
// more, for any job size. Ends in a newline.
std::string VerdictText(const Verdict& verdict, const Bundle& bundle, const TextStyle& style = {});
// Returns the full report as plain text, at most 100 columns. Ends in a newline.
std::string ReportText(const Verdict& verdict, const Bundle& bundle);
// The messages of proto/verdict.proto as JSON with two-space indent. Deterministic; ends in a newline.
std::string ReportJson(const Verdict& verdict);
// Returns the JSON Schema (draft 7) of ReportJson, generated from the same messages.
std::string JsonSchema();
// One self-contained HTML page without external scripts. `merged` is the incident's stacks.json; it may be null.
std::string ReportHtml(const Verdict& verdict, const Bundle& bundle, const MergedStacks* merged = nullptr);
// Exit status of the analyze verb: 0 healthy, 1 findings or incomplete data.
int ExitStatus(const Verdict& verdict);
// "HUNG", "RANK_NOT_ARRIVED": enum names as the JSON writes them.
std::string VerdictName(VerdictKind kind);
std::string FindingName(FindingKind kind);

}  // namespace lockstep
