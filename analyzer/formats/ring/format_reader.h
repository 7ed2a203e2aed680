#pragma once

#include "analyzer/formats/format_reader.h"

namespace lockstep {

bool IsRing(std::string_view head);
void ReadRings(const std::vector<std::string>& paths, const ReadControl& control, Records* records);

}  // namespace lockstep
