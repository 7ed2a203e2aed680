// Bandwidth, arrivals, clocks and start-up as bars. Unmeasured values appear as empty, dashed bars with a text.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/report/html/parts.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/state.h"
#include "analyzer/report/words/start_up.h"

namespace lockstep {
namespace {

constexpr int kMaxRates = 48;
constexpr int kMaxArrivals = 24;
constexpr size_t kMaxClocks = 32;
constexpr int kMaxCreations = 48;
constexpr int kMaxStartRanks = 8;
constexpr double kLow = 0.8;  // a bar below this share of its peers' bandwidth is drawn as a fault

std::string Percent(double share) {
  if (!std::isfinite(share)) share = 0;
  return absl::StrFormat("%.2f%%", std::clamp(share, 0.0, 1.0) * 100);
}

void AppendMeter(std::string_view label, double share, bool low, std::string* out) {
  absl::StrAppend(out, "<small class=\"soft\">", absl::StrFormat("%.2f ", share), std::string(label),
                  "</small><div class=\"meter\"><i", low ? " class=\"low\"" : "", " style=\"width:", Percent(share),
                  "\"></i></div>");
}

void More(int total, int shown, const char* what, std::string* out) {
  if (total > shown)
    absl::StrAppend(out, "<p class=\"soft\">and ", total - shown, " more ", what, ", in the JSON report</p>");
}

}  // namespace

void AppendBandwidths(const Verdict& verdict, std::string* out) {
  if (verdict.bandwidths().empty()) return;
  OpenSection("bandwidth", "Bus bandwidth compared with peers and the best", out);
  int shown = 0;
  for (const Bandwidth& b : verdict.bandwidths()) {
    if (shown++ == kMaxRates) break;
    absl::StrAppend(out, "<div class=\"figure\"><div class=\"what\"><b>", Escaped(b.operation(), 60), "</b> of ",
                    BytesText(b.bytes()), " on ", Escaped(CommName(b.communicator())), "<small>");
    if (!(b.bus_bytes_per_s() > 0)) {
      absl::StrAppend(out, b.operations(),
                      " operations</small></div><div><small class=\"soft\">not measured</small><div class=\"meter "
                      "none\"></div></div></div>\n");
      continue;
    }
    absl::StrAppend(out, RateText(b.bus_bytes_per_s()), ", median of ", b.operations(),
                    b.clock().empty() ? "" : ", by ", Escaped(b.clock(), 40), "</small></div><div>");
    if (b.peer_bus_bytes_per_s() > 0) {
      const double share = b.bus_bytes_per_s() / b.peer_bus_bytes_per_s();
      AppendMeter("of its peers' rate", share, share < kLow, out);
    } else {
      absl::StrAppend(out, "<small class=\"soft\">no peers to compare with</small>");
    }
    if (b.best_bus_bytes_per_s() > 0)
      AppendMeter("of the best rate for this size", b.bus_bytes_per_s() / b.best_bus_bytes_per_s(), false, out);
    absl::StrAppend(out, "</div></div>\n");
  }
  More(verdict.bandwidths_size(), kMaxRates, "rows", out);
  absl::StrAppend(out, "</section>\n");
}

void AppendArrivals(const Verdict& verdict, std::string* out) {
  if (verdict.arrivals().empty()) return;
  OpenSection("arrivals", "Who comes last", out);
  int shown = 0;
  for (const Arrival& arrival : verdict.arrivals()) {
    if (shown++ == kMaxArrivals) break;
    const double share =
        arrival.operations() > 0 ? static_cast<double>(arrival.last()) / static_cast<double>(arrival.operations()) : 0;
    absl::StrAppend(
        out, "<div class=\"figure\"><div class=\"what\"><b>rank ", arrival.rank(), "</b><small>last in ",
        arrival.last(), " of ", arrival.operations(), ", ", DurationText(arrival.lateness_ns()), " in total",
        arrival.uncertainty_ns() > 0 ? absl::StrCat(" \u00b1 ", DurationText(arrival.uncertainty_ns())) : "",
        "</small></div><div class=\"meter\"><i style=\"width:", Percent(share), "\"></i></div></div>\n");
  }
  More(verdict.arrivals_size(), kMaxArrivals, "ranks", out);
  absl::StrAppend(out, "</section>\n");
}

void AppendClocks(const Verdict& verdict, const Bundle& bundle, std::string* out) {
  if (verdict.clocks_size() < 2) return;
  struct Clock {
    const ClockOffset* said;
    int64_t ahead;
    double size() const { return std::abs(static_cast<double>(ahead)); }
  };
  const std::vector<int64_t> ahead = WallClocksAhead(verdict, bundle);
  std::vector<Clock> clocks;
  clocks.reserve(ahead.size());
  for (int i = 0; i < verdict.clocks_size(); ++i) clocks.push_back({&verdict.clocks(i), ahead[static_cast<size_t>(i)]});
  // Doubtful clocks first: not aligned, set while the job ran, large offset.
  const auto key = [](const Clock& c) {
    return std::make_tuple(c.said->uncertainty_ns() >= 0, !c.said->stepped(), -c.size());
  };
  std::stable_sort(clocks.begin(), clocks.end(), [&](const Clock& a, const Clock& b) { return key(a) < key(b); });
  if (clocks.size() > kMaxClocks) clocks.resize(kMaxClocks);
  double widest = 1;
  for (const Clock& c : clocks) {
    if (c.said->uncertainty_ns() >= 0)
      widest = std::max(widest, c.size() + static_cast<double>(c.said->uncertainty_ns()));
  }
  OpenSection("clocks", "Clocks of the hosts", out);
  absl::StrAppend(out,
                  "<p class=\"soft small\">Each host's wall clock against the first host's, from operations that ranks "
                  "on both completed together. ",
                  "This report corrects times by these offsets when it compares hosts.</p>\n");
  for (const Clock& c : clocks) {
    absl::StrAppend(out, "<div class=\"figure\"><div class=\"what\"><b>", Escaped(c.said->host(), 64), "</b><small>");
    if (c.said->uncertainty_ns() < 0) {
      absl::StrAppend(out, "cannot be aligned</small></div><div class=\"meter none\"></div></div>\n");
      continue;
    }
    absl::StrAppend(
        out,
        c.ahead == 0 ? "the same" : absl::StrCat(DurationText(std::abs(c.ahead)), c.ahead > 0 ? " ahead" : " behind"),
        " \u00b1 ", DurationText(c.said->uncertainty_ns()), c.said->stepped() ? ", was set while the job ran" : "",
        "</small></div>");
    const double at = 0.5 + static_cast<double>(c.ahead) / widest / 2,
                 half = static_cast<double>(c.said->uncertainty_ns()) / widest / 2;
    absl::StrAppend(out, "<div class=\"meter\"><i class=\"second\" style=\"left:", Percent(at - half),
                    ";width:", Percent(2 * half), "\"></i><u style=\"left:", Percent(at), "\"></u></div></div>\n");
  }
  const std::string end = DurationText(static_cast<int64_t>(std::min(widest, 9e18)));
  absl::StrAppend(out, "<div class=\"figure\"><div></div><div class=\"scale\"><span>", end,
                  " behind</span><span>0</span><span>", end, " ahead</span></div></div>\n");
  More(verdict.clocks_size(), static_cast<int>(clocks.size()), "hosts", out);
  absl::StrAppend(out, "</section>\n");
}

namespace {

// For each phase, the usual time as a bar and the longest as a tick; then the ranks that others waited for most.
void AppendStartPhases(const StartUp& start, std::string* out) {
  int64_t widest = 1;
  for (const StartUpPhase& phase : start.phases()) widest = std::max(widest, phase.longest_ns());
  for (const StartUpPhase& phase : start.phases()) {
    absl::StrAppend(out, "<div class=\"figure\"><div class=\"what\"><b>", Escaped(PhaseText(phase.name()), 40),
                    "</b><small>");
    if (phase.ranks() == 0) {
      absl::StrAppend(out, "not recorded</small></div><div class=\"meter none\"></div></div>\n");
      continue;
    }
    absl::StrAppend(out, "median rank ", DurationText(phase.median_ns()));
    if (phase.longest_rank() >= 0)
      absl::StrAppend(out, ", longest ", DurationText(phase.longest_ns()), " (rank ", phase.longest_rank(), ")");
    if (phase.last_rank() >= 0)
      absl::StrAppend(out, "; last: rank ", phase.last_rank(), " by ", DurationText(phase.last_by_ns()));
    const auto scale = static_cast<double>(widest);
    absl::StrAppend(out, "</small></div><div class=\"meter\"><i class=\"second\" style=\"left:0%;width:",
                    Percent(static_cast<double>(phase.median_ns()) / scale),
                    "\"></i><u style=\"left:", Percent(static_cast<double>(phase.longest_ns()) / scale),
                    "\"></u></div></div>\n");
  }
  int told = 0;
  for (const StartUpRank& rank : start.ranks()) {
    if (rank.last() == 0 || told == kMaxStartRanks) break;
    absl::StrAppend(out, told == 0 ? "<p>Others waited for: " : "; ", "rank ", rank.rank(),
                    rank.host().empty() ? "" : absl::StrCat(" (", Escaped(rank.host(), 64), ")"), ", last to ",
                    rank.last(), " of ", rank.creations(), " by ", DurationText(rank.last_by_ns()));
    ++told;
  }
  if (told > 0) absl::StrAppend(out, ".</p>\n");
}

}  // namespace

void AppendStartUp(const Verdict& verdict, std::string* out) {
  const StartUp& start = verdict.start_up();
  if (start.text().empty() && start.creations().empty()) return;
  OpenSection("startup", "Start-up", out);
  if (!start.text().empty()) absl::StrAppend(out, "<p>", Escaped(start.text(), 1500), "</p>\n");
  AppendStartPhases(start, out);
  std::vector<const Creation*> order;
  int64_t end = 1;
  for (const Creation& c : start.creations()) {
    if (static_cast<int>(order.size()) == kMaxCreations) break;
    order.push_back(&c);
    end = std::max({end, c.end_ns(), c.begin_ns() + c.longest_ns()});
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Creation* a, const Creation* b) { return a->begin_ns() < b->begin_ns(); });
  for (const Creation* c : order) {
    const double scale = static_cast<double>(end);
    const int64_t stop = c->end_ns() > 0 ? c->end_ns() : end;
    const double left = static_cast<double>(c->begin_ns()) / scale,
                 width = static_cast<double>(stop - c->begin_ns()) / scale;
    absl::StrAppend(out, "<div class=\"figure\"><div class=\"what\"><b>", Escaped(CommName(c->communicator())), "</b> ",
                    Escaped(c->call(), 40), "<small>",
                    c->end_ns() > 0 ? DurationText(c->end_ns() - c->begin_ns()) : std::string("not complete"),
                    ", median member ", DurationText(c->median_ns()));
    if (c->last_rank() >= 0 && c->last_by_ns() > 0)
      absl::StrAppend(out, "; last: rank ", c->last_rank(), " by ", DurationText(c->last_by_ns()));
    if (c->communicator().size() > c->members_entered())
      absl::StrAppend(out, "; ", c->members_entered(), " of ", c->communicator().size(), " called it");
    if (c->serial()) absl::StrAppend(out, "; only began after another had finished");
    absl::StrAppend(out, "</small></div><div class=\"meter\"><i class=\"", c->end_ns() > 0 ? "second" : "low",
                    "\" style=\"left:", Percent(left), ";width:", Percent(width), "\"></i></div></div>\n");
  }
  if (!order.empty())
    absl::StrAppend(out, "<div class=\"figure\"><div></div><div class=\"scale\"><span>0</span><span>",
                    DurationText(end), "</span></div></div>\n");
  More(std::max(start.creations_total(), start.creations_size()), static_cast<int>(order.size()), "creations", out);
  absl::StrAppend(out, "</section>\n");
}

}  // namespace lockstep
