#ifndef LOCKSTEP_ANALYZER_FORMATS_LOGS_FORMAT_READER_H_
#define LOCKSTEP_ANALYZER_FORMATS_LOGS_FORMAT_READER_H_

#include "analyzer/formats/format_reader.h"

namespace lockstep {

// `py-spy dump --json`. Asked before other JSON, which begins alike.
const FormatReader& PySpyJsonFormat();
// Any text: logs of jobs and printed stacks. Asked last.
const FormatReader& TextFormat();

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_LOGS_FORMAT_READER_H_
