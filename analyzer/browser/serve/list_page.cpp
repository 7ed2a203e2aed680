// The list of incidents as a page without scripts: a column's title links to the same list, sorted by that column.
#include <sodium.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "analyzer/browser/serve/site.h"
#include "analyzer/report/html/parts.h"
#include "analyzer/util/time_text.h"

namespace lockstep::serve {
namespace {

constexpr char kStyle[] = R"css(
:root{--bg:#f4f6f8;--card:#fff;--text:#1b1f24;--soft:#566270;--line:#d5dce3;--bad:#b3261e;--warn:#8a5a00;--ok:#1a7f37;--link:#0b5cad;
color-scheme:light}
@media(prefers-color-scheme:dark){:root{--bg:#0f1318;--card:#181d24;--text:#e3e8ee;--soft:#a0abb7;--line:#303943;--bad:#ff8f87;--warn:#e8b04b;
--ok:#62c073;--link:#79b8ff;color-scheme:dark}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;margin:0;background:var(--bg);color:var(--text)}
main{max-width:90rem;margin:0 auto;padding:1rem}
h1{font-size:1.3rem;margin:0 0 .8rem;font-weight:600}
table{width:100%;border-collapse:collapse;background:var(--card);border:1px solid var(--line)}
th,td{text-align:left;vertical-align:top;padding:.45rem .7rem;border-top:1px solid var(--line);overflow-wrap:anywhere}
th{border-top:0;white-space:nowrap}th a{color:var(--soft)}
a{color:var(--link);text-decoration:none}a:hover,a:focus{text-decoration:underline}
.when,.ranks,.other{white-space:nowrap}.soft{color:var(--soft)}
.chip{display:inline-block;white-space:nowrap;border-radius:.35rem;padding:0 .5rem;color:var(--card);background:var(--bad);font-weight:700;margin-right:.4rem}
.chip.ok{background:var(--ok)}.chip.warn{background:var(--warn)}
)css";

struct Column {
  const char* key;
  const char* title;
  bool down_first;
  std::function<bool(const Listed&, const Listed&)> less;
};

const std::array<Column, 5>& Columns() {
  static const auto& columns = *new std::array<Column, 5>{{
      {"when", "When (UTC)", true, [](const Listed& a, const Listed& b) { return a.at_ns < b.at_ns; }},
      {"job", "Job", false, [](const Listed& a, const Listed& b) { return a.job < b.job; }},
      {"verdict", "Verdict", false, [](const Listed& a, const Listed& b) { return a.verdict < b.verdict; }},
      {"ranks", "Ranks", true, [](const Listed& a, const Listed& b) { return a.expected < b.expected; }},
      {"host", "Host of the culprit", false, [](const Listed& a, const Listed& b) { return a.host < b.host; }},
  }};
  return columns;
}

std::string Chip(const std::string& verdict, absl::string_view color) {
  if (verdict.empty()) return "";
  std::string words = verdict;
  std::replace(words.begin(), words.end(), '_', ' ');
  return absl::StrCat("<span class=\"chip", color, "\">", Escaped(words), "</span>");
}

std::string VerdictChip(const std::string& verdict) {
  return Chip(verdict, verdict == "HEALTHY" ? " ok" : verdict == "LATE" || verdict == "INCOMPLETE_DATA" ? " warn" : "");
}

std::string StateChip(const std::string& state) {
  return Chip(state, state == "moving" ? " ok" : state == "hung" ? "" : " warn");
}

// Returns everything before a page's heading.
std::string PageHead(const char* title, const char* more) {
  return absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n", more,
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>", title,
                      " - Lockstep</title>\n<style>", kStyle, "</style></head>\n<body><main>");
}

void AppendRow(const Listed& incident, const std::string& root, std::string* out) {
  const std::string page = absl::StrCat(root, incident.id, "/");
  absl::StrAppend(out, "<tr><td class=\"when\">", UtcText(incident.at_ns, "%Y-%m-%d %H:%M:%S"),
                  incident.gathering ? "<br><span class=\"soft\">being gathered</span>" : "", "</td><td>",
                  Escaped(incident.job), "<br><span class=\"soft\">", Escaped(incident.name), "</span></td><td>",
                  VerdictChip(incident.verdict), "<a href=\"", page, "explore.html\">", Escaped(incident.sentence),
                  "</a></td><td class=\"ranks\">");
  if (incident.expected > 0) absl::StrAppend(out, incident.read, " of ", incident.expected);
  absl::StrAppend(out, "</td><td>", Escaped(incident.host), "</td><td class=\"other\"><a href=\"", page,
                  "report.html\">report</a> · <a href=\"", page, "verdict.json\">JSON</a></td></tr>\n");
}

}  // namespace

std::string ListPolicy() {
  unsigned char hash[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(hash, reinterpret_cast<const unsigned char*>(kStyle), sizeof kStyle - 1);
  return absl::StrCat("default-src 'none'; style-src 'sha256-",
                      absl::Base64Escape(absl::string_view(reinterpret_cast<const char*>(hash), sizeof hash)),
                      "'; base-uri 'none'; form-action 'none'");
}

std::string ListPage(std::vector<Listed> incidents, std::string_view query, const std::string& root, bool live) {
  const Column* order = &Columns()[0];
  bool down = order->down_first;
  for (const Column& column : Columns()) {
    for (const bool way : {false, true}) {
      if (query != absl::StrCat("by=", column.key, way ? "&down=1" : "")) continue;
      order = &column;
      down = way;
    }
  }
  std::stable_sort(incidents.begin(), incidents.end(),
                   [&](const Listed& a, const Listed& b) { return down ? order->less(b, a) : order->less(a, b); });
  std::string out = absl::StrCat(
      PageHead("Incidents", ""), "<h1>", incidents.size(), incidents.size() == 1 ? " incident" : " incidents",
      incidents.size() == Listing::kMostListed ? ", newest only" : "",
      live ? absl::StrCat(" · <a href=\"", root, "live\">running jobs</a>") : "", "</h1>\n<table><thead><tr>");
  for (const Column& column : Columns()) {
    const bool chosen = &column == order, next = chosen ? !down : column.down_first;
    absl::StrAppend(&out, "<th", chosen ? (down ? " aria-sort=\"descending\"" : " aria-sort=\"ascending\"") : "",
                    "><a href=\"", root, "?by=", column.key, next ? "&amp;down=1" : "", "\">", column.title,
                    chosen ? (down ? " ▼" : " ▲") : "", "</a></th>");
  }
  absl::StrAppend(&out, "<th></th></tr></thead><tbody>\n");
  for (const Listed& incident : incidents) AppendRow(incident, root, &out);
  return out + "</tbody></table></main></body></html>\n";
}

std::string LivePage(const LiveJobs::Answer& answer, const std::vector<Listed>& incidents, const std::string& root,
                     int64_t now_real_ns) {
  std::string out =
      absl::StrCat(PageHead("Running jobs", "<meta http-equiv=\"refresh\" content=\"3\">\n"), "<h1>",
                   answer.jobs.size(), answer.jobs.size() == 1 ? " job" : " jobs", " at ",
                   UtcText(now_real_ns, "%H:%M:%S"), " UTC · <a href=\"", root, "\">incidents</a></h1>\n");
  if (!answer.problem.empty())
    return absl::StrCat(out, "<p>No answer: ", Escaped(answer.problem), "</p></main></body></html>\n");
  absl::StrAppend(&out,
                  "<table><thead><tr><th>Job</th><th>State</th><th>Since (UTC)</th><th>Ranks</th><th>Calls per "
                  "second</th><th>Oldest in flight</th><th>Last verdict</th></tr></thead><tbody>\n");
  for (const LiveJob& job : answer.jobs) {
    const auto listed =
        std::find_if(incidents.begin(), incidents.end(), [&](const Listed& one) { return one.name == job.incident; });
    std::string sentence = Escaped(job.sentence);
    if (!job.incident.empty() && listed != incidents.end()) {
      sentence = absl::StrCat("<a href=\"", root, listed->id, "/explore.html\">",
                              sentence.empty() ? Escaped(job.incident) : sentence, "</a>");
    }
    const std::string rate = job.calls_a_second < 0 ? "" : absl::StrFormat("%.1f", job.calls_a_second);
    absl::StrAppend(&out, "<tr><td>", Escaped(job.name), "</td><td>", StateChip(job.state), "</td><td class=\"when\">",
                    job.since_real_ns > 0 ? UtcText(job.since_real_ns, "%Y-%m-%d %H:%M:%S") : "",
                    "</td><td class=\"ranks\">", job.ranks, " of ", job.expected,
                    job.silent_agents > 0
                        ? absl::StrCat("<br><span class=\"soft\">", job.silent_agents,
                                       job.silent_agents == 1 ? " silent agent</span>" : " silent agents</span>")
                        : "",
                    "</td><td class=\"ranks\">", rate, "</td><td>", Escaped(job.oldest),
                    job.missing.empty() ? "" : absl::StrCat("<br>waits for ", Escaped(job.missing)), "</td><td>",
                    VerdictChip(job.verdict), sentence, "</td></tr>\n");
  }
  return out + "</tbody></table></main></body></html>\n";
}

}  // namespace lockstep::serve
