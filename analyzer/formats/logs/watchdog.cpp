#include "analyzer/formats/logs/watchdog.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/util/printable.h"

namespace lockstep::logs {
namespace {

std::string Name(std::string_view text) { return Printable(fr::Strip(text), fr::kMostNameColumns); }

// Converts a counter as in pg_status: -1 means never, and values larger than in any job are damaged.
int64_t Counter(std::optional<int64_t> number) {
  if (!number || *number < -1 || *number > fr::kMaxCounter) return kUnknown;
  return *number < 0 ? kNone : *number;
}

int64_t CounterBehind(std::string_view text, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const int64_t value = Counter(NumberBehind(text, key)); value != kUnknown) return value;
  }
  return kUnknown;
}

// Parses "[PG 0 Rank 1]", "[PG 0 (default_pg) Rank 1]", "[PG ID 0 PG GUID 0(default_pg) Rank 1]" or "[Rank 1]".
void ReadGroup(std::string_view text, WatchdogLine* line) {
  constexpr size_t kMostBytes = 512;
  const size_t at = text.find("[PG ");
  if (at == std::string_view::npos) {
    const size_t rank = text.find("[Rank ");
    if (rank != std::string_view::npos) line->inside = RankBehind(text.substr(rank), "[Rank ");
    return;
  }
  std::string_view tag = text.substr(at + 4, kMostBytes);
  const size_t rank = tag.find(" Rank ");
  if (rank == std::string_view::npos) return;
  line->inside = RankBehind(tag.substr(rank), " Rank ");
  tag = tag.substr(0, rank);
  const size_t guid = tag.find("GUID "), open_at = tag.find('(');
  line->numbered = guid == std::string_view::npos && open_at == std::string_view::npos;
  if (guid != std::string_view::npos) tag.remove_prefix(guid + 5);
  const size_t open = tag.find('(');
  line->group = Name(tag.substr(0, open));
  if (open == std::string_view::npos) return;
  const size_t close = tag.rfind(')');
  if (close != std::string_view::npos && close > open) line->desc = Name(tag.substr(open + 1, close - open - 1));
}

// Parses "WorkNCCL(SeqNum=19, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800091
// milliseconds".
void ReadWork(std::string_view text, WatchdogLine* line) {
  const size_t at = text.find("WorkNCCL(");
  if (at == std::string_view::npos) return;
  text = text.substr(at);
  line->seq = Counter(NumberBehind(text, "SeqNum="));
  if (line->seq < 0) line->seq = kUnknown;
  if (const size_t type = text.find("OpType="); type != std::string_view::npos) {
    std::string_view op = text.substr(type + 7, 64);
    size_t length = 0;
    while (length < op.size() && (fr::IsWord(op[length]) || op[length] == '_')) ++length;
    line->op = std::string(op.substr(0, length));
  }
  const auto count = [&](std::string_view key) { return std::max<int64_t>(NumberBehind(text, key).value_or(-1), -1); };
  line->elements_in = count("NumelIn=");
  line->elements_out = count("NumelOut=");
  line->timeout_ms = std::max<int64_t>(count("Timeout(ms)="), 0);
  line->ran_ms = std::max<int64_t>(count("ran for "), 0);
}

// Parses "[E1120 10:00:01.123456789 ": month, day and time of day.
int64_t StampIn(std::string_view text) {
  const size_t at = text.find("[E");
  if (at == std::string_view::npos) return 0;
  const std::string_view stamp = text.substr(at + 2, 32);
  const size_t blank = stamp.find(' ');
  int32_t date = 0, hour = 0, minute = 0, second = 0;
  if (blank == std::string_view::npos || blank < 3 || blank > 4 || stamp.size() < blank + 9 ||
      !fr::ParseNumber(stamp.substr(0, blank), &date))
    return 0;
  const std::string_view clock = stamp.substr(blank + 1);
  if (clock[2] != ':' || clock[5] != ':' || !fr::ParseNumber(clock.substr(0, 2), &hour) ||
      !fr::ParseNumber(clock.substr(3, 2), &minute) || !fr::ParseNumber(clock.substr(6, 2), &second))
    return 0;
  // Without its year, a date is only useful for differences. Releases write the month with one or two digits.
  const int32_t month = date / 100, day = date % 100;
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || minute < 0 || second < 0) return 0;
  constexpr int64_t kSecond = 1'000'000'000;
  int64_t nanoseconds = 0, unit = kSecond;
  if (clock.substr(8).starts_with('.')) {
    for (size_t i = 9; i < clock.size() && fr::IsDigit(clock[i]) && unit > 1; ++i)
      nanoseconds += (clock[i] - '0') * (unit /= 10);
  }
  const int64_t days = (month + 12) * 31 + day;
  return (((days * 24 + hour) * 60 + minute) * 60 + second) * kSecond + nanoseconds;
}

}  // namespace

