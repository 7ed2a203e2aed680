// A folder with one file per incident, which has the rows for the server. Files are complete or do not exist. Any
// number of processes may share the folder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/tools/archive/incident_rows.h"

namespace lockstep::archive {

class Spool {
 public:
  // Creates the folder (0700). Removes unfinished files that are older than an hour.
  static absl::StatusOr<Spool> Open(const std::string& folder, uint64_t most_bytes);

  // Writes the rows that `make` produces. ResourceExhausted if the spool is full; the incident then stays in its
  // folder.
  absl::Status Put(const IncidentName& name, const std::function<absl::Status(const RowSink&)>& make);
  bool Has(const IncidentName& name) const;
  // Returns the files' paths, oldest incident first.
  std::vector<std::string> Files() const;
  static void Remove(const std::string& path);
  // Renames an invalid file, for inspection.
  static void SetAside(const std::string& path);
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  uint64_t most_bytes_ = 0;
  std::string PathOf(const IncidentName& name) const;
};

// Rows of one table in the file's order: at least one row, at most `most_bytes` in total.
struct SpooledBatch {
  std::string table, rows;
};
class SpoolReader {
 public:
  // The first line contains the incident's identity. NotFound if the file is gone; DataLoss if it is invalid.
  static absl::StatusOr<SpoolReader> Open(const std::string& path);

  const std::string& incident() const { return incident_; }
  // Returns an empty table at the end.
  absl::StatusOr<SpooledBatch> Next(size_t most_bytes);

 private:
  struct Close {
    void operator()(FILE* file) const { fclose(file); }
  };
  SpoolReader() = default;
  bool Line(std::string* line);

  std::unique_ptr<FILE, Close> file_;
  std::string incident_, held_;
  bool has_held_ = false;
};

}  // namespace lockstep::archive
