// Labeled rows, before they are formatted as text or HTML.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

struct ReportRow {
  std::string label;               // "state", "chain"; short
  std::vector<std::string> lines;  // printable, not wrapped
};

struct ReportBlock {
  std::string title;  // one finding's headline
  int finding = -1;   // index into Verdict::findings; -1 if there is none
  std::vector<ReportRow> rows;

  // Null if there is none.
  const ReportRow* Find(std::string_view label) const {
    for (const ReportRow& row : rows) {
      if (row.label == label) return &row;
    }
    return nullptr;
  }
  // Skips empty rows.
  void AddRow(std::string label, std::vector<std::string> lines) {
    if (!lines.empty()) rows.push_back({std::move(label), std::move(lines)});
  }
};

}  // namespace lockstep
