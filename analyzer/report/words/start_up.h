// English for the start of a job.
#pragma once

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// What a rank does in a phase, as a phrase. StartUpPhase::name is the one-word name for tables and programs.
std::string PhaseText(const std::string& name);

// Fills the text, and the names of the communicators that were created.
void PutIntoWords(StartUp* start);

}  // namespace lockstep
