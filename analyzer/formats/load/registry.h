// The dump formats that Lockstep reads.
#pragma once

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "analyzer/formats/format_reader.h"

namespace lockstep {

// Returns all readers, in the order in which they detect and read files.
absl::Span<const FormatReader> Formats();

// Returns the first format that claims a file with this `head`; null if there is none.
const FormatReader* Detect(std::string_view head);

// Returns the formats tried for an unrecognized file, each with its first bytes.
std::string FormatsTried();

}  // namespace lockstep
