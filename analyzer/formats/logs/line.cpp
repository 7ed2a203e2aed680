#include "analyzer/formats/logs/line.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/text.h"

namespace lockstep::logs {
namespace {

using fr::IsDigit;

int32_t AsRank(std::optional<int64_t> number) {
  return number && *number >= 0 && *number <= fr::kMaxRank ? static_cast<int32_t>(*number) : -1;
}

// Returns 3 for "Worker_TP3_EP3" or "2026-11-20 10:00:00 TP3": servers number their workers like this. With pipeline
// stages, that number is not the rank.
int32_t OnlyTensorRank(std::string_view label) {
  int32_t rank = -1;
  for (size_t at = 0; (at = label.find_first_of("TP", at)) != std::string_view::npos; ++at) {
    const bool begins = at > 0 && !fr::IsWord(label[at - 1]);
    if (begins && label.substr(at).starts_with("PP")) return -1;
    if (begins && label.substr(at).starts_with("TP")) rank = AsRank(LeadingNumber(label.substr(at + 2)));
  }
  return rank;
}

// Removes a prefix in brackets: "[rank3]:", "[default3]:", "[pod/a/b] ", "[1,3]<stderr>:" or a time. Like the other
// Take functions below, returns whether it removed anything.
bool TakeBracket(Line* line) {
  const std::string_view text = line->text;
  constexpr size_t kMostBytes = 256;
  const size_t close = text.substr(0, kMostBytes).find(']');
  if (text.empty() || text[0] != '[' || close == std::string_view::npos) return false;
  const std::string_view inside = text.substr(1, close - 1);
  std::string_view rest = text.substr(close + 1);
  if (inside.starts_with("pod/")) {
    if (rest.starts_with(' ')) rest.remove_prefix(1);
    line->pod = inside;
    line->text = rest;
    return true;
  }
  // mpirun: [job,rank]<stream>:, horovodrun: [rank]<stream>:
  if (rest.starts_with("<stdout") || rest.starts_with("<stderr") || rest.starts_with("<stddiag")) {
    const size_t end = rest.find(">:"), comma = inside.find(',');
    if (end == std::string_view::npos || !LeadingNumber(inside)) return false;
    line->task = AsRank(LeadingNumber(comma == std::string_view::npos ? inside : inside.substr(comma + 1)));
    line->text = rest.substr(end + 2);
    return true;
  }
  // "[2026-11-20 10:00:00,123] text"; SGLang: "[2026-11-20 10:00:00 TP3] text"
  if (rest.starts_with(' ') && inside.size() >= 19 && IsDigit(inside[0]) && inside[4] == '-' && inside[13] == ':') {
    const int32_t task = OnlyTensorRank(inside);
    const bool time = std::none_of(inside.begin(), inside.end(), fr::IsUpper) && !fr::IsWord(inside[10]);
    if (task < 0 && !time) return false;
    if (task >= 0) line->task = task;
    line->text = rest.substr(1);
    return true;
  }
  if (!rest.starts_with(':')) return false;
  size_t digits = inside.size();
  while (digits > 0 && IsDigit(inside[digits - 1])) --digits;
  const std::string_view word = inside.substr(0, digits);
  if (digits == inside.size() || word.empty() ||
      !std::all_of(word.begin(), word.end(), [](char c) { return fr::IsWord(c) || c == '_' || c == '-'; }))
    return false;
  (word == "rank" ? line->rank : line->local) = AsRank(LeadingNumber(inside.substr(digits)));
  rest.remove_prefix(1);
  if (word == "rank" && rest.starts_with(' ')) rest.remove_prefix(1);
  line->text = rest;
  return true;
}

// Returns the text after "host program[1234]: ", which syslog and journald write after the time; otherwise `text`.
std::string_view BehindProgram(std::string_view text) {
  constexpr size_t kMostBytes = 256;
  const size_t host = text.find(' '), end = text.substr(0, kMostBytes).find("]: ");
  if (end == std::string_view::npos || host > end) return text;
  const std::string_view program = text.substr(host + 1, end - host - 1);
  const size_t bracket = program.find('[');
  if (bracket == 0 || bracket == std::string_view::npos ||
      program.substr(0, bracket).find(' ') != std::string_view::npos)
    return text;
  const std::string_view pid = program.substr(bracket + 1);
  return !pid.empty() && std::all_of(pid.begin(), pid.end(), IsDigit) ? text.substr(end + 3) : text;
}

// Removes a time and what belongs to it: "2026-11-20T10:00:00.123456Z " of kubectl and docker, "10:00:00.123 " of other
// tools, "2026-11-20T10:00:00.123456+00:00 stderr F " of container runtimes, "Nov 20 10:00:00 host program[1234]: ".
bool TakeTime(Line* line) {
  constexpr size_t kMostBytes = 40, kLeastDigits = 6;
  std::string_view text = line->text;
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const size_t month = kMonths.find(text.substr(0, 3));
  // "Nov 20 " or "Nov  2 "
  if (text.size() > 7 && month % 3 == 0 && month < kMonths.size() && text[3] == ' ' && IsDigit(text[5]) &&
      text[6] == ' ')
    text.remove_prefix(7);
  const size_t blank = text.substr(0, kMostBytes).find(' ');
  if (blank == std::string_view::npos || blank == 0) return false;
  const std::string_view word = text.substr(0, blank);
  const auto digits = std::count_if(word.begin(), word.end(), IsDigit);
  const bool time = std::count(word.begin(), word.end(), ':') >= 2 && IsDigit(word[0]) &&
                    std::all_of(word.begin(), word.end(), [](char c) {
                      return IsDigit(c) || std::string_view("-:.,TZ+").find(c) != std::string_view::npos;
                    });
  if (!time || digits < static_cast<ptrdiff_t>(kLeastDigits)) return false;
  text.remove_prefix(blank + 1);
  for (const std::string_view stream : {"stdout F ", "stderr F ", "stdout P ", "stderr P "}) {
    if (text.starts_with(stream)) text.remove_prefix(stream.size());
  }
  line->text = BehindProgram(text);
  return true;
}

// Removes the label of srun --label: the task's number, right-aligned, followed by a colon and a blank.
bool TakeTask(Line* line) {
  std::string_view text = line->text;
  while (text.starts_with(' ')) text.remove_prefix(1);
  constexpr size_t kMostDigits = 7;
  size_t digits = 0;
  while (digits < text.size() && digits <= kMostDigits && IsDigit(text[digits])) ++digits;
  if (digits == 0 || digits > kMostDigits || text.substr(digits, 2) != ": ") return false;
  line->task = AsRank(LeadingNumber(text));
  line->text = text.substr(digits + 2);
  return true;
}

// Removes "name-3  | " of tools that follow several containers, or "(Worker pid=3, ip=10.0.0.1) " of Ray.
bool TakeContainer(Line* line) {
  constexpr size_t kMostBytes = 128;
  const std::string_view text = line->text;
  if (text.starts_with('(')) {
    const size_t close = text.substr(0, kMostBytes).find(") ");
    if (close == std::string_view::npos || text.substr(0, close).find("pid=") == std::string_view::npos) return false;
    const std::string_view inside = text.substr(1, close - 1);
    if (line->task < 0) line->task = RankBehind(inside, " rank=");
    if (line->task < 0) line->task = OnlyTensorRank(inside.substr(0, inside.find(' ')));
    line->text = text.substr(close + 2);
    return true;
  }
  const size_t bar = text.substr(0, kMostBytes).find(" | ");
  if (bar == std::string_view::npos || bar == 0) return false;
  std::string_view name = text.substr(0, bar);
  while (name.ends_with(' ')) name.remove_suffix(1);
  if (name.empty() || !std::all_of(name.begin(), name.end(), [](char c) {
        return fr::IsWord(c) || c == '_' || c == '-' || c == '.' || c == '/';
      }))
    return false;
  line->text = text.substr(bar + 3);
  return true;
}

// Removes "node3: " of pdsh, clush and DeepSpeed: the host's name, which has a digit. Names with capital letters inside
// are those of exceptions.
bool TakeHost(Line* line) {
  constexpr size_t kMostBytes = 64;
  const std::string_view text = line->text;
  const size_t colon = text.substr(0, kMostBytes).find(": ");
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view name = text.substr(0, colon);
  const bool host = fr::IsWord(name[0]) && std::any_of(name.begin(), name.end(), IsDigit) &&
                    !std::all_of(name.begin(), name.end(), IsDigit) &&
                    std::all_of(name.begin(), name.end(), [](char c) { return fr::IsWord(c) || c == '-' || c == '.'; });
  const bool raised = std::any_of(name.begin() + 1, name.end(), fr::IsUpper);
  if (host && !raised) line->text = text.substr(colon + 2);
  return host && !raised;
}

// Removes what vLLM's logger writes: "ERROR 10-01 13:54:43 [executor.py:671] ", in older releases without the bracket.
bool TakeLogger(Line* line) {
  constexpr size_t kMostBytes = 96;
  constexpr std::string_view kLevels[] = {"DEBUG ", "INFO ", "WARNING ", "ERROR ", "CRITICAL "};
  const std::string_view text = line->text;
  const auto* const level =
      std::find_if(std::begin(kLevels), std::end(kLevels), [&](std::string_view of) { return text.starts_with(of); });
  const size_t close = text.substr(0, kMostBytes).find("] ");
  if (level == std::end(kLevels) || close == std::string_view::npos || !IsDigit(text[level->size()])) return false;
  const size_t colon = text.substr(0, close).rfind(".py:");
  if (colon == std::string_view::npos || !std::all_of(text.begin() + static_cast<ptrdiff_t>(colon) + 4,
                                                      text.begin() + static_cast<ptrdiff_t>(close), IsDigit))
    return false;
  line->text = text.substr(close + 2);
  return true;
}

}  // namespace

Line TakePrefixes(std::string_view text) {
  constexpr int kMost = 4;  // for a launcher inside a launcher inside a container
  Line line;
  line.text = text;
  for (int i = 0; i < kMost; ++i) {
    const std::string_view before = line.text;
    if (before.empty() || !(TakeBracket(&line) || TakeTask(&line) || TakeContainer(&line) || TakeLogger(&line) ||
                            TakeTime(&line) || TakeHost(&line)))
      break;
    line.prefixed = true;
  }
  return line;
}

absl::Status ForEachLine(int fd, const std::function<bool()>& go_on,
                         const std::function<void(std::string_view line, int64_t number)>& take) {
  constexpr size_t kChunk = 4u << 20;
  std::string chunk(kChunk, '\0'), begun;
  int64_t number = 0;
  bool more = false;  // `begun` contains the start of a line
  const auto end_line = [&](std::string_view rest) {
    ++number;
    if (!more) {
      std::string_view line = rest.substr(0, kMostLineBytes);
      if (line.ends_with('\r')) line.remove_suffix(1);
      return take(line, number);
    }
    begun.append(rest.substr(0, kMostLineBytes - std::min(kMostLineBytes, begun.size())));
    if (begun.ends_with('\r')) begun.pop_back();
    take(begun, number);
    begun.clear();
    more = false;
  };
  for (;;) {
    if (!go_on()) return absl::CancelledError("cancelled");
    const ssize_t got = read(fd, chunk.data(), kChunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(absl::StrCat("cannot be read: ", std::strerror(errno)));
    if (got == 0) break;
    std::string_view left(chunk.data(), static_cast<size_t>(got));
    for (size_t end; (end = left.find('\n')) != std::string_view::npos; left.remove_prefix(end + 1))
      end_line(left.substr(0, end));
    if (left.empty()) continue;
    begun.append(left.substr(0, kMostLineBytes - std::min(kMostLineBytes, begun.size())));
    more = true;
  }
  if (more) end_line("");
  return absl::OkStatus();
}

std::string WithoutColors(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at, 2) != "\x1b[") {
      out.push_back(text[at]);
      continue;
    }
    // Skips parameters, then one letter.
    at += 2;
    while (at < text.size() && (IsDigit(text[at]) || text[at] == ';')) ++at;
  }
  return out;
}

std::optional<int64_t> LeadingNumber(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  int64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<int64_t> NumberBehind(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  return at == std::string_view::npos ? std::nullopt : LeadingNumber(text.substr(at + key.size()));
}

int32_t RankBehind(std::string_view text, std::string_view key) { return AsRank(NumberBehind(text, key)); }

bool IsText(std::string_view bytes) {
  return !bytes.empty() && std::all_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20
               ? byte != 0x7f
               : byte == '\t' || byte == '\n' || byte == '\r' || byte == '\b' || byte == '\f' || byte == '\x1b';
  });
}

}  // namespace lockstep::logs
