// Merges two readings of one ring, and computes how much memory a reading takes.
#pragma once

#include <cstddef>

#include "recorder/ring/snapshot.h"

namespace lockstep {

// Returns the memory size of a snapshot, without texts.
size_t SnapshotBytes(const ring::Snapshot& snapshot);

// Adds to `into` the operations of `earlier` (a previous read of the same ring) that the ring has overwritten since. If
// both readings have an operation, the later reading wins.
void MergeEarlierOps(const ring::Snapshot& earlier, ring::Snapshot* into);

// `last` was read when the process exited, `later` after that. Adds the GPU progress in between to `last`, marked as
// late.
void AddLateMarks(const ring::Snapshot& later, ring::Snapshot* last);

}  // namespace lockstep
