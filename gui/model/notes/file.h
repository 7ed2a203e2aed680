// Reads and writes the notes file of an incident. The file is untrusted.
#pragma once

#include <QString>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/model/rank_set.h"

namespace lockstep::gui {

struct Mark {
  QString text;
  QString made;  // creation time, ISO 8601, UTC
  Ranks ranks;
  QString comm;  // the communicator's ID, which stays the same if the index is created again; empty if there is none
  int64_t seq_first = -1, seq_last = -1;
  int64_t time_begin = 0, time_end = -1;
  int32_t record_rank = -1;
  int64_t record = -1;
  bool operator==(const Mark&) const = default;
};

// At most kMostMarks marks with at most kMostMarkText characters each.
struct Notes {
  std::vector<Mark> marks;
  bool operator==(const Notes&) const = default;
};
constexpr size_t kMostMarks = 10'000;
constexpr qsizetype kMostMarkText = 4'000;

std::string NotesPath(const std::vector<std::string>& paths);  // empty if nothing was opened
// A missing file means no notes. Errors: DataLoss (not a notes file, damaged, too large), FailedPrecondition (a newer
// version). After an error, the file must not be overwritten.
absl::StatusOr<Notes> ReadNotes(const std::string& path);
// Writes the whole file or nothing. Without marks, removes the file.
absl::Status WriteNotes(const std::string& path, const Notes& notes);

}  // namespace lockstep::gui
