#pragma once

#include "analyzer/model/bundle.h"

namespace lockstep {

// Ranks whose recording was stopped (by a switch or the overhead budget), or whose process has since run another
// program (exec). What they did afterwards is unknown, so a missing record proves nothing. How their process ended is
// known anyway.
bool IsBlind(const Rank& rank);

// Returns the bundle without ranks whose recording was stopped. The reason becomes a problem in the bundle.
Bundle WithoutBlindRanks(const Bundle& bundle);

}  // namespace lockstep
