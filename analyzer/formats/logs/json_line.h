// Lines of collected logs: one JSON object for each line of a program.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::logs {

// Returns the program's text in {"log":"..","stream":"stderr"} of Docker, {"textPayload":".."}, {"message":".."} and
// others. It may have several lines. Nullopt for any other text.
std::optional<std::string> TextOfJsonLine(std::string_view line);

}  // namespace lockstep::logs
