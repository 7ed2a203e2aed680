#include "analyzer/export/export.h"

namespace lockstep {

absl::Span<const ExportFormat> ExportFormats() {
  static constexpr ExportFormat kFormats[] = {
      {"perfetto", ".pftrace", ExportPerfetto},
      {"chrome", ".json", ExportChrome},
      {"csv", ".csv", ExportCsv},
  };
  return kFormats;
}

}  // namespace lockstep
