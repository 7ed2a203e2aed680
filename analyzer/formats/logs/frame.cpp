#include "analyzer/formats/logs/frame.h"

#include <algorithm>
#include <set>
#include <vector>

#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"

namespace lockstep::logs {
namespace {

constexpr size_t kLeastLines = 4;

std::string_view WithoutBlanks(std::string_view line) { return line.substr(0, line.find_last_not_of(" \t") + 1); }

// Returns the number of characters.
size_t Columns(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Returns whether the line has this width, and its text reaches at least the last column but one. Copied terminal lines
// may be padded with blanks.
bool Fills(std::string_view line, size_t columns) {
  return Columns(line) == columns && Columns(WithoutBlanks(line)) + 1 >= columns;
}

// Returns the text with zeros instead of its digits.
std::string Shape(std::string_view text) {
  std::string shape(text);
  std::replace_if(shape.begin(), shape.end(), fr::IsDigit, '0');
  return shape;
}

bool BeginsLine(std::string_view text) {
  constexpr size_t kMostBefore = 128;
  return fr::Strip(text).empty() || text.starts_with('[') || text.starts_with('#') || text.starts_with("  ") ||
         text.starts_with("Traceback (") || Holds(text.substr(0, kMostBefore), " NCCL ") ||
         Holds(text, "ProcessGroupNCCL.cpp:") || TakePrefixes(text).prefixed;
}

// Returns what all lines begin with, if these are only blanks and signs of quotations.
std::string_view CommonPrefix(const std::vector<std::string_view>& lines) {
  std::string_view prefix;
  size_t used = 0;
  for (const std::string_view line : lines) {
    const std::string_view own = WithoutBlanks(line);
    if (own.empty() || (used > 0 && own == WithoutBlanks(prefix))) continue;
    if (used++ == 0) prefix = line.substr(0, std::min(line.find_first_not_of("> |\t"), line.size()));
    const auto [end, _] = std::mismatch(prefix.begin(), prefix.end(), line.begin(), line.end());
    prefix = prefix.substr(0, static_cast<size_t>(end - prefix.begin()));
  }
  return used < kLeastLines ? std::string_view() : prefix;
}

// Returns the text after the line's number and the blanks that follow it; empty if there is no number.
std::string_view BehindNumber(std::string_view line, int64_t* number) {
  const size_t begin = line.find_first_not_of(' '), end = line.find_first_not_of("0123456789", begin);
  if (begin == std::string_view::npos || end == begin || end - begin > 9) return {};
  *number = LeadingNumber(line).value_or(0);
  if (end == std::string_view::npos) return line.substr(line.size());
  if (line[end] != ' ' && line[end] != '\t') return {};
  const size_t blanks = line[end] == '\t' ? 1 : line.substr(end, 2) == "  " ? 2 : 1;
  return line.substr(end + blanks);
}

bool AreNumbered(const std::vector<std::string_view>& lines) {
  int64_t last = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    int64_t number = 0;
    if (BehindNumber(lines[i], &number).data() == nullptr || (i > 0 && number != last + 1)) return false;
    last = number;
  }
  return lines.size() >= kLeastLines;
}

// Returns the number of columns at which a terminal cut lines; 0 if it did not.
size_t CutAt(const std::vector<std::string_view>& lines) {
  constexpr size_t kLeastColumns = 40, kLeastCuts = 3, kAround = 6;
  size_t most = 0, least = SIZE_MAX, filled = 0;
  for (const std::string_view line : lines) {
    most = std::max(most, Columns(line));
    least = std::min(least, Columns(line));
    filled += WithoutBlanks(line).size() < line.size();
  }
  if (most < kLeastColumns) return 0;
  if (least == most && 2 * filled > lines.size()) return most;
  // A cut is inside a word, or at a blank. A program may also print lines of equal length, but then their ends and
  // beginnings are also similar.
  size_t full = 0, cuts = 0, twice = 0;
  std::set<std::string> places;  // the text around each cut
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    if (!Fills(lines[i], most)) continue;
    ++full;
    const std::string_view line = lines[i], next = lines[i + 1];
    if (BeginsLine(next)) continue;
    if (line.back() != ' ' && next[0] != ' ' && !(fr::IsWord(line.back()) && fr::IsWord(next[0]))) continue;
    if (Shape(line.substr(0, kAround)) == Shape(next.substr(0, kAround))) continue;
    ++cuts;
    twice += Fills(next, most);
    const std::string_view end = line.substr(line.size() - std::min(line.size(), kAround));
    places.insert(Shape(end) + Shape(next.substr(0, kAround)));
  }
  return (places.size() >= kLeastCuts || twice >= kLeastCuts) && 3 * cuts >= full ? most : 0;
}

std::string_view WithoutFrame(const TextFrame& frame, std::string_view line) {
  if (frame.numbered) {
    int64_t number = 0;
    const std::string_view text = BehindNumber(line, &number);
    return text.data() == nullptr ? line : text;
  }
  if (line.starts_with(frame.prefix)) return line.substr(frame.prefix.size());
  return line == WithoutBlanks(frame.prefix) ? std::string_view() : line;
}

}  // namespace

TextFrame FrameOf(std::string_view beginning) {
  TextFrame frame;
  std::vector<std::string_view> lines;
  for (size_t end; (end = beginning.find('\n')) != std::string_view::npos; beginning.remove_prefix(end + 1)) {
    std::string_view line = beginning.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  frame.doubled = lines.size() >= 2 * kLeastLines;
  for (size_t i = 1; i < lines.size() && frame.doubled; i += 2) frame.doubled = lines[i].empty();
  if (frame.doubled) {
    for (size_t i = 0; 2 * i < lines.size(); ++i) lines[i] = lines[2 * i];
    lines.resize((lines.size() + 1) / 2);
  }
  frame.numbered = AreNumbered(lines);
  if (!frame.numbered) frame.prefix = std::string(CommonPrefix(lines));
  for (std::string_view& line : lines) line = WithoutFrame(frame, line);
  frame.columns = CutAt(lines);
  return frame;
}

void Unframer::Add(std::string_view line, int64_t number) {
  if (frame_.doubled && number % 2 == 0 && line.empty()) return;
  line = WithoutFrame(frame_, line);
  if (number_ > 0 && (BeginsLine(line) || held_.size() + line.size() > kMostLineBytes)) Finish();
  const bool more = frame_.columns > 0 && Fills(line, frame_.columns);
  if (number_ == 0 && !more) return take_(line, number);
  if (number_ == 0) number_ = number;
  held_.append(line);
  if (!more) Finish();
}

void Unframer::Finish() {
  if (number_ == 0) return;
  take_(held_, std::exchange(number_, 0));
  held_.clear();
}

}  // namespace lockstep::logs
