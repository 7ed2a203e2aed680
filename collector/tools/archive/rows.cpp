#include "collector/tools/archive/rows.h"

#include <bit>

namespace lockstep::archive {

void IncidentName::Begin(Json* row) const {
  (*row)["day"] = day;
  (*row)["at"] = real_ns / 1'000'000'000;
  (*row)["cluster"] = cluster;
  (*row)["job"] = job;
  (*row)["incident"] = incident;
}

uint64_t SizeClass(uint64_t bytes) { return std::bit_floor(bytes); }

}  // namespace lockstep::archive
