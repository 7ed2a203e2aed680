#include "analyzer/report_start.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/report_words.h"

namespace lockstep {
namespace {

constexpr int kMaxLines = 40;
constexpr size_t kColumns = 118;

double Seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string Wrapped(const std::string& text) {
  std::string out, line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t space = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, space - at);
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, line, "\n");
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
    at = space + 1;
  }
  return line.empty() ? out : absl::StrCat(out, line, "\n");
}

}  // namespace

std::string StartUpReport(const Verdict& verdict) {
  if (!verdict.has_start_up()) return "START-UP  not recorded: the data holds no times of the making of communicators\n";
  const StartUp& start = verdict.start_up();
  std::string out = Wrapped(absl::StrCat("START-UP  ", Printable(start.text(), 1500)));
  absl::StrAppend(&out, absl::StrFormat("\n%10s %10s %9s %9s %9s %8s  %s\n", "begin s", "end s", "typical s", "longest s", "late by s", "members",
                                        "last to come, call, communicator"));
  for (int i = 0; i < start.creations_size() && i < kMaxLines; ++i) {
    const Creation& c = start.creations(i);
    const std::string end = c.end_ns() == 0 ? "open" : absl::StrFormat("%.3f", Seconds(c.end_ns()));
    const std::string last = c.last_rank() < 0 ? "-" : absl::StrCat("rank ", c.last_rank());
    std::string line = absl::StrFormat("%10.3f %10s %9.3f %9.3f %9.3f %8d  %s, %s %s%s", Seconds(c.begin_ns()), end, Seconds(c.median_ns()),
                                       Seconds(c.longest_ns()), Seconds(c.last_by_ns()), c.members_entered(), last, Printable(c.call(), 40),
                                       Printable(c.communicator().name(), 60), c.serial() ? " (serial)" : "");
    if (line.size() > kColumns) line.resize(kColumns);
    absl::StrAppend(&out, line, "\n");
  }
  const int shown = std::min(start.creations_size(), kMaxLines);
  if (start.creations_total() > shown) absl::StrAppend(&out, "and ", start.creations_total() - shown, " more, shorter\n");
  return out;
}

}  // namespace lockstep
