// The dump formats that Lockstep reads.
#pragma once

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "analyzer/formats/format_reader.h"

namespace lockstep {

// Returns all readers, in the order in which they detect and read files.
absl::Span<const FormatReader* const> Formats();

struct Detected {
  const FormatReader* format = nullptr;  // null if no format accepts the file
  Claim claim = Claim::kNo;
};
// Returns the format that is certain for a file with this `head`, otherwise the first possible format.
Detected Detect(std::string_view head);

// Returns the formats tried for an unrecognized file, each with its first bytes.
std::string FormatsTried();

}  // namespace lockstep
