#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "analyzer/report.h"
#include "analyzer/report_content.h"
#include "analyzer/report_state.h"
#include "analyzer/report_words.h"

namespace lockstep {
namespace {

constexpr size_t kMaxCells = 32768;  // ranks drawn as cells
constexpr size_t kMaxRows = 256;     // ranks listed with their state

constexpr char kStyle[] =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 "
    "1em;color:#1b1f24;background:#fff}"
    "h1{font-size:1.25em;overflow-wrap:anywhere}h2{font-size:1.05em;margin-top:2em;overflow-wrap:anywhere}"
    ".v{padding:.1em .5em;border-radius:.3em;color:#fff;background:#a3262a}.v.ok{background:#1a7f37}"
    "dl{display:grid;grid-template-columns:6em 1fr;gap:.3em 1em;margin:1em 0}dt{color:#59636e}"
    "dd{margin:0;overflow-wrap:anywhere}dd p{margin:0}"
    ".grid{display:flex;flex-wrap:wrap;gap:2px}.c{width:14px;height:14px;border-radius:2px;background:#c8d1da}"
    ".culprit{background:#c5221f}.victim{background:#e8a33d}.fine{background:#7fb68a}.none{background:#fff;box-shadow:"
    "inset 0 0 0 1px #8b949e}"
    ".key{display:flex;flex-wrap:wrap;gap:1.2em;margin:.6em 0}.key span{display:flex;gap:.4em;align-items:center}"
    "table{border-collapse:collapse;margin:1em 0;font-size:.93em}td,th{border-bottom:1px solid #d1d9e0;padding:.25em "
    ".7em;text-align:left;vertical-align:top}"
    "@media(prefers-color-scheme:dark){body{color:#dfe4ea;background:#15191e}dt{color:#9aa4af}.none{background:#15191e}"
    "td,th{border-color:#39424c}}";

std::string Escaped(std::string_view text) {
  std::string out;
  for (char c : Printable(text, 4000)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

void AppendBlock(const ReportBlock& block, std::string* out) {
  if (!block.title.empty()) absl::StrAppend(out, "<h2>also: ", Escaped(block.title), "</h2>\n");
  absl::StrAppend(out, "<dl>\n");
  for (const ReportRow& row : block.rows) {
    absl::StrAppend(out, "<dt>", Escaped(row.label), "</dt><dd>");
    for (const std::string& line : row.lines) absl::StrAppend(out, "<p>", Escaped(line), "</p>");
    absl::StrAppend(out, "</dd>\n");
  }
  absl::StrAppend(out, "</dl>\n");
}

struct Cell {
  const Rank* rank = nullptr;  // null: no data
  const char* style = "fine";
  const char* word = "not waiting for a culprit";
};

std::map<int32_t, Cell> CellsOf(const Verdict& verdict, const Bundle& bundle) {
  std::map<int32_t, Cell> cells;
  std::vector<int32_t> present;
  for (const Rank& rank : bundle.ranks) {
    cells[rank.rank].rank = &rank;
    present.push_back(rank.rank);
  }
  for (int32_t rank : MissingRanks(verdict.ranks_expected(), present)) cells[rank] = {nullptr, "none", "no data"};
  for (const Finding& finding : verdict.findings()) {
    for (const ChainLink& link : finding.chain()) {
      for (int32_t rank : link.ranks()) {
        auto it = cells.find(rank);
        if (it != cells.end() && it->second.rank != nullptr) it->second.style = "victim", it->second.word = "waits";
      }
    }
  }
  for (const Finding& finding : verdict.findings()) {
    for (int32_t rank : finding.culprit_ranks()) {
      Cell& cell = cells[rank];
      cell.style = "culprit";
      cell.word = cell.rank == nullptr ? "named, no data" : "named by a finding";
    }
  }
  return cells;
}

void AppendRanks(const Verdict& verdict, const Bundle& bundle, std::string* out) {
  const std::map<int32_t, Cell> cells = CellsOf(verdict, bundle);
  absl::StrAppend(
      out, "<h2>Ranks</h2>\n<div class=\"key\"><span><i class=\"c culprit\"></i>named by a finding</span>",
      "<span><i class=\"c victim\"></i>waits because of it</span><span><i class=\"c fine\"></i>other</span>",
      "<span><i class=\"c none\"></i>no data</span></div>\n<div class=\"grid\">\n");
  size_t drawn = 0;
  for (const auto& [rank, cell] : cells) {
    if (drawn++ == kMaxCells) break;
    absl::StrAppend(out, "<i class=\"c ", cell.style, "\" title=\"rank ", rank, ": ", cell.word, "\"></i>");
  }
  absl::StrAppend(out, "\n</div>\n");
  if (cells.size() > kMaxCells)
    absl::StrAppend(out, "<p>", cells.size() - kMaxCells, " more ranks are not drawn.</p>\n");

  // Culprits first, then victims, then the rest, so that a cut list keeps what matters.
  std::vector<std::pair<int, int32_t>> order;
  for (const auto& [rank, cell] : cells) {
    const std::string_view style = cell.style;
    order.emplace_back(style == "culprit" ? 0 : style == "victim" ? 1 : 2, rank);
  }
  std::sort(order.begin(), order.end());
  absl::StrAppend(out, "<table>\n<tr><th>rank</th><th></th><th>host</th><th>gpu</th><th>pid</th><th>state</th></tr>\n");
  for (size_t i = 0; i < order.size() && i < kMaxRows; ++i) {
    const Cell& cell = cells.at(order[i].second);
    absl::StrAppend(out, "<tr><td>", order[i].second, "</td><td>", cell.word, "</td>");
    if (cell.rank == nullptr) {
      absl::StrAppend(out, "<td></td><td></td><td></td><td></td></tr>\n");
      continue;
    }
    const Rank& rank = *cell.rank;
    absl::StrAppend(out, "<td>", Escaped(rank.host), "</td><td>",
                    rank.gpu_index >= 0 ? absl::StrCat(rank.gpu_index) : "", "</td><td>",
                    rank.pid != 0 ? absl::StrCat(rank.pid) : "", "</td><td>", Escaped(RankStateText(rank)),
                    "</td></tr>\n");
  }
  absl::StrAppend(out, "</table>\n");
  if (order.size() > kMaxRows)
    absl::StrAppend(out, "<p>", order.size() - kMaxRows, " more ranks are not listed.</p>\n");
}

}  // namespace

std::string ReportHtml(const Verdict& verdict, const Bundle& bundle) {
  const ReportContent content = BuildReport(verdict, bundle);
  const bool healthy = verdict.verdict() == VERDICT_HEALTHY;
  std::string out = absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
                                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
                                 Escaped(content.verdict), verdict.job().empty() ? "" : ": ", Escaped(verdict.job()),
                                 "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n");
  absl::StrAppend(&out, "<h1><span class=\"v", healthy ? " ok" : "", "\">", Escaped(content.verdict), "</span> ",
                  Escaped(content.headline), "</h1>\n");
  AppendBlock(content.first, &out);
  for (const ReportBlock& block : content.others) AppendBlock(block, &out);
  absl::StrAppend(&out, "<h2>Data</h2>\n");
  AppendBlock(content.data, &out);
  AppendRanks(verdict, bundle, &out);
  absl::StrAppend(&out, "</body>\n</html>\n");
  return out;
}

}  // namespace lockstep
