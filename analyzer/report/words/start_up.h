// English for the start of a job.
#pragma once

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// What a rank does in a phase: StartUpPhase::name has one word for tables and programs.
std::string PhaseText(const std::string& name);

// Fills the text, and the name of each communicator that was created.
void PutIntoWords(StartUp* start);

}  // namespace lockstep
