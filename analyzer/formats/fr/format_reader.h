#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_FORMAT_READER_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_FORMAT_READER_H_

#include "analyzer/formats/format_reader.h"

namespace lockstep {

const FormatReader& FlightRecorderPickleFormat();
const FormatReader& FlightRecorderJsonFormat();
const FormatReader& FlightRecorderPackedFormat();

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_FORMAT_READER_H_
