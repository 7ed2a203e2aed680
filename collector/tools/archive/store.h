// The archive's tables on the server: creates them, inserts rows, and runs queries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/tools/archive/http.h"

namespace lockstep::archive {

constexpr int kSchemaVersion = 2;
constexpr size_t kMostAnswerBytes = size_t{16} << 20;

struct Answer {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // values as text
  std::vector<bool> numeric;                   // one entry per column
};

// One thread uses this object. Errors are those of Http.
class Store {
 public:
  explicit Store(Http* http) : http_(http) {}

  // Creates the database and the missing tables. FailedPrecondition if the schema is newer than this program.
  absl::Status Prepare();
  absl::StatusOr<bool> Has(const std::string& incident, const std::string& job);
  // Inserts rows as JSON, one per line. Repeated rows become one after a merge; readers with FINAL see one at once.
  absl::Status Insert(const std::string& table, const std::string& rows);
  // Merges repeated rows of this day ("2026-11-22") now, so sums over many days do not compare rows.
  absl::Status Merge(const std::string& table, const std::string& day);
  // Runs a read-only statement.
  absl::StatusOr<Answer> Ask(const std::string& statement, int64_t limit_ms);

 private:
  Http* http_;
};

// Returns 'text' as a ClickHouse SQL literal, for any bytes.
std::string Quoted(const std::string& text);
// Parses FORMAT JSONCompact. DataLoss for anything else.
absl::StatusOr<Answer> ParseAnswer(const std::string& text);

}  // namespace lockstep::archive
