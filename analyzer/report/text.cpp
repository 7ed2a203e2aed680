#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/report/before.h"
#include "analyzer/report/content.h"
#include "analyzer/report/report.h"
#include "analyzer/report/words.h"

namespace lockstep {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kLabelWidth = 11;
constexpr int kMaxOthersShown = 10;

// Breaks at spaces; a word longer than the line is cut between code points.
void AppendWrapped(std::string_view first_prefix, std::string_view text, size_t indent, std::string* out) {
  std::string line(first_prefix);
  const std::string margin(indent, ' ');
  bool empty = true;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (word.empty()) continue;
    if (!empty && Columns(line) + 1 + Columns(word) > kWidth) {
      absl::StrAppend(out, line, "\n");
      line = margin;
      empty = true;
    }
    if (!empty) line.push_back(' ');
    while (Columns(line) + Columns(word) > kWidth) {
      size_t cut = 0;
      for (size_t columns = Columns(line); columns < kWidth; ++columns) {
        do ++cut;
        while (cut < word.size() && (static_cast<unsigned char>(word[cut]) & 0xc0) == 0x80);
      }
      absl::StrAppend(out, line, std::string(word.substr(0, cut)), "\n");
      word.remove_prefix(cut);
      line = margin;
    }
    line.append(word);
    empty = false;
  }
  absl::StrAppend(out, line, "\n");
}

void AppendBlock(const ReportBlock& block, std::string* out) {
  for (const ReportRow& row : block.rows) {
    std::string label = absl::StrCat("  ", row.label);
    label.resize(std::max(label.size() + 1, kLabelWidth), ' ');
    for (const std::string& line : row.lines) {
      AppendWrapped(label, line, kLabelWidth + 2, out);
      label.assign(kLabelWidth, ' ');
    }
  }
}

}  // namespace

std::string ReportText(const Verdict& verdict, const Bundle& bundle) {
  return ReportText(verdict, bundle, Before());
}

std::string ReportText(const Verdict& verdict, const Bundle& bundle, const Before& before) {
  ReportContent content = BuildReport(verdict, bundle);
  AddBeforeRow(before, &content);
  std::string out;
  AppendWrapped(absl::StrCat(content.verdict, "  "), content.headline, 2, &out);
  AppendBlock(content.first, &out);
  int shown = 0;
  for (const ReportBlock& block : content.others) {
    out.push_back('\n');
    if (shown++ == kMaxOthersShown) {
      absl::StrAppend(&out, "and ", content.others.size() - kMaxOthersShown, " more findings, in the JSON report\n");
      break;
    }
    AppendWrapped("", absl::StrCat("also: ", block.title), 2, &out);
    AppendBlock(block, &out);
  }
  if (!content.others.empty()) out.push_back('\n');
  AppendBlock(content.data, &out);
  return out;
}

int ExitStatus(const Verdict& verdict) {
  return verdict.verdict() == VERDICT_HEALTHY && verdict.findings().empty() ? 0 : 1;
}

}  // namespace lockstep
