// The rows that the archive keeps of one incident folder. Folders are not trusted: every field is checked, texts are
// cut, and all counts are bounded.
#ifndef LOCKSTEP_COLLECTOR_ARCHIVE_INCIDENT_ROWS_H_
#define LOCKSTEP_COLLECTOR_ARCHIVE_INCIDENT_ROWS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/archive/rows.h"

namespace lockstep::archive {

// From the folder's manifest. FailedPrecondition: it is not finished (yet); InvalidArgument: it is no incident folder.
absl::StatusOr<IncidentName> NameIncident(const std::string& folder);

// Rows of findings, culprits, creations and links from verdict.json, and operations (with the links' hosts) from
// index.lsi if it exists. The row of incidents comes last: its presence proves that the others exist. *notes: what was
// left out, one line each.
absl::Status MakeRows(const std::string& folder, const IncidentName& name, const RowSink& sink, std::string* notes);

}  // namespace lockstep::archive

#endif  // LOCKSTEP_COLLECTOR_ARCHIVE_INCIDENT_ROWS_H_
