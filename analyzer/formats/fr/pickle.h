// A restricted pickle reader. It accepts only the opcodes of protocols 2 to 5 that carry data, and none that can name
// or call code.
#pragma once

#include <string_view>

#include "analyzer/formats/fr/value.h"

namespace lockstep::fr {

// Reads the pickle in `bytes` into `document`. The document's strings point into `bytes`. Refuses the file at the first
// opcode that could run code. Truncation and damage stop the reading, but complete data remains usable (see
// ParseError). Iterative. Every length is checked against the remaining bytes before use; time and memory are linear in
// the size of `bytes`.
ParseError ParsePickle(std::string_view bytes, Document* document);

}  // namespace lockstep::fr
