// Lists ranks that are in a checkpoint, by the file system that they write to.
#pragma once

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Sets Verdict::checkpoint: at most 16 mounts, those with the most ranks first. A rank is in a checkpoint if its stack
// or open files show it (facts/activity.h). The mount is known if the checkpoint's file was open when the process was
// sampled.
void AddCheckpoints(const Bundle& bundle, Verdict* verdict);

}  // namespace lockstep
