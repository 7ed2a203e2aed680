// Parses values of settings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/settings/table.h"

namespace lockstep::settings {

// Each returns false for an invalid text and then leaves `value` unchanged.
bool ParseFlag(std::string_view text, bool* value);           // yes, on, true, 1 and no, off, false, 0
bool ParseNumber(std::string_view text, int64_t* value);      // an integer, at least 0
bool ParseSeconds(std::string_view text, double* value);      // finite, at least 0
bool ParseBytes(std::string_view text, uint64_t* value);      // "1048576", "500M"; k, K, M, G and T are powers of 1,024
bool ParseAge(std::string_view text, int64_t* seconds);       // "90", "90s", "10m", "36h", "7d"
using RankRanges = std::vector<std::pair<int32_t, int32_t>>;  // first and last rank of each range
bool ParseRankRanges(std::string_view text, RankRanges* ranges);  // "0-7,16"

std::vector<std::string> SplitText(std::string_view text, char separator);  // without empty parts

// Returns an empty string if the value is valid, otherwise which values `row` accepts: "takes a number of seconds
// above 0". WrongValue checks only the format, because [common] applies to verbs with different limits.
std::string WrongValue(const Row& row, std::string_view value);
std::string WrongOrOutOfRange(const Row& row, std::string_view value);

// Returns the invalid recorder variables in this process's environment, one per line. The recorder uses its defaults
// for them and mentions them only in its ring.
std::vector<std::string> WrongRecorderVariables();

}  // namespace lockstep::settings
