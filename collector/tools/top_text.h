// Text for the screen of `lockstep top`: columns, names and durations. Makes everything that came over the network
// printable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/rank_set.h"
#include "proto/wire.pb.h"

namespace lockstep::top {

// Returns at most `width` characters; '~' at the end if some are left out.
std::string Cut(std::string text, size_t width);
// Return exactly `width` characters, aligned left or right.
std::string Padded(const std::string& text, size_t width);
std::string RightPadded(const std::string& text, size_t width);

// "3 (1-2, 9)" or "0".
std::string CountAndRanks(const RankSet& message);
std::string JobName(const JobIdentity& job);
// For columns: "0.4s", "14s", "1m13s", "2h05m", "12d"; "-" for none.
std::string Tight(int64_t ns);

size_t IndentOf(const std::string& text);
// Splits the text between words into lines of at most `width` columns; all but the first are indented by `indent`.
std::vector<std::string> Wrapped(const std::string& text, size_t width, size_t indent);

}  // namespace lockstep::top
