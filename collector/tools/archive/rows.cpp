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

std::string CommClass(const std::string& name) {
  std::string klass;
  for (char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) klass.push_back(c);
    if (digit && (klass.empty() || klass.back() != '*')) klass.push_back('*');
  }
  return klass;
}

}  // namespace lockstep::archive
