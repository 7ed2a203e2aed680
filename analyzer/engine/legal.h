#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/model.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// The first operation of a communicator connects its members, which takes time. While all members are in it, the job
// may be late, but is not hung. The same applies to an operation that no GPU has reached because computation is ahead
// of it. Removes such causes, and returns why each is not a hang yet.
std::vector<NotTheCause> TakeLegalOperations(const Model& model, int64_t late_after_ns, std::vector<Cause>* causes);

}  // namespace lockstep
