#pragma once

#include "analyzer/formats/format_reader.h"

namespace lockstep {

const FormatReader& RingFormat();

}  // namespace lockstep
