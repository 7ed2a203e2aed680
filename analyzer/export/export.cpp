#include "analyzer/export/export.h"

namespace lockstep {

absl::Span<const ExportFormat> ExportFormats() {
  static constexpr ExportFormat kFormats[] = {
      {"perfetto", ExportPerfetto},
      {"chrome", ExportChrome},
      {"csv", ExportCsv},
  };
  return kFormats;
}

}  // namespace lockstep
