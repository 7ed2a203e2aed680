#include "analyzer/settings/types.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace lockstep::settings {
namespace {

constexpr std::string_view kByteUnits = "KMGT";

std::string NumberText(const Row& row, double number) {
  if (row.kind != Kind::kBytes) return absl::StrFormat("%.10g", number);
  size_t unit = 0;
  for (; number >= 1024 && std::fmod(number, 1024) == 0 && unit < kByteUnits.size(); ++unit) number /= 1024;
  return absl::StrFormat("%.0f", number) + (unit == 0 ? std::string() : std::string(1, kByteUnits[unit - 1]));
}

std::string Range(const Row& row) {
  std::string text;
  if (row.least > 0) text = row.least < 1e-6 ? " above 0" : " from " + NumberText(row, row.least);
  if (row.most > 0) text += (row.least < 1e-6 ? " and at most " : " to ") + NumberText(row, row.most);
  return text;
}

bool LooksLikeEndpoint(std::string_view text) {
  if (text.substr(0, 6) == "ipc://") return text.size() > 6;
  return text.substr(0, 6) == "tcp://" && text.find(':', 6) != text.npos;
}

bool HasPort(std::string_view text, bool listen) {
  if (text.substr(0, 6) == "ipc://") return true;
  const size_t colon = text.rfind(':');
  const std::string_view port = text.substr(colon + 1);
  int64_t number = 0;
  return colon > 6 &&
         ((listen && port == "*") || (ParseNumber(port, &number) && number >= (listen ? 0 : 1) && number <= 65535));
}

// Returns whether `value` has the right format. Sets *worth to the number that the caller compares with the limits: -1
// for an endpoint with an invalid port.
bool HasForm(const Row& row, std::string_view value, double* worth) {
  int64_t number = 0;
  uint64_t bytes = 0;
  bool flag = false;
  RankRanges ranges;
  switch (row.kind) {
    case Kind::kFlag:
    case Kind::kNotFlag: return ParseFlag(value, &flag);
    case Kind::kNumber:
      if (!ParseNumber(value, &number)) return false;
      *worth = static_cast<double>(number);
      return true;
    case Kind::kSeconds: return ParseSeconds(value, worth);
    case Kind::kBytes:
      if (!ParseBytes(value, &bytes)) return false;
      *worth = static_cast<double>(bytes);
      return true;
    case Kind::kAge:
      if (!ParseAge(value, &number)) return false;
      *worth = static_cast<double>(number);
      return true;
    case Kind::kRanks: return ParseRankRanges(value, &ranges);
    case Kind::kChoice:
      return value.find('|') == value.npos &&
             ("|" + row.choices + "|").find("|" + std::string(value) + "|") != std::string::npos;
    case Kind::kEndpoint:
    case Kind::kListen:
      if (!LooksLikeEndpoint(value)) return false;
      *worth = HasPort(value, row.kind == Kind::kListen) ? 0 : -1;
      return true;
    case Kind::kText:
    case Kind::kFile:
    case Kind::kFolder: break;
  }
  return true;
}

std::string Takes(const Row& row) {
  switch (row.kind) {
    case Kind::kFlag:
    case Kind::kNotFlag: return "takes yes or no";
    case Kind::kNumber: return "takes a whole number" + Range(row);
    case Kind::kSeconds: return "takes a number of seconds" + Range(row);
    case Kind::kBytes: return "takes a number of bytes like 500M or 10G" + (Range(row).empty() ? "" : "," + Range(row));
    case Kind::kAge: return "takes an age such as 90s, 10m, 36h or 7d";
    case Kind::kRanks: return "takes a list of ranks like 0-7,16";
    case Kind::kChoice: return "takes one of " + ChoiceList(row);
    case Kind::kEndpoint:
    case Kind::kListen: return "takes an endpoint, tcp://ADDRESS:PORT or ipc://PATH";
    case Kind::kText:
    case Kind::kFile:
    case Kind::kFolder: break;
  }
  return "takes a value";
}

std::string Wrong(const Row& row, std::string_view value, bool limits) {
  if (value.empty()) return "takes a value";
  if (row.separator != 0) {
    const std::vector<std::string> parts = SplitText(value, row.separator);
    if (parts.empty()) return "takes a value";
    Row one = row;
    one.separator = 0;
    for (const std::string& part : parts) {
      if (std::string wrong = Wrong(one, part, limits); !wrong.empty()) return wrong;
    }
    return "";
  }
  double worth = row.least;
  const bool fits =
      HasForm(row, value, &worth) && (!limits || (worth >= row.least && (row.most <= 0 || worth <= row.most)));
  if (fits) return "";
  if (limits) return Takes(row);
  Row unlimited = row;
  unlimited.least = unlimited.most = 0;
  return Takes(unlimited);
}

}  // namespace

