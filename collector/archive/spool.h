// Incidents as rows on disk, between their folder and the server: those that wait while the server is away, and
// unfinished ones after a kill. One file an incident, complete or absent. Any number of processes may use one folder.
#ifndef LOCKSTEP_COLLECTOR_ARCHIVE_SPOOL_H_
#define LOCKSTEP_COLLECTOR_ARCHIVE_SPOOL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/archive/incident_rows.h"

namespace lockstep::archive {

class Spool {
 public:
  // Creates the folder (0700). Removes unfinished files in it that are older than an hour.
  static absl::StatusOr<Spool> Open(const std::string& folder, uint64_t most_bytes);

  // Writes the rows from `make`. ResourceExhausted: the spool is full, and the incident stays in its folder.
  absl::Status Put(const IncidentName& name, const std::function<absl::Status(const RowSink&)>& make);
  bool Has(const IncidentName& name) const;
  // Paths, oldest incident first.
  std::vector<std::string> Files() const;
  static void Remove(const std::string& path);
  // An invalid file is kept under another name, for inspection.
  static void SetAside(const std::string& path);
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  uint64_t most_bytes_ = 0;
  std::string PathOf(const IncidentName& name) const;
};

// Rows of one table, at most `most_bytes` together and at least one, in the file's order.
struct SpooledBatch {
  std::string table, rows;
};
class SpoolReader {
 public:
  // The incident's identity is in the first line. DataLoss: not such a file.
  static absl::StatusOr<SpoolReader> Open(const std::string& path);
  ~SpoolReader();
  SpoolReader(SpoolReader&& other) noexcept;
  SpoolReader& operator=(SpoolReader&&) = delete;

  const std::string& incident() const { return incident_; }
  // An empty table: the end.
  absl::StatusOr<SpooledBatch> Next(size_t most_bytes);

 private:
  SpoolReader() = default;
  bool Line(std::string* line);

  FILE* file_ = nullptr;
  std::string incident_, held_;
  bool has_held_ = false;
};

}  // namespace lockstep::archive

#endif  // LOCKSTEP_COLLECTOR_ARCHIVE_SPOOL_H_
