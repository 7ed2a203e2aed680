// Recordings for other tools: a trace for ui.perfetto.dev, Chrome's trace JSON, and CSV with one line per operation.
// Written rank by rank, so memory use does not depend on the size of the output.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct ExportOptions {
  std::vector<std::pair<int32_t, int32_t>> ranks;  // inclusive ranges of global ranks; empty for all
  int64_t around_stop_ns = -1;                     // only events within this time of the stop; -1: all
};

struct ExportCounts {
  int64_t ranks = 0, operations = 0;
  int64_t without_time = 0;  // operations without times; the CSV contains them, traces do not
  int64_t left_out = 0;      // overlapping operations for which no rows were left
  int64_t arrows = 0;
};

// The output. An error ends the export.
using ExportWriter = std::function<absl::Status(std::string_view)>;

absl::StatusOr<ExportCounts> ExportPerfetto(const Bundle& bundle, const Verdict& verdict, const ExportOptions& options,
                                            const ExportWriter& write);
// Writes the JSON object format: {"traceEvents": [...]}. Times are microseconds since the first event.
absl::StatusOr<ExportCounts> ExportChrome(const Bundle& bundle, const Verdict& verdict, const ExportOptions& options,
                                          const ExportWriter& write);
// Writes CSV as in RFC 4180, with a header line. Unknown values are empty cells.
absl::StatusOr<ExportCounts> ExportCsv(const Bundle& bundle, const Verdict& verdict, const ExportOptions& options,
                                       const ExportWriter& write);

using ExportFunction = absl::StatusOr<ExportCounts> (*)(const Bundle&, const Verdict&, const ExportOptions&,
                                                        const ExportWriter&);
struct ExportFormat {
  const char* name;  // the name of its option and setting, "csv"
  ExportFunction write;
};
// In the order in which they are written if several are requested.
constexpr ExportFormat kExportFormats[] = {{"perfetto", ExportPerfetto}, {"chrome", ExportChrome}, {"csv", ExportCsv}};

}  // namespace lockstep
