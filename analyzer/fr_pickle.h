// A restricted pickle reader: the opcodes of protocols 2 to 5 that carry data, and nothing that could name or call
// code.
#ifndef LOCKSTEP_ANALYZER_FR_PICKLE_H_
#define LOCKSTEP_ANALYZER_FR_PICKLE_H_

#include <string_view>

#include "analyzer/fr_value.h"

namespace lockstep::fr {

// Reads the pickle in `bytes` into `document`, whose strings then point into `bytes`. An opcode that could run code
// refuses the file. Truncation and damage end the reading; what was complete stays usable (see ParseError). Iterative,
// every length checked against the bytes left before use; time and memory are linear in the size of `bytes`.
ParseError ParsePickle(std::string_view bytes, Document* document);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FR_PICKLE_H_
