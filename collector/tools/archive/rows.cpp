#include "collector/tools/archive/rows.h"

#include <bit>

namespace lockstep::archive {

Json IncidentName::NewRow() const {
  Json row;
  row["day"] = day;
  row["at"] = real_ns / 1'000'000'000;
  row["cluster"] = cluster;
  row["job"] = job;
  row["incident"] = incident;
  return row;
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

uint64_t SizeClass(uint64_t bytes) { return std::bit_floor(bytes); }

}  // namespace lockstep::archive
