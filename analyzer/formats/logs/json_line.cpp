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
  const auto source = json.find("_source");  // written by Elasticsearch
  const nlohmann::json& object = source != json.end() && source->is_object() ? *source : json;
  for (const char* key : kKeys) {
    const auto text = object.find(key);
    if (text != object.end() && text->is_string()) return text->get<std::string>();
  }
  return std::nullopt;
}

}  // namespace lockstep::logs
