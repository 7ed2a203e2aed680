// Parses JSON from untrusted files.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace lockstep {

// Drops values nested deeper than `most_depth` objects and arrays, because copying, comparing and printing JSON uses
// stack for each level. Returns a discarded value if the text is not JSON.
template <typename Json = nlohmann::json>
Json ParseJson(std::string_view text, int most_depth = 32) {
  return Json::parse(
      text, [most_depth](int depth, typename Json::parse_event_t, Json&) { return depth < most_depth; },
      /*allow_exceptions=*/false);
}

}  // namespace lockstep
