#include "analyzer/report/start.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/report/words/start_up.h"
#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

constexpr int kMaxLines = 40;
constexpr int kMaxRanks = 16;
constexpr size_t kColumns = 118;

double Seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

// For each phase: the usual time, the slowest rank and the last rank; then the ranks that others waited for most.
void AppendPhases(const StartUp& start, std::string* out) {
  if (start.phases().empty()) return;
  absl::StrAppend(out, absl::StrFormat("\n%-25s %10s %10s  %-14s %s\n", "phase of a rank", "median s", "longest s",
                                       "by", "last to arrive, by s"));
  for (const StartUpPhase& phase : start.phases()) {
    std::string line = absl::StrFormat("%-25s ", Printable(PhaseText(phase.name()), 25));
    if (phase.ranks() == 0) {
      absl::StrAppend(&line, "not recorded");
    } else {
      const std::string longest = phase.longest_rank() < 0 ? "-" : absl::StrCat("rank ", phase.longest_rank());
      absl::StrAppend(&line, absl::StrFormat("%10.3f %10.3f  %-14s ", Seconds(phase.median_ns()),
                                             Seconds(phase.longest_ns()), longest));
      absl::StrAppend(&line, phase.last_rank() < 0
                                 ? "-"
                                 : absl::StrFormat("rank %d, %.3f", phase.last_rank(), Seconds(phase.last_by_ns())));
    }
    absl::StrAppend(out, line, "\n");
  }
  absl::StrAppend(out, absl::StrFormat("\n%7s %7s %9s ", "rank", "last in", "late by s"));
  for (const StartUpPhase& phase : start.phases())
    absl::StrAppend(out, absl::StrFormat(" %9s", Printable(phase.name(), 9)));
  absl::StrAppend(out, "  host\n");
  for (int i = 0; i < start.ranks_size() && i < kMaxRanks; ++i) {
    const StartUpRank& rank = start.ranks(i);
    std::string line = absl::StrFormat("%7d %7s %9.3f ", rank.rank(), absl::StrCat(rank.last(), "/", rank.creations()),
                                       Seconds(rank.last_by_ns()));
    for (int64_t ns : rank.phases_ns())
      absl::StrAppend(&line, ns < 0 ? absl::StrFormat(" %9s", "-") : absl::StrFormat(" %9.3f", Seconds(ns)));
    absl::StrAppend(&line, "  ", Printable(rank.host(), 60));
    if (line.size() > kColumns) line.resize(kColumns);
    absl::StrAppend(out, line, "\n");
  }
  if (start.ranks_size() > kMaxRanks) absl::StrAppend(out, "and others that were last less often or took less time\n");
}

}  // namespace

std::string StartUpReport(const Verdict& verdict) {
  if (!verdict.has_start_up()) return "START-UP  not recorded: the data has no times of communicator creation\n";
  const StartUp& start = verdict.start_up();
  std::string out;
  AppendWrapped("START-UP  ", Printable(start.text(), 1500), 0, kColumns, LongWords::kKeep, &out);
  AppendPhases(start, &out);
  absl::StrAppend(&out, absl::StrFormat("\n%10s %10s %9s %9s %9s %8s  %s\n", "begin s", "end s", "typical s",
                                        "longest s", "late by s", "members", "last to arrive, call, communicator"));
  for (int i = 0; i < start.creations_size() && i < kMaxLines; ++i) {
    const Creation& c = start.creations(i);
    const std::string end = c.end_ns() == 0 ? "open" : absl::StrFormat("%.3f", Seconds(c.end_ns()));
    const std::string last = c.last_rank() < 0 ? "-" : absl::StrCat("rank ", c.last_rank());
    std::string line = absl::StrFormat("%10.3f %10s %9.3f %9.3f %9.3f %8d  %s, %s %s%s", Seconds(c.begin_ns()), end,
                                       Seconds(c.median_ns()), Seconds(c.longest_ns()), Seconds(c.last_by_ns()),
                                       c.members_entered(), last, Printable(c.call(), 40),
                                       Printable(c.communicator().name(), 60), c.serial() ? " (serial)" : "");
    if (line.size() > kColumns) line.resize(kColumns);
    absl::StrAppend(&out, line, "\n");
  }
  const int shown = std::min(start.creations_size(), kMaxLines);
  if (start.creations_total() > shown)
    absl::StrAppend(&out, "and ", start.creations_total() - shown, " more, shorter\n");
  return out;
}

}  // namespace lockstep
