// What the archive keeps of one incident folder, as rows of its tables. Folders may come from anybody: every field is
// checked, texts are cut, and there is an end to everything.
#ifndef LOCKSTEP_COLLECTOR_ARCHIVE_INCIDENT_ROWS_H_
#define LOCKSTEP_COLLECTOR_ARCHIVE_INCIDENT_ROWS_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::archive {

using Json = nlohmann::ordered_json;
// Called for each row; an error ends the making of rows.
using RowSink = std::function<absl::Status(const std::string& table, const Json& row)>;

// Of an incident, and of each of its rows. Deterministic: the same incident has the same identity wherever its folder
// lies.
struct IncidentName {
  std::string job, incident;  // incident: "JOB/STEP/RESTART/UID@TIME_NS"
  std::string day;            // "2026-11-22", UTC
  int64_t real_ns = 0;
  std::string step, tool_version;
  uint32_t restart_count = 0;
  void Begin(Json* row) const;  // day, at, job, incident
};

// From the folder's manifest. FailedPrecondition: it is not finished (yet); InvalidArgument: it is no incident folder.
absl::StatusOr<IncidentName> NameIncident(const std::string& folder);

// Rows of findings, culprits, creations and links from verdict.json, operations (and the links' hosts) from index.lsi
// where it is there; the row of incidents comes last: where it is, the others are. *notes: what was left out, one line
// each.
absl::Status MakeRows(const std::string& folder, const IncidentName& name, const RowSink& sink, std::string* notes);

// "dp_*" of "dp_17": communicators that differ in numbers alone are of one class.
std::string CommClass(const std::string& name);
// A file of at most `most` bytes, regular, not a link.
absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t most);

}  // namespace lockstep::archive

#endif  // LOCKSTEP_COLLECTOR_ARCHIVE_INCIDENT_ROWS_H_
