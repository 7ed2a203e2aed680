#ifndef LOCKSTEP_ANALYZER_FORMATS_RING_FORMAT_READER_H_
#define LOCKSTEP_ANALYZER_FORMATS_RING_FORMAT_READER_H_

#include "analyzer/formats/format_reader.h"

namespace lockstep {

const FormatReader& RingFormat();

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_RING_FORMAT_READER_H_
