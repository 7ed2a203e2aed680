#pragma once

#include "analyzer/formats/format_reader.h"

namespace lockstep {

const FormatReader& FlightRecorderPickleFormat();
const FormatReader& FlightRecorderJsonFormat();
const FormatReader& FlightRecorderPackedFormat();

}  // namespace lockstep
