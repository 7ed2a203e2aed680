#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/report/before.h"
#include "analyzer/report/content.h"
#include "analyzer/report/report.h"
#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kLabelWidth = 11;
constexpr int kMaxOthersShown = 10;

void AppendBlock(const ReportBlock& block, std::string* out) {
  for (const ReportRow& row : block.rows) {
    std::string label = absl::StrCat("  ", row.label);
    label.resize(std::max(label.size() + 1, kLabelWidth), ' ');
    for (const std::string& line : row.lines) {
      AppendWrapped(label, line, kLabelWidth + 2, kWidth, LongWords::kCut, out);
      label.assign(kLabelWidth, ' ');
    }
  }
}

}  // namespace

std::string ReportText(const Verdict& verdict, const Bundle& bundle, const Before& before) {
  ReportContent content = BuildReport(verdict, bundle);
  AddBeforeRow(before, &content);
  std::string out;
  AppendWrapped(absl::StrCat(content.verdict, content.lasted.empty() ? "" : " ", content.lasted, "  "),
                content.Sentences(), 2, kWidth, LongWords::kCut, &out);
  AppendBlock(content.first, &out);
  int shown = 0;
  for (const ReportBlock& block : content.others) {
    out.push_back('\n');
    if (shown++ == kMaxOthersShown) {
      absl::StrAppend(&out, "and ", content.others.size() - kMaxOthersShown, " more findings, in the JSON report\n");
      break;
    }
    AppendWrapped("", absl::StrCat("also: ", block.title), 2, kWidth, LongWords::kCut, &out);
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
