// The rows that the archive keeps of one incident folder. Folders are untrusted: every field is checked, texts are cut,
// and all counts are bounded.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/tools/archive/rows.h"

namespace lockstep::archive {

// Reads the folder's manifest. FailedPrecondition if the incident is not finished (yet), InvalidArgument if this is not
// an incident folder.
absl::StatusOr<IncidentName> NameIncident(const std::string& folder);

// Rows of findings, culprits, creations and links from verdict.json, and operations (with the links' hosts) from
// index.lsi if it exists. The row of incidents comes last, so its presence proves that the others exist. *notes gets
// one line for everything that was left out.
absl::Status MakeRows(const std::string& folder, const IncidentName& name, const RowSink& sink, std::string* notes);

}  // namespace lockstep::archive
