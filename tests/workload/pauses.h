// What makes healthy jobs look hung: a slow first step, a checkpoint, an evaluation, compiling, reading.
#ifndef LOCKSTEP_TESTS_WORKLOAD_PAUSES_H_
#define LOCKSTEP_TESTS_WORKLOAD_PAUSES_H_

#include "tests/workload/options.h"
#include "tests/workload/trainer.h"

namespace trainsim {

// The host is busy for `seconds`, a sixth of the time on the CPU.
void SlowStart(double seconds);

// Writes to a temporary file without a name for `seconds`.
void WriteCheckpoint(double seconds);

// Plays the pauses due after `step` (0: before the first) on this rank.
void PauseAfter(const Options& options, int rank, int step, Trainer* trainer);

}  // namespace trainsim

#endif  // LOCKSTEP_TESTS_WORKLOAD_PAUSES_H_
