// The rows that the archive stores for one incident folder. Folders are untrusted: every field is checked, texts are
// truncated, and all counts are limited.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/tools/archive/rows.h"

namespace lockstep::archive {

// Reads the folder's manifest. FailedPrecondition if the incident is unfinished, InvalidArgument if this is not an
// incident folder.
absl::StatusOr<IncidentName> NameIncident(const std::string& folder);

// Makes rows of findings, culprits, creations, links and speeds from verdict.json, and rows of operations (with the
// links' hosts) from index.lsi if it exists. The incident's own row comes last, so its presence proves that the others
// exist. Adds a line to *notes for each kind of rows of which some are left out.
absl::Status MakeRows(const std::string& folder, const IncidentName& name, const RowSink& sink, std::string* notes);

}  // namespace lockstep::archive
