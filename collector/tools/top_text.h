// Text for the screen of `lockstep top`: columns, names and durations. Everything that came over the network is made
// printable here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collector/common/rank_set.h"
#include "proto/wire.pb.h"

namespace lockstep::top {

// At most `width` characters; '~' at the end if some are left out.
std::string Cut(std::string text, size_t width);
// Exactly `width` characters, to the left or to the right.
std::string Padded(const std::string& text, size_t width);
std::string RightPadded(const std::string& text, size_t width);

// "3 (1-2, 9)" or "0".
std::string CountAndRanks(const RankSet& message);
std::string JobName(const JobIdentity& job);
// For columns: "0.4s", "14s", "1m13s", "2h05m", "12d"; "-" for none.
std::string Tight(int64_t ns);

size_t IndentOf(const std::string& text);
// At most `width` columns in a line, broken between words; further lines are below, indented by `indent`.
std::vector<std::string> Wrapped(const std::string& text, size_t width, size_t indent);
// The lines of a verdict, which were wrapped for a wider window, wrapped again for this one.
std::vector<std::string> Reflowed(const std::vector<std::string>& text, size_t width);

}  // namespace lockstep::top
