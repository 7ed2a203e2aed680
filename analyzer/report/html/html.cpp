#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/report/before.h"
#include "analyzer/report/content.h"
#include "analyzer/report/html/parts.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/report.h"

namespace lockstep {
namespace {

constexpr int kMaxEvidence = 60;
constexpr size_t kMaxOthers = 40;

void AppendRows(const ReportBlock& block, const std::vector<std::string_view>& without, std::string* out) {
  absl::StrAppend(out, "<dl>");
  for (const ReportRow& row : block.rows) {
    if (std::find(without.begin(), without.end(), row.label) != without.end()) continue;
    absl::StrAppend(out, "<dt>", Escaped(row.label), "</dt><dd>");
    for (const std::string& line : row.lines) absl::StrAppend(out, "<p>", Escaped(line), "</p>");
    absl::StrAppend(out, "</dd>\n");
  }
  absl::StrAppend(out, "</dl>\n");
}

void AppendSteps(const Finding& finding, std::string* out) {
  const std::vector<std::string> steps = AdviceSteps(finding);
  if (steps.empty()) return;
  OpenSection("do", "What to do", out);
  absl::StrAppend(out, "<ol class=\"do\">");
  for (const std::string& step : steps) absl::StrAppend(out, "<li>", Escaped(step), "</li>");
  absl::StrAppend(out, "</ol></section>\n");
}

void AppendEvidence(const Finding& finding, std::string* out) {
  if (finding.evidence().empty()) return;
  OpenSection("evidence", "Evidence", out);
  absl::StrAppend(out, "<ul class=\"plain\">");
  int shown = 0;
  for (const Evidence& item : finding.evidence()) {
    if (shown++ == kMaxEvidence) {
      absl::StrAppend(out, "<li class=\"soft\">and ", finding.evidence_size() - kMaxEvidence,
                      " more, in the JSON report</li>");
      break;
    }
    const std::vector<int32_t> ranks(item.ranks().begin(), item.ranks().end());
    std::string source = Escaped(item.source(), 300);
    if (source.empty() && !ranks.empty()) source = absl::StrCat("records of ", RanksText(ranks, 80));
    absl::StrAppend(out, "<li>", Escaped(item.text(), 600));
    if (!source.empty()) absl::StrAppend(out, " <span class=\"soft small\">(", source, ")</span>");
    absl::StrAppend(out, "</li>");
  }
  absl::StrAppend(out, "</ul></section>\n");
}

void AppendDoubts(const ReportBlock& block, std::string* out) {
  ReportBlock doubts;
  for (const char* label : {"NOT", "maybe", "blind"}) {
    if (const ReportRow* row = block.Find(label)) doubts.rows.push_back(*row);
  }
  if (doubts.rows.empty()) return;
  OpenSection("doubts", "Ruled out, other possible causes, and unknowns", out);
  AppendRows(doubts, {}, out);
  absl::StrAppend(out, "</section>\n");
}

void AppendOthers(const ReportContent& content, std::string* out) {
  if (content.others.empty()) return;
  OpenSection("others", "Also found", out);
  for (size_t i = 0; i < content.others.size(); ++i) {
    if (i == kMaxOthers) {
      absl::StrAppend(out, "<p class=\"soft\">and ", content.others.size() - kMaxOthers,
                      " more findings, in the JSON report</p>");
      break;
    }
    absl::StrAppend(out, "<details><summary>", Escaped(content.others[i].title), "</summary>");
    AppendRows(content.others[i], {}, out);
    absl::StrAppend(out, "</details>\n");
  }
  absl::StrAppend(out, "</section>\n");
}

}  // namespace

std::string Escaped(std::string_view text, size_t limit) {
  std::string out;
  for (char c : Printable(text, limit)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out.push_back(c);
    }
  }
  return out;
}

void OpenSection(std::string_view id, std::string_view title, std::string* out) {
  absl::StrAppend(out, "<section id=\"", std::string(id), "\"><h2>", Escaped(title), "</h2>\n");
}

std::string ReportHtml(const Verdict& verdict, const Bundle& bundle, const MergedStacks* merged, const Before& before) {
  ReportContent content = BuildReport(verdict, bundle);
  AddBeforeRow(before, &content);
  const bool healthy = verdict.verdict() == VERDICT_HEALTHY;
  const bool mild = verdict.verdict() == VERDICT_LATE || verdict.verdict() == VERDICT_SLOW ||
                    verdict.verdict() == VERDICT_INCOMPLETE_DATA;
  // The page loads and runs nothing, even if texts in the dumps look like code.
  std::string out = absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
                                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
                                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                                 "'unsafe-inline'; img-src data:\">\n",
                                 "<link rel=\"icon\" href=\"data:,\">\n<title>", Escaped(content.verdict),
                                 verdict.job().empty() ? "" : ": ", Escaped(verdict.job(), 200), "</title>\n<style>",
                                 HtmlStyle(), "</style>\n</head>\n<body>\n");
  absl::StrAppend(
      &out,
      "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" ",
      "width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"2\" ",
      "height=\"4\" style=\"fill:var(--warnfill)\"/></pattern></defs></svg>\n<main>\n");
  absl::StrAppend(&out, "<header class=\"", healthy ? "ok" : "culprit", "\" id=\"culprit\"><h1><span class=\"chip",
                  healthy ? " ok"
                  : mild  ? " warn"
                          : "",
                  "\">", Escaped(content.verdict), content.lasted.empty() ? "" : " ", content.lasted, "</span>",
                  Escaped(content.Sentences()), "</h1>\n");
  AppendRows(content.first, {"evidence", "chain", "do", "NOT", "maybe", "blind"}, &out);
  absl::StrAppend(&out, "</header>\n");
  const std::vector<RankRole> roles = RolesOf(verdict, bundle);
  if (!verdict.findings().empty()) {
    AppendSteps(verdict.findings(0), &out);
    AppendChain(verdict.findings(0), &out);
  }
  AppendSequences(verdict, bundle, roles, &out);
  AppendRankMap(roles, &out);
  AppendStacks(bundle, roles, merged, &out);
  if (!verdict.findings().empty()) AppendEvidence(verdict.findings(0), &out);
  AppendDoubts(content.first, &out);
  AppendLastCalls(verdict, bundle, roles, &out);
  AppendOthers(content, &out);
  AppendBandwidths(verdict, &out);
  AppendArrivals(verdict, &out);
  AppendClocks(verdict, bundle, &out);
  AppendStartUp(verdict, &out);
  OpenSection("data", "Data", &out);
  AppendRows(content.data, {"start-up", "last", "rates", "clocks"}, &out);
  absl::StrAppend(&out, "</section>\n");
  AppendStates(bundle, roles, &out);
  absl::StrAppend(&out,
                  "<footer>Made by lockstep analyze. This page loads nothing and runs "
                  "nothing.</footer>\n</main>\n</body>\n</html>\n");
  return out;
}

}  // namespace lockstep
