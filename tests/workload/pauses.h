// Pauses that make healthy jobs look hung: a slow start, a checkpoint, an evaluation, compilation, reading.
#pragma once

#include "tests/workload/options.h"
#include "tests/workload/trainer.h"

namespace trainsim {

// Blocks the CPU thread for `seconds`; a sixth of the time is computation.
void SlowStart(double seconds);

// Writes to an unnamed temporary file for `seconds`.
void WriteCheckpoint(double seconds);

// Plays what is due after `step` (0: before the first step): recreates the data group, or plays a pause of this rank.
void PauseAfter(const Options& options, int rank, int step, Trainer* trainer);

}  // namespace trainsim
