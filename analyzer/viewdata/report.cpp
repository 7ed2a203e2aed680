#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/report/circumstances.h"
#include "analyzer/report/content.h"
#include "analyzer/report/report.h"
#include "analyzer/viewdata/facts.h"

namespace lockstep {
namespace {

void Append(const ReportBlock& block, const std::string& title, ViewFacts* facts) {
  ReportSection* section = facts->add_report();
  section->set_title(title);
  section->set_finding(block.finding);
  for (const ReportRow& row : block.rows) {
    ReportSection::Row* out = section->add_rows();
    out->set_label(row.label);
    for (const std::string& line : row.lines) out->add_lines(line);
  }
}

}  // namespace

void SetReport(const Bundle& bundle, const Verdict& analyzed, ViewFacts* facts) {
  const Verdict verdict = WithCircumstances(analyzed, bundle);
  facts->set_report_text(ReportText(verdict, bundle));
  facts->clear_report();
  const ReportContent content = BuildReport(verdict, bundle);
  Append(content.first, absl::StrCat(content.lasted, content.lasted.empty() ? "" : ": ", content.Sentences()), facts);
  for (const ReportBlock& block : content.others) Append(block, block.title, facts);
  Append(content.data, "", facts);
}

}  // namespace lockstep
