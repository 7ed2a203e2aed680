// Lines of a log, and the prefixes of launchers.
#ifndef LOCKSTEP_ANALYZER_FORMATS_LOGS_LINE_H_
#define LOCKSTEP_ANALYZER_FORMATS_LOGS_LINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep::logs {

// Longer lines are cut to this; the rest of them is skipped.
constexpr size_t kMostLineBytes = 64u << 10;

// A line without its launcher's prefix. -1: the prefix has no such number.
struct Line {
  std::string_view text;
  int32_t rank = -1;      // "[rank3]:", by PyTorch itself
  int32_t task = -1;      // "3: " of srun, "[1,3]<stderr>:" of mpirun: a rank where each task is one
  int32_t local = -1;     // "[default3]:" of torchrun: a rank where the job has one host
  int64_t number = 0;     // in its file, from 1
  bool prefixed = false;  // it had a launcher's prefix
};

// Removes "[rank3]:", "[default3]:", "3: ", "[1,3]<stderr>:", "[pod/a/b] ", "name | ", one after the other.
Line TakePrefixes(std::string_view line);

// Calls `take` with each line of the file, without its end. Stops early, with CANCELLED, if `go_on` returns false; it
// is called every few megabytes.
absl::Status ForEachLine(int fd, const std::function<bool()>& go_on,
                         const std::function<void(std::string_view line, int64_t number)>& take);

// Parses the decimal number at the start of `text`, after blanks; a minus sign counts.
std::optional<int64_t> LeadingNumber(std::string_view text);
// The number after the first `key` in `text`.
std::optional<int64_t> NumberBehind(std::string_view text, std::string_view key);
// The same if it may be a rank; else -1.
int32_t RankBehind(std::string_view text, std::string_view key);

// Bytes that no text contains: the file is no text.
bool IsText(std::string_view bytes);

}  // namespace lockstep::logs

#endif  // LOCKSTEP_ANALYZER_FORMATS_LOGS_LINE_H_
