// Reads PyTorch's reports about ranks that made different calls or did not reach a barrier.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep::logs {

// "CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[20, 10], TensorDtypes=Float, ..)".
struct Fingerprint {
  int64_t seq = kUnknown;
  std::string op, shape, dtype;
  int64_t elements = -1;  // size of the first tensor; -1 if it has no shape or is too large
  bool operator==(const Fingerprint&) const = default;
};

// Ranks are numbers inside the group. Each rank compares its call with those of members 0, 1, .. and reports the first
// difference. So the members before `other` made the same call as `own`.
struct FingerprintLine {
  int32_t own = -1, other = -1;  // other is -1 if a release before 2.0 prints only the rank's own call
  Fingerprint own_call, other_call;
  bool of_job = false;  // the numbers are ranks of the job
};

std::optional<FingerprintLine> ParseFingerprints(std::string_view text);

// "[Rank 0]: Ranks 2, 5 failed to pass monitoredBarrier in 2000 ms", "Rank 3 successfully reached monitoredBarrier,
// ..". Also the report of TORCH_NCCL_DESYNC_DEBUG: "[2, 5] finished collective #8, but didn't join collective #9",
// "[0, 1] started allreduce".
struct BarrierLine {
  std::vector<int32_t> missing, arrived;
  bool of_report = false;  // the ranks are those of a group, which the line does not name
};
std::optional<BarrierLine> ParseBarrier(std::string_view text);

// "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1
// (world_size=8, worker_count=7, timeout=0:30:00)", "Rank 0: Completed store-based barrier for
// key:store_based_barrier_key:1 with 8 nodes". Ranks are those of the job.
struct StoreBarrierLine {
  std::string key;
  int32_t rank = -1, size = 0, count = 0;  // count: ranks that have joined
  bool passed = false;
};
std::optional<StoreBarrierLine> ParseStoreBarrier(std::string_view text);

}  // namespace lockstep::logs
