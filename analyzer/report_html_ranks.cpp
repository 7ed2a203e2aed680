#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "analyzer/report_html_parts.h"
#include "analyzer/report_state.h"
#include "analyzer/report_words.h"

namespace lockstep {
namespace {

constexpr size_t kMaxRoles = size_t{1} << 20;
constexpr size_t kMaxRuns = 6000;
constexpr size_t kMaxSingle = 1024;  // up to here each rank has a cell of its own
constexpr size_t kMaxStates = 60;

constexpr const char* kClass[] = {"fine", "victim", "culprit", "nodata"};
constexpr const char* kWord[] = {"not waiting for a culprit", "waits because of it", "named by a finding", "no data"};

}  // namespace

std::vector<RankRole> RolesOf(const Verdict& verdict, const Bundle& bundle) {
  size_t size = static_cast<size_t>(std::max(0, verdict.ranks_expected()));
  for (const Rank& rank : bundle.ranks) size = std::max(size, static_cast<size_t>(std::max(rank.rank, -1) + 1));
  for (const Finding& finding : verdict.findings()) {
    for (int32_t rank : finding.culprit_ranks()) size = std::max(size, static_cast<size_t>(std::max(rank, -1) + 1));
  }
  std::vector<RankRole> roles(std::min(size, kMaxRoles), RankRole::kNoData);
  const auto set = [&](int32_t rank, RankRole role, bool with_data) {
    if (rank < 0 || static_cast<size_t>(rank) >= roles.size()) return;
    if (!with_data || roles[rank] != RankRole::kNoData) roles[rank] = role;
  };
  for (const Rank& rank : bundle.ranks) set(rank.rank, RankRole::kFine, false);
  for (const Finding& finding : verdict.findings()) {
    for (const ChainLink& link : finding.chain()) {
      for (int32_t rank : link.ranks()) set(rank, RankRole::kVictim, true);
    }
  }
  for (const Finding& finding : verdict.findings()) {
    for (int32_t rank : finding.culprit_ranks()) set(rank, RankRole::kCulprit, false);
  }
  return roles;
}

void AppendRankMap(const std::vector<RankRole>& roles, std::string* out) {
  if (roles.size() < 2) return;
  const size_t columns = roles.size() <= 64 ? 16 : roles.size() <= 512 ? 32 : roles.size() <= 8192 ? 64 : roles.size() <= 65536 ? 128 : 512;
  const size_t rows = (roles.size() + columns - 1) / columns;
  size_t counts[4] = {};
  for (RankRole role : roles) ++counts[static_cast<size_t>(role)];
  OpenSection("ranks", absl::StrCat("All ", roles.size(), " ranks"), out);
  absl::StrAppend(out, "<div class=\"key\">");
  for (size_t role : {2, 1, 0, 3}) {
    if (counts[role] == 0) continue;
    absl::StrAppend(out, "<span><svg class=\"map keymap\" viewBox=\"0 0 24 15\" aria-hidden=\"true\"><rect class=\"", kClass[role],
                    "\" x=\"1\" y=\"1\" width=\"22\" height=\"13\"/></svg>", kWord[role], ": ", counts[role], "</span>");
  }
  absl::StrAppend(out, "</div>\n<svg class=\"map\" role=\"img\" aria-label=\"map of ranks, ", columns, " in a row\" style=\"max-width:",
                  std::min<size_t>(columns * 26, 1000), "px\" viewBox=\"0 0 ", columns * 10, " ", rows * 10, "\">\n");
  const bool each = roles.size() <= kMaxSingle;
  size_t runs = 0, i = 0;
  while (i < roles.size() && runs < kMaxRuns) {
    size_t end = i;
    while (!each && end + 1 < roles.size() && (end + 1) % columns != 0 && roles[end + 1] == roles[i]) ++end;
    absl::StrAppend(out, "<rect class=\"", kClass[static_cast<size_t>(roles[i])], "\" x=\"", i % columns * 10 + 1, "\" y=\"", i / columns * 10 + 1,
                    "\" width=\"", (end - i + 1) * 10 - 2, "\" height=\"8\"><title>", i == end ? "rank " : "ranks ", i,
                    i == end ? "" : absl::StrCat("-", end), ": ", kWord[static_cast<size_t>(roles[i])], "</title></rect>\n");
    ++runs;
    i = end + 1;
  }
  absl::StrAppend(out, "</svg>\n<p class=\"soft small\">Rank 0 is at the upper left; ", columns, " ranks in a row.",
                  i < roles.size() ? absl::StrCat(" Ranks from ", i, " on are not drawn.") : "", "</p></section>\n");
}

void AppendStates(const Bundle& bundle, const std::vector<RankRole>& roles, std::string* out) {
  // Equal states are one line, whatever the number of ranks; what matters comes first.
  struct Band {
    std::vector<int32_t> ranks;
    std::map<std::string, size_t> hosts;
  };
  std::map<std::pair<int, std::string>, Band> bands;
  for (const Rank& rank : bundle.ranks) {
    if (rank.rank < 0 || static_cast<size_t>(rank.rank) >= roles.size()) continue;
    const RankRole role = roles[rank.rank];
    std::string state = RankStateText(rank, /*with_time=*/false);
    Band& band = bands[{role == RankRole::kCulprit ? 0 : role == RankRole::kVictim ? 1 : 2, state.empty() ? "nothing was sampled" : state}];
    band.ranks.push_back(rank.rank);
    if (!rank.host.empty() && band.hosts.size() < 1000) ++band.hosts[rank.host];
  }
  if (bands.empty()) return;
  OpenSection("states", "What the processes were doing", out);
  absl::StrAppend(out, "<ul class=\"plain\">");
  size_t shown = 0;
  for (const auto& [key, band] : bands) {
    if (shown++ == kMaxStates) {
      absl::StrAppend(out, "<li class=\"soft\">and ", bands.size() - kMaxStates, " more states</li>");
      break;
    }
    absl::StrAppend(out, "<li><b>", RanksText(band.ranks, 80), "</b>", key.first == 0 ? " (named)" : key.first == 1 ? " (waits)" : "", ": ",
                    Escaped(key.second, 300));
    if (!band.hosts.empty()) {
      std::string hosts;
      size_t count = 0;
      for (const auto& [host, n] : band.hosts) {
        if (count++ < 3) absl::StrAppend(&hosts, hosts.empty() ? "" : ", ", Escaped(host, 64));
      }
      absl::StrAppend(out, " <span class=\"soft small\">on ", hosts, band.hosts.size() > 3 ? absl::StrCat(" and ", band.hosts.size() - 3, " more hosts") : "",
                      "</span>");
    }
    absl::StrAppend(out, "</li>");
  }
  absl::StrAppend(out, "</ul></section>\n");
}

}  // namespace lockstep
