// Shows what a stuck process is doing, from samples taken outside it. A sample contains the process's stacks, the
// kernel function that it sleeps in, its open files, its CPU use and its I/O. The rules match names; missing data
// proves nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/evidence/activity_rules.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

enum class Moving : uint8_t { kUnknown, kNo, kYes };

struct ActivityView {
  Stall stall = Stall::kUnknown;
  Moving moving = Moving::kUnknown;
  bool uninterruptible = false;  // a thread of the process is in uninterruptible sleep (D)
  // Evidence of kinds ACTIVITY and MOTION, without the rank. The kind is FACT if `stall` or `moving` is unknown.
  Evidence evidence, motion;
};

// Finding::activity: "checkpoint", "storage", ...; empty for kUnknown.
const char* StallName(Stall stall);
// Finding::moving: "moving", "not moving"; empty for kUnknown.
const char* MovingName(Moving moving);

ActivityView ClassifyActivity(const Process& process);

// Returns the index in Process::written_files of the first file whose name marks it as a checkpoint, or the number of
// files if there is none.
size_t CheckpointFile(const Process& process);
// Returns the mount of that file, such as "/ckpt (nfs4)"; empty if unknown.
std::string MountOfCheckpoint(const Process& process);

// Returns whether one fault may stall both ranks: they show the same activity, one shows none, or both wait for files.
bool SameStall(Stall a, Stall b);

// Fills activity, moving and their evidence from the samples of `ranks` (indexes into Bundle::ranks). If they wait for
// files: names the host if they are on one host, counts the hosts if they are on several, and lowers the grade if data
// of a host's ranks is missing.
void DescribeStall(const Bundle& bundle, const std::vector<int32_t>& ranks, Finding* finding);

}  // namespace lockstep
