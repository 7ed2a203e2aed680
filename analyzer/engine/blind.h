#pragma once

#include "analyzer/model/bundle.h"

namespace lockstep {

// A rank whose recording was stopped (by a switch or its budget), or whose process runs another program since (exec).
// What it did after that is unknown, so a missing record proves nothing. How its process ended is known anyway.
bool IsBlind(const Rank& rank);

// Returns the bundle without ranks whose recording stopped. The reason becomes a problem of the bundle.
Bundle WithoutBlindRanks(const Bundle& bundle);

}  // namespace lockstep
