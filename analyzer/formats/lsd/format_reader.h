#pragma once

#include "analyzer/formats/format_reader.h"

namespace lockstep {

bool IsLsd(std::string_view head);
void ReadLsdDumps(const std::vector<std::string>& paths, const ReadControl& control, Records* records);

}  // namespace lockstep
