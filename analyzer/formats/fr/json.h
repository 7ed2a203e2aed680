// Parses the JSON variant of a Flight Recorder dump into the same values as a pickle.
#pragma once

#include <string_view>

#include "analyzer/formats/fr/value.h"

namespace lockstep::fr {

// Deeper nesting is damage, because the format has only six levels.
constexpr size_t kMaxJsonDepth = 64;

// Like ParsePickle: iterative, bounded, and keeps data that precedes any damage.
ParseError ParseJson(std::string_view bytes, Document* document);

}  // namespace lockstep::fr
