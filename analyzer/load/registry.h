// The dump formats that Lockstep reads.
#ifndef LOCKSTEP_ANALYZER_LOAD_REGISTRY_H_
#define LOCKSTEP_ANALYZER_LOAD_REGISTRY_H_

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "analyzer/formats/format_reader.h"

namespace lockstep {

// In the order of detection and reading.
absl::Span<const FormatReader* const> Formats();

struct Detected {
  const FormatReader* format = nullptr;  // null: no format accepts the file
  Claim claim = Claim::kNo;
};
// The format that is certain of a file with this `head`, else the first that is possible.
Detected Detect(std::string_view head);

// The list of tried formats for an unrecognized file, with their first bytes.
std::string FormatsTried();

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_LOAD_REGISTRY_H_
