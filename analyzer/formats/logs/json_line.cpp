#include "analyzer/formats/logs/json_line.h"

#include <nlohmann/json.hpp>

#include "analyzer/formats/logs/line.h"
#include "analyzer/util/parse_json.h"

namespace lockstep::logs {

std::optional<std::string> TextOfJsonLine(std::string_view line) {
  constexpr const char* kKeys[] = {"log", "message", "msg", "textPayload", "line"};
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos || line[begin] != '{' || Holds(line, "\"inspector_output_format_version\"") ||
      Holds(line, "\"coll_perf\""))
    return std::nullopt;
  const nlohmann::json json = ParseJson(line);
  if (!json.is_object()) return std::nullopt;
  const nlohmann::json& source = JsonMember(json, "_source");  // written by Elasticsearch
  for (const char* key : kKeys) {
    const nlohmann::json& text = JsonMember(source.is_object() ? source : json, key);
    if (text.is_string()) return text.get<std::string>();
  }
  return std::nullopt;
}

}  // namespace lockstep::logs
