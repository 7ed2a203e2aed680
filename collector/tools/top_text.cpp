#include "collector/tools/top_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/util/printable.h"

namespace lockstep::top {

std::string Cut(std::string text, size_t width) {
  if (text.size() <= width) return text;
  text.resize(width - 1);
  return text + '~';
}

std::string Padded(const std::string& text, size_t width) {
  std::string padded = Cut(text, width);
  padded.resize(width, ' ');
  return padded;
}

std::string RightPadded(const std::string& text, size_t width) {
  const std::string cut = Cut(text, width);
  return std::string(width - cut.size(), ' ') + cut;
}

std::string CountAndRanks(const RankSet& message) {
  const Ranks ranks = Ranks::FromOrNone(message);
  if (ranks.empty()) return "0";
  return absl::StrCat(ranks.size(), " (", ranks.Text(3), ")");
}

std::string JobName(const JobIdentity& job) {
  std::string name = PrintableAscii(job.job().empty() ? "(no name)" : job.job());
  if (!job.step().empty()) absl::StrAppend(&name, " step ", PrintableAscii(job.step()));
  if (job.restart_count() != 0) absl::StrAppend(&name, " restart ", job.restart_count());
  return name;
}

std::string Tight(int64_t ns) {
  const int64_t seconds = ns / 1'000'000'000;
  if (ns <= 0) return "-";
  if (seconds < 10) return absl::StrFormat("%.1fs", static_cast<double>(ns) / 1e9);
  if (seconds < 60) return absl::StrFormat("%ds", seconds);
  if (seconds < 3600) return absl::StrFormat("%dm%02ds", seconds / 60, seconds % 60);
  if (seconds < 100 * 3600) return absl::StrFormat("%dh%02dm", seconds / 3600, seconds / 60 % 60);
  return absl::StrFormat("%dd", seconds / 86400);
}

std::vector<std::string> Wrapped(const std::string& text, size_t width, size_t indent) {
  std::vector<std::string> lines;
  std::string rest = text;
  indent = std::min(indent, width / 2);
  while (rest.size() > width) {
    const size_t begin = rest.find_first_not_of(' ');
    size_t at = rest.rfind(' ', width);
    if (at == std::string::npos || begin == std::string::npos || at <= std::max(begin, indent))
      at = width;  // a word is longer than the line
    std::string line = rest.substr(0, at);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    lines.push_back(std::move(line));
    const size_t next = rest.find_first_not_of(' ', at);
    rest = next == std::string::npos ? "" : std::string(indent, ' ') + rest.substr(next);
  }
  if (!rest.empty() || lines.empty()) lines.push_back(std::move(rest));
  return lines;
}

size_t IndentOf(const std::string& text) {
  const size_t at = text.find_first_not_of(' ');
  return at == std::string::npos ? 0 : at;
}

}  // namespace lockstep::top
