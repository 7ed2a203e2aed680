// Pauses that make healthy jobs look hung: a slow first step, a checkpoint, an evaluation, compiling, reading.
#pragma once

#include "tests/workload/options.h"
#include "tests/workload/trainer.h"

namespace trainsim {

// Occupies the CPU thread for `seconds`, one sixth of that on the CPU.
void SlowStart(double seconds);

// Writes to an unnamed temporary file for `seconds`.
void WriteCheckpoint(double seconds);

// Plays this rank's pauses and recreates its data group, if they are due after `step` (0: before the first step).
void PauseAfter(const Options& options, int rank, int step, Trainer* trainer);

}  // namespace trainsim
