#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "analyzer/report/html/parts.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/state.h"

namespace lockstep {
namespace {

constexpr size_t kMaxRoles = size_t{1} << 20;
constexpr size_t kMaxRuns = 6000;
constexpr size_t kMaxSingle = 1024;    // up to this number, each rank has its own cell
constexpr size_t kMaxRings = 1 << 16;  // bytes of markup
constexpr size_t kMaxStates = 60;

constexpr const char* kClass[] = {"fine", "victim", "culprit", "nodata"};
constexpr const char* kWord[] = {"neither named nor waiting", "waits because of it", "named by a finding", "no data"};

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
  const size_t columns = roles.size() <= 64      ? 16
                         : roles.size() <= 512   ? 32
                         : roles.size() <= 2048  ? 64
                         : roles.size() <= 65536 ? 256
                                                 : 1024;
  const size_t rows = (roles.size() + columns - 1) / columns;
  size_t counts[4] = {};
  for (RankRole role : roles) ++counts[static_cast<size_t>(role)];
  OpenSection("ranks", absl::StrCat("All ", roles.size(), " ranks"), out);
  absl::StrAppend(out, "<div class=\"key\">");
  for (size_t role : {2, 1, 0, 3}) {
    if (counts[role] == 0) continue;
    absl::StrAppend(out, "<span><svg class=\"map keymap\" viewBox=\"0 0 24 15\" aria-hidden=\"true\"><rect class=\"",
                    kClass[role], "\" x=\"1\" y=\"1\" width=\"22\" height=\"13\"/></svg>", kWord[role], ": ",
                    counts[role], "</span>");
  }
  // The hatching keeps its width on screen, no matter how many ranks are in a row.
  const size_t hatch = std::max<size_t>(4, columns / 8);
  absl::StrAppend(out, "</div>\n<svg class=\"map\" role=\"img\" aria-label=\"map of ranks, ", columns,
                  " in a row\" style=\"max-width:", std::min<size_t>(columns * 26, 1000), "px\" viewBox=\"0 0 ",
                  columns * 10, " ", rows * 10, "\">\n<defs><pattern id=\"hatchmap\" width=\"", hatch, "\" height=\"",
                  hatch, "\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"", hatch / 2,
                  "\" height=\"", hatch, "\" style=\"fill:var(--warnfill)\"/></pattern></defs>\n");
  const bool each = roles.size() <= kMaxSingle;
  size_t runs = 0, i = 0;
  std::string rings;
  while (i < roles.size() && runs < kMaxRuns) {
    const size_t row_end = std::min(roles.size(), (i / columns + 1) * columns);
    size_t end = i + 1, tall = 1;
    while (!each && end < row_end && roles[end] == roles[i]) ++end;
    // Whole rows of equal cells are merged.
    if (!each && i % columns == 0 && end == i + columns) {
      while (end + columns <= roles.size() && std::all_of(roles.begin() + static_cast<std::ptrdiff_t>(end),
                                                          roles.begin() + static_cast<std::ptrdiff_t>(end + columns),
                                                          [&](RankRole role) { return role == roles[i]; })) {
        end += columns;
        ++tall;
      }
    }
    const size_t width = (tall > 1 ? columns : end - i) * 10, x = i % columns * 10, y = i / columns * 10,
                 gap = each ? 1 : 0;
    absl::StrAppend(out, "<rect class=\"", kClass[static_cast<size_t>(roles[i])], "\" x=\"", x + gap, "\" y=\"",
                    y + gap, "\" width=\"", width - 2 * gap, "\" height=\"", tall * 10 - 2 * gap, "\"><title>",
                    end == i + 1 ? "rank " : "ranks ", i, end == i + 1 ? "" : absl::StrCat("-", end - 1), ": ",
                    kWord[static_cast<size_t>(roles[i])], "</title></rect>\n");
    // A cell of one or two pixels would be easy to miss.
    if (!each && roles[i] == RankRole::kCulprit && tall == 1 && rings.size() < kMaxRings)
      absl::StrAppend(&rings, "<circle class=\"ring\" cx=\"", x + width / 2, "\" cy=\"", y + 5, "\" r=\"",
                      columns / 4 + width / 2, "\"/>\n");
    ++runs;
    i = end;
  }
  absl::StrAppend(out, rings);
  absl::StrAppend(out, "</svg>\n<p class=\"soft small\">Rank 0 is at the upper left; ", columns, " ranks in a row.",
                  i < roles.size() ? absl::StrCat(" Ranks from ", i, " on are not drawn.") : "", "</p></section>\n");
}

void AppendStates(const Bundle& bundle, const std::vector<RankRole>& roles, std::string* out) {
  // Equal states share one line at any number of ranks. Important ones come first.
  struct Band {
    std::vector<int32_t> ranks;
    std::map<std::string, size_t> hosts;
  };
  std::map<std::pair<int, std::string>, Band> bands;
  for (const Rank& rank : bundle.ranks) {
    if (rank.rank < 0 || static_cast<size_t>(rank.rank) >= roles.size()) continue;
    const RankRole role = roles[rank.rank];
    std::string state = RankStateText(rank, /*with_time=*/false);
    Band& band = bands[{role == RankRole::kCulprit  ? 0
                        : role == RankRole::kVictim ? 1
                                                    : 2,
                        state.empty() ? "nothing was sampled" : state}];
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
    absl::StrAppend(out, "<li><b>", RanksText(band.ranks, 80), "</b>",
                    key.first == 0   ? " (named)"
                    : key.first == 1 ? " (waits)"
                                     : "",
                    ": ", Escaped(key.second, 300));
    if (!band.hosts.empty()) {
      std::string hosts;
      size_t count = 0;
      for (const auto& [host, n] : band.hosts) {
        if (count++ < 3) absl::StrAppend(&hosts, hosts.empty() ? "" : ", ", Escaped(host, 64));
      }
      absl::StrAppend(out, " <span class=\"soft small\">on ", hosts,
                      band.hosts.size() > 3 ? absl::StrCat(" and ", band.hosts.size() - 3, " more hosts") : "",
                      "</span>");
    }
    absl::StrAppend(out, "</li>");
  }
  absl::StrAppend(out, "</ul></section>\n");
}

}  // namespace lockstep
