// Tells whether a rank that differs from ranks with the same role does so by design: its own communicators show that
// it made their calls like the other members.
#pragma once

#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/facts/program.h"

namespace lockstep {

// Returns whether the rank is the only member with data of the communicator in which it skipped or added a call, or in
// which it made a collective instead. If so, the other members may do the same by design.
bool IsAlone(const Model& model, const Divergence& d);

// Returns whether the members of the rank's communicators made the calls in question like this rank. `hung` is set if
// the job hangs.
bool IsByDesign(const Model& model, const Divergence& d, bool hung);

}  // namespace lockstep