std::optional<MonitorLine> ParseMonitor(std::string_view text) {
  constexpr std::pair<std::string_view, MonitorLine::What> kTexts[] = {
      {"watchdog got stuck for ", MonitorLine::What::kStuck},
      {"Heartbeat monitor timed out", MonitorLine::What::kStuck},
      {"Could not acquire GIL within ", MonitorLine::What::kLocked},
      {"Failed to check the \"should dump\" flag on ", MonitorLine::What::kNoStore},
      {"Failed to get exception dump flag from the global store", MonitorLine::What::kNoStore}};
  const auto* const found = std::find_if(std::begin(kTexts), std::end(kTexts), [&](const auto& known) {
    return text.find(known.first) != std::string_view::npos;
  });
  if (found == std::end(kTexts)) return std::nullopt;
  MonitorLine line;
  line.what = found->second;
  line.seconds = std::max<int64_t>(NumberBehind(text, "watchdog got stuck for ").value_or(0), 0);
  WatchdogLine group;
  ReadGroup(text, &group);
  if (group.group == "0") line.rank_of_whole = group.inside;
  return line;
}

std::optional<EndedWatchdog> ParseEndedWatchdog(std::string_view text) {
  constexpr std::string_view kEnded = "watchdog thread terminated with exception: ";
  const size_t at = text.find(kEnded);
  if (at == std::string_view::npos) return std::nullopt;
  EndedWatchdog out{.error = text.substr(at + kEnded.size())};
  if (out.error.empty() || Holds(out.error, "Watchdog caught collective operation timeout")) return std::nullopt;
  WatchdogLine group;
  ReadGroup(text.substr(0, at), &group);
  if (group.group.empty() || group.group == "0" || group.desc == "default_pg") out.rank_of_whole = group.inside;
  return out;
}

std::optional<TraceLine> ParseTraceLine(std::string_view text) {
  text = fr::Strip(text);
  constexpr std::string_view kFrom = " from ";
  if (text.size() < 2 || text[0] != '#' || !fr::IsDigit(text[1])) return std::nullopt;
  const size_t blank = text.find(' '), from = text.rfind(kFrom), colon = text.rfind(':');
  int64_t line = 0;
  if (blank == std::string_view::npos || from == std::string_view::npos || from < blank || colon < from ||
      colon == std::string_view::npos || !fr::ParseNumber(text.substr(colon + 1), &line))
    return std::nullopt;
  const std::string_view file = text.substr(from + kFrom.size(), colon - from - kFrom.size());
  TraceLine out;
  out.torch = fr::IsTorchFile(file) || file.starts_with('<');
  out.place = absl::StrCat(Name(file.substr(file.rfind('/') + 1)), ":", line, " ",
                           Name(text.substr(blank + 1, from > blank ? from - blank - 1 : 0)));
  return out;
}

std::optional<WatchdogLine> ParseWatchdog(std::string_view text) {
  const bool caught = text.find("Watchdog caught collective operation timeout") != std::string_view::npos;
  const bool counts = text.find("ast enqueued ") != std::string_view::npos;
  const bool signal = text.find("collective timeout from ") != std::string_view::npos;
  if (!caught && !counts && !signal) return std::nullopt;
  WatchdogLine line;
  ReadGroup(text, &line);
  line.printed_ns = StampIn(text);
  line.caught = caught;
  if (caught) ReadWork(text, &line);
  line.enqueued = CounterBehind(text, {"ast enqueued NCCL work: ", "ast enqueued work: "});
  line.completed = CounterBehind(text, {"ast completed NCCL work: ", "ast completed work: "});
  line.failed_at =
      CounterBehind(text, {"imeout at NCCL work: ", "watchdog at work sequence id: ", "watchdog at work: "});
  line.own_timeout = signal && Holds(text, "collective timeout from this local rank");
  if (signal) line.signalled_by = RankBehind(text, "collective timeout from rank ");
  if (signal && line.signalled_by < 0) line.signalled_by = RankBehind(text, "collective timeout from  rank ");
  const bool named = caught && (line.seq != kUnknown || !line.op.empty());
  if (!named && line.enqueued == kUnknown && line.completed == kUnknown && line.failed_at == kUnknown &&
      line.signalled_by < 0)
    return std::nullopt;
  return line;
}

}  // namespace lockstep::logs
