#ifndef LOCKSTEP_ANALYZER_FORMATS_LSD_FORMAT_READER_H_
#define LOCKSTEP_ANALYZER_FORMATS_LSD_FORMAT_READER_H_

#include "analyzer/formats/format_reader.h"

namespace lockstep {

const FormatReader& LsdFormat();

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_LSD_FORMAT_READER_H_
