// Reports what the records cannot show. A verdict that names no rank does not call the job healthy if a hang would
// leave the same recording.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Adds an entry of this kind that names `ranks` (global ranks). Returns its detail, for further fields.
Detail* AddNotSeen(NotSeen::Kind kind, const std::vector<int32_t>& ranks, Verdict* verdict);

// For a job without recorded calls: lists and returns the global ranks whose stacks could not be read. Adds the first
// reason.
std::vector<int32_t> SayWhatWasRefused(const Bundle& bundle, Verdict* verdict);

// For a verdict that names no rank: lists the hangs that would leave the same recording. The job is then not called
// healthy.
void SayWhatIsNotSeen(const Model& model, int64_t late_after_ns, Verdict* verdict);

// Lists NCCL libraries that are newer than the recorder supports, or that have unsupported functions. Names such
// functions, which the job may have called without a record.
void SayWhatIsNotWrapped(const Bundle& bundle, Verdict* verdict);

// Lists ranks whose rings are smaller than requested, or only in memory, because the file system was full.
void SayWhatHadNoRoom(const std::vector<Rank>& ranks, Verdict* verdict);

}  // namespace lockstep
