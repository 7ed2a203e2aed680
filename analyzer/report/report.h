// The verdict in the forms that people and programs read.
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

// The first screen: which rank, where, what and how long, what to do and why. At most 24 lines from 80 columns on, at
// any job size. Ends in a newline.
std::string VerdictText(const Verdict& verdict, const Bundle& bundle, const TextStyle& style = {});
// Everything, plain text, at most 100 columns, ends in a newline.
std::string ReportText(const Verdict& verdict, const Bundle& bundle);
// The messages of proto/verdict.proto as JSON, two-space indent, ends in a newline. Deterministic.
std::string ReportJson(const Verdict& verdict);
// The JSON Schema (draft 7) of ReportJson, generated from the same messages.
std::string JsonSchema();
// One self-contained HTML page (no script from elsewhere). `merged`: stacks.json of the incident; may be null.
std::string ReportHtml(const Verdict& verdict, const Bundle& bundle, const MergedStacks* merged = nullptr);
// Exit status of the analyze verb: 0 healthy, 1 findings or incomplete data.
int ExitStatus(const Verdict& verdict);
// "HUNG", "RANK_NOT_ARRIVED": enum names as in the JSON.
std::string VerdictName(VerdictKind kind);
std::string FindingName(FindingKind kind);

}  // namespace lockstep
