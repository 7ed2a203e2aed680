// Rows of the archive's tables, and the columns with which each row of an incident starts.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"

namespace lockstep::archive {

// The start of the years 2000 and 2100. The archive refuses times outside this range.
constexpr int64_t kEarliestSecond = 946'684'800, kLatestSecond = 4'102'444'800;

using Json = nlohmann::ordered_json;
// Called for each row; an error stops the caller.
using RowSink = std::function<absl::Status(const std::string& table, const Json& row)>;

// Identifies an incident, and each of its rows. It does not depend on the folder's path.
struct IncidentName {
  std::string job, incident;  // incident: "JOB/STEP/RESTART/UID@TIME_NS"
  std::string day;            // as "2026-11-22", in UTC
  int64_t real_ns = 0;
  std::string step, tool_version;
  std::string cluster;  // empty if unknown
  uint32_t restart_count = 0;
  Json NewRow() const;  // has the columns day, at, cluster, job, incident
};

// Returns the value on one line, in ASCII.
std::string Dump(const Json& json);

// Returns the size rounded down to a power of two; 0 for 0.
uint64_t SizeClass(uint64_t bytes);

}  // namespace lockstep::archive
