// The JSON variant of a Flight Recorder dump, into the same values as the pickle.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_JSON_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_JSON_H_

#include <string_view>

#include "analyzer/formats/fr/value.h"

namespace lockstep::fr {

// Deeper nesting than this is damage: the format has six levels.
constexpr size_t kMaxJsonDepth = 64;

// Like ParsePickle: iterative, bounded; data before damage stays usable.
ParseError ParseJson(std::string_view bytes, Document* document);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_JSON_H_
