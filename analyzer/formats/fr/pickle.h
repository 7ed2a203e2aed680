// A restricted pickle reader: it knows the opcodes of protocols 2 to 5 that carry data, and none that could name or
// call code.
#pragma once

#include <string_view>

#include "analyzer/formats/fr/value.h"

namespace lockstep::fr {

class EntryReader;

// Reads the pickle in `bytes` into `document`, whose strings then point into `bytes`. Refuses the file at an opcode
// that could run code. Truncation and damage end the reading; complete data stays usable (see ParseError). Iterative;
// every length is checked against the remaining bytes before use; time and memory are linear in the size of `bytes`.
ParseError ParsePickle(std::string_view bytes, Document* document);

enum class Streaming {
  kDone,    // the entries went to the EntryReader; everything else is in the document
  kNone,    // the document contains everything: there is no list of entries
  kFailed,  // neither is usable
};

// The same, but faster, for a complete and sound dump with entries in the usual form, which PyTorch and Python's pickle
// module write. The entries go to `entries` one by one instead of becoming values. Returns kFailed for anything
// unusual; then use ParsePickle.
Streaming StreamPickle(std::string_view bytes, Document* document, EntryReader* entries);

}  // namespace lockstep::fr
