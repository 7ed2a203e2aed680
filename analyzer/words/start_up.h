// English for the start of a job.
#pragma once

#include "proto/verdict.pb.h"

namespace lockstep {

// Fills the text and the names of what each creation made.
void PutIntoWords(StartUp* start);

}  // namespace lockstep
