// What the archive keeps of one incident folder, as rows of its tables. Folders may come from anybody: every field is
// checked, texts are cut, and there is an end to everything.
#ifndef LOCKSTEP_COLLECTOR_ARCHIVE_INCIDENT_ROWS_H_
#define LOCKSTEP_COLLECTOR_ARCHIVE_INCIDENT_ROWS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/archive/rows.h"

namespace lockstep::archive {

// From the folder's manifest. FailedPrecondition: it is not finished (yet); InvalidArgument: it is no incident folder.
absl::StatusOr<IncidentName> NameIncident(const std::string& folder);

// Rows of findings, culprits, creations and links from verdict.json, operations (and the links' hosts) from index.lsi
// where it is there; the row of incidents comes last: where it is, the others are. *notes: what was left out, one line
// each.
absl::Status MakeRows(const std::string& folder, const IncidentName& name, const RowSink& sink, std::string* notes);

}  // namespace lockstep::archive

#endif  // LOCKSTEP_COLLECTOR_ARCHIVE_INCIDENT_ROWS_H_
