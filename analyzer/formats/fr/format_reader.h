#pragma once

#include "analyzer/formats/format_reader.h"

namespace lockstep {

namespace fr {
bool IsPickle(std::string_view head);
bool IsJson(std::string_view head);
bool IsPacked(std::string_view head);
}  // namespace fr

void ReadFlightRecorder(const std::vector<std::string>& paths, const ReadControl& control, Records* records);

}  // namespace lockstep