bool ParseFlag(std::string_view text, bool* value) {
  const std::string lower = absl::AsciiStrToLower(std::string(text));
  for (const char* yes : {"yes", "on", "true", "1"}) {
    if (lower == yes) return *value = true, true;
  }
  for (const char* no : {"no", "off", "false", "0"}) {
    if (lower == no) return *value = false, true;
  }
  return false;
}

bool ParseNumber(std::string_view text, int64_t* value) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number > INT64_MAX) return false;
  *value = static_cast<int64_t>(number);
  return true;
}

bool ParseSeconds(std::string_view text, double* value) {
  const std::string copy(text);
  char* end = nullptr;
  const double seconds = strtod(copy.c_str(), &end);
  if (copy.empty() || *end != 0 || isspace(static_cast<unsigned char>(copy[0])) || !std::isfinite(seconds) ||
      seconds < 0)
    return false;
  *value = seconds;
  return true;
}

bool ParseBytes(std::string_view text, uint64_t* value) {
  int shift = 0;
  if (!text.empty()) {
    const size_t unit = kByteUnits.find(text.back() == 'k' ? 'K' : text.back());
    if (unit != kByteUnits.npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  int64_t number = 0;
  if (!ParseNumber(text, &number) || number > INT64_MAX >> shift) return false;
  *value = static_cast<uint64_t>(number) << shift;
  return true;
}

bool ParseAge(std::string_view text, int64_t* seconds) {
  int64_t factor = 1, number = 0;
  const size_t unit = text.empty() ? text.npos : std::string_view("smhd").find(text.back());
  if (unit != text.npos) {
    constexpr int64_t kFactors[] = {1, 60, 3600, 86400};
    factor = kFactors[unit];
    text.remove_suffix(1);
  }
  if (!ParseNumber(text, &number) || number > 1'000'000'000) return false;
  *seconds = number * factor;
  return true;
}

bool ParseRankRanges(std::string_view text, RankRanges* ranges) {
  RankRanges read;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(std::string(text), ','))) {
    const size_t dash = part.find('-');
    int64_t first = 0, last = 0;
    if (!ParseNumber(part.substr(0, dash), &first)) return false;
    last = first;
    if (dash != part.npos && !ParseNumber(part.substr(dash + 1), &last)) return false;
    if (last < first || last > INT32_MAX) return false;
    read.emplace_back(static_cast<int32_t>(first), static_cast<int32_t>(last));
  }
  *ranges = std::move(read);
  return true;
}

std::vector<std::string> SplitText(std::string_view text, char separator) {
  return absl::StrSplit(absl::string_view(text.data(), text.size()), separator, absl::SkipEmpty());
}

std::string WrongValue(const Row& row, std::string_view value) { return Wrong(row, value, false); }

std::string WrongOrOutOfRange(const Row& row, std::string_view value) { return Wrong(row, value, true); }

std::vector<std::string> WrongRecorderVariables() {
  std::vector<std::string> lines;
  for (const Row& row : Table()) {
    const char* value = row.section == kRecorder ? getenv(row.variable.c_str()) : nullptr;
    if (value == nullptr || *value == 0) continue;
    // As in the recorder, case does not matter, and 0 and no mean off.
    const std::string text = absl::AsciiStrToLower(value);
    bool on = true;
    if (row.kind == Kind::kChoice && ParseFlag(text, &on) &&
        ("|" + row.choices + "|").find(on ? "|on|" : "|off|") != std::string::npos)
      continue;
    const std::string wrong = WrongValue(row, text);
    if (!wrong.empty())
      lines.push_back(row.variable + " " + wrong + ", not '" + std::string(value).substr(0, 60) +
                      "': the recorder uses its default, " + row.fallback);
  }
  return lines;
}

}  // namespace lockstep::settings
