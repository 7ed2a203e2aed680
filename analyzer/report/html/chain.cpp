#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "analyzer/report/html/parts.h"
#include "analyzer/report/phrases.h"

namespace lockstep {
namespace {

constexpr int kMaxLinks = 40;

constexpr char kArrow[] =
    "<svg viewBox=\"0 0 16 26\" aria-hidden=\"true\"><path d=\"M8 25V4M3 9l5-6 5 6\" fill=\"none\" "
    "stroke=\"currentColor\" stroke-width=\"2\"/></svg>";

}  // namespace

void AppendChain(const Finding& finding, std::string* out) {
  if (finding.chain().empty()) return;
  // Each rank's distance from the cause: one more than the distance of the nearest awaited rank.
  std::map<int32_t, int> distance;
  for (int32_t rank : finding.culprit_ranks()) distance[rank] = 0;
  std::map<int, std::vector<const ChainLink*>> levels;
  for (int i = 0; i < finding.chain_size() && i < kMaxLinks; ++i) {
    const ChainLink& link = finding.chain(i);
    int level = 0;
    for (int32_t rank : link.waits_for()) {
      auto it = distance.find(rank);
      if (it != distance.end()) level = level == 0 ? it->second + 1 : std::min(level, it->second + 1);
    }
    level = std::max(level, 1);
    for (int32_t rank : link.ranks()) distance.try_emplace(rank, level);
    levels[level].push_back(&link);
  }
  OpenSection("chain", "What waits for what", out);
  const std::vector<int32_t> culprits(finding.culprit_ranks().begin(), finding.culprit_ranks().end());
  const std::string common = CommonText(finding);
  absl::StrAppend(out, "<div class=\"flow\"><div class=\"row\"><div class=\"node culprit\"><b>", Escaped(common),
                  common.empty() ? "" : ": ", RanksText(culprits), "</b>", Escaped(finding.summary(), 400),
                  "</div></div>\n");
  for (const auto& [level, links] : levels) {
    absl::StrAppend(out, "<div class=\"arrow\">", kArrow, level == 1 ? "wait for it" : "wait for these",
                    "</div><div class=\"row\">");
    for (const ChainLink* link : links) {
      const std::vector<int32_t> ranks(link->ranks().begin(), link->ranks().end());
      const std::vector<int32_t> targets(link->waits_for().begin(), link->waits_for().end());
      absl::StrAppend(out, "<div class=\"node victim\"><b>", RanksText(ranks), "</b>in ",
                      Escaped(link->operation(), 120));
      const std::string comm = CommName(link->communicator());
      if (!comm.empty()) absl::StrAppend(out, " on ", Escaped(comm));
      if (!targets.empty()) absl::StrAppend(out, " <span class=\"soft\">for ", RanksText(targets), "</span>");
      absl::StrAppend(out, "</div>");
    }
    absl::StrAppend(out, "</div>\n");
  }
  absl::StrAppend(out, "</div>");
  if (finding.chain_size() > kMaxLinks)
    absl::StrAppend(out, "<p class=\"soft\">and ", finding.chain_size() - kMaxLinks,
                    " more links, in the JSON report</p>");
  if (finding.victim_count() > 0)
    absl::StrAppend(out, "<p>", finding.victim_count(), finding.victim_count() == 1 ? " rank waits" : " ranks wait",
                    " because of it in total.</p>");
  absl::StrAppend(out, "</section>\n");
}

}  // namespace lockstep
