// Reads lines of a log, and removes the prefixes that launchers add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep::logs {

// Longer lines are cut to this size, and the rest is skipped.
constexpr size_t kMostLineBytes = 64u << 10;

// A line without its launcher's prefix. A number is -1 if the prefix does not contain it.
struct Line {
  std::string_view text;
  int32_t rank = -1;  // "[rank3]:", printed by PyTorch itself
  int32_t task =
      -1;  // "3: " of srun, "[1,3]<stderr>:" of mpirun, "[3]<stderr>:" of horovodrun: the rank if each task is one rank
  int32_t local = -1;     // "[default3]:" of torchrun: the rank if the job has one host
  std::string_view pod;   // the pod that kubectl prints; empty if not printed
  int64_t number = 0;     // line number in its file, from 1
  bool prefixed = false;  // the line had a launcher's prefix
};

// Removes up to four prefixes: "[rank3]:", "[default3]:", "3: ", "[1,3]<stderr>:", "[pod/a/b] ", "name | ", "node3: ",
// times or loggers' labels.
Line TakePrefixes(std::string_view line);

// Calls `take` with each line of the file, without the line end. Returns Cancelled if `go_on`, which is called every
// few megabytes, returns false.
absl::Status ForEachLine(int fd, const std::function<bool()>& go_on,
                         const std::function<void(std::string_view line, int64_t number)>& take);

// Removes a terminal's color sequences.
std::string WithoutColors(std::string_view text);

inline bool Holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Parses the decimal number at the start of `text`, after blanks. A minus sign is part of the number.
std::optional<int64_t> LeadingNumber(std::string_view text);
// Returns the number after the first `key` in `text`.
std::optional<int64_t> NumberBehind(std::string_view text, std::string_view key);
// Like NumberBehind, but returns -1 if there is no number or it cannot be a rank.
int32_t RankBehind(std::string_view text, std::string_view key);

// Returns false if the bytes cannot be text.
bool IsText(std::string_view bytes);

}  // namespace lockstep::logs
