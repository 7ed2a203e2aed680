// Reads collected logs: one JSON object for each line of a program.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::logs {

// Returns the program's text in a line such as Docker's {"log":"..","stream":"stderr"}, {"textPayload":".."} or
// {"message":".."}. The text may have several lines. Nullopt for any other text.
std::optional<std::string> TextOfJsonLine(std::string_view line);

}  // namespace lockstep::logs
