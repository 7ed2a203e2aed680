// Merges two readings of one ring, and computes the memory of a reading.
#pragma once

#include <cstddef>

#include "recorder/ring/snapshot.h"

namespace lockstep {

// The memory of a snapshot, without texts.
size_t SnapshotBytes(const ring::Snapshot& snapshot);

// Adds to `into` those operations of `earlier` (the same ring, read before) that the ring has overwritten since.
// Operations with the same thread and index are the same; the later reading wins.
void MergeEarlierOps(const ring::Snapshot& earlier, ring::Snapshot* into);

// Adds to `last` the GPU's progress since the last reading of a dead process's ring, marked as late.
void AddLateMarks(const ring::Snapshot& later, ring::Snapshot* last);

}  // namespace lockstep
