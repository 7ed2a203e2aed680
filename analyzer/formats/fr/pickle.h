// A restricted pickle reader: the opcodes of protocols 2 to 5 that carry data, and none that could name or call code.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_PICKLE_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_PICKLE_H_

#include <string_view>

#include "analyzer/formats/fr/value.h"

namespace lockstep::fr {

class EntryReader;

// Reads the pickle in `bytes` into `document`, whose strings then point into `bytes`. An opcode that could run code
// refuses the file. Truncation and damage end the reading; what was complete stays usable (see ParseError). Iterative,
// every length checked against the bytes left before use; time and memory are linear in the size of `bytes`.
ParseError ParsePickle(std::string_view bytes, Document* document);

enum class Streaming {
  kDone,    // the entries went to the EntryReader, all else is in the document
  kNone,    // the document contains everything: there is no list of entries
  kFailed,  // neither is usable
};

// The same, quicker, for a whole and sound dump with entries of the usual form, which PyTorch and Python's pickle
// module write: these do not become values but go to `entries`, one by one. Anything unusual is kFailed, and
// ParsePickle's business.
Streaming StreamPickle(std::string_view bytes, Document* document, EntryReader* entries);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_PICKLE_H_
