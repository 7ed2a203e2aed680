// Labelled rows, before they are laid out as text or as a page.
#ifndef LOCKSTEP_ANALYZER_REPORT_BLOCK_H_
#define LOCKSTEP_ANALYZER_REPORT_BLOCK_H_

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
  int finding = -1;   // into Verdict::findings; -1: of none
  std::vector<ReportRow> rows;

  // Null: there is none.
  const ReportRow* Find(std::string_view label) const {
    for (const ReportRow& row : rows) {
      if (row.label == label) return &row;
    }
    return nullptr;
  }
  // Empty rows are left out.
  void AddRow(std::string label, std::vector<std::string> lines) {
    if (!lines.empty()) rows.push_back({std::move(label), std::move(lines)});
  }
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_REPORT_BLOCK_H_
