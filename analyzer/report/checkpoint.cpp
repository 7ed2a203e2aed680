#include "analyzer/report/checkpoint.h"

#include "absl/strings/str_cat.h"
#include "analyzer/report/phrases.h"

namespace lockstep {
namespace {

constexpr size_t kMountsShown = 3;

std::string IoText(double bytes_per_s) { return bytes_per_s < 1 ? "no I/O" : RateText(bytes_per_s); }

}  // namespace

std::vector<std::string> CheckpointLines(const Verdict& verdict) {
  std::vector<std::string> lines;
  for (const CheckpointMount& mount : verdict.checkpoint()) {
    std::string line = absl::StrCat(
        Counted(mount.ranks(), "rank", "ranks"),
        mount.hosts() == 0 ? "" : absl::StrCat(" on ", Counted(mount.hosts(), "host", "hosts")),
        mount.longest_ns() > 0 ? (mount.ranks() == 1 ? " has been" : " have been")
        : mount.ranks() == 1   ? " is"
                               : " are",
        " in a checkpoint on ", mount.mount().empty() ? "an unknown mount" : Printable(mount.mount(), 120));
    if (mount.longest_ns() > 0) {
      const std::string median = DurationText(mount.median_ns()), longest = DurationText(mount.longest_ns());
      absl::StrAppend(&line, " for ", median);
      if (longest != median) absl::StrAppend(&line, " (median; rank ", mount.longest_rank(), ": ", longest, ")");
    }
    if (mount.sampled() > 1) {
      absl::StrAppend(&line, "; ",
                      mount.bytes_per_s() < 1 ? "no I/O" : absl::StrCat("total I/O ", RateText(mount.bytes_per_s())));
    }
    if (mount.slowest_rank() >= 0 && (mount.sampled() == 1 || mount.bytes_per_s() >= 1)) {
      absl::StrAppend(&line, mount.sampled() > 1 ? ", least by rank " : "; rank ", mount.slowest_rank(),
                      mount.slowest_host().empty() ? "" : absl::StrCat(" (", Printable(mount.slowest_host(), 64), ")"),
                      ": ", IoText(mount.slowest_bytes_per_s()));
      if (!mount.slowest_file().empty()) absl::StrAppend(&line, ", ", Printable(mount.slowest_file(), 200));
    }
    lines.push_back(std::move(line));
  }
  KeepFirst(kMountsShown, " mounts", &lines);
  return lines;
}

}  // namespace lockstep
