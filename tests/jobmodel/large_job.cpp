#include "tests/jobmodel/large_job.h"

#include <algorithm>

namespace lockstep::jobmodel {
namespace {

using ring::CallKind;

constexpr int kLayers = 3, kBuckets = 4;
constexpr uint8_t kBfloat16 = 9;

Step LargeStep(int micro_batches) {
  Step step;
  step.schedule = Schedule::kOneForwardOneBackward;
  step.micro_batches = micro_batches;
  for (int i = 0; i < 2 * kLayers; ++i) {
    step.forward.push_back({Family::kTp, CallKind::kAllGather, 4'194'304, kBfloat16});
    step.forward.push_back({Family::kTp, CallKind::kReduceScatter, 4'194'304, kBfloat16, 0});
  }
  step.backward = step.forward;
  step.exchange_count = 8'388'608;
  step.exchange_datatype = kBfloat16;
  for (int i = 0; i < kBuckets; ++i)
    step.end.push_back({Family::kDp, CallKind::kReduceScatter, 41'943'040, kBfloat16, 0});
  step.end.push_back({Family::kEmb, CallKind::kAllReduce, 67'108'864, kBfloat16, 0});
  step.end.push_back({Family::kWorld, CallKind::kAllReduce, 1, kBfloat16, 0});
  for (int i = 0; i < kBuckets; ++i) step.end.push_back({Family::kDp, CallKind::kAllGather, 41'943'040, kBfloat16});
  return step;
}

Lane LaneOf(const Call& call, int stage) {
  switch (call.family) {
    case Family::kTp: return kTpLane;
    case Family::kDp: return kDpLane;
    case Family::kEmb: return kEmbLane;
    case Family::kPp:
      if (call.kind == CallKind::kSend) return call.root_or_peer > stage ? kSendNext : kSendPrev;
      return call.root_or_peer > stage ? kRecvNext : kRecvPrev;
    default: return kWorldLane;
  }
}

}  // namespace

int64_t StageProgram::Count(int64_t position, int lane) const {
  const auto at = static_cast<size_t>(lane);
  return position / length() * before.back()[at] + before[static_cast<size_t>(position % length())][at];
}

std::vector<StageProgram> LargeJobPrograms(int stages, int micro_batches) {
  const Step step = LargeStep(micro_batches);
  std::vector<StageProgram> programs;
  for (int stage = 0; stage < stages; ++stage) {
    StageProgram program;
    program.calls = CallsOf(step, stage, stages);
    program.before.emplace_back();
    for (const Call& call : program.calls) {
      program.lanes.push_back(LaneOf(call, stage));
      program.before.push_back(program.before.back());
      ++program.before.back()[program.lanes.back()];
    }
    programs.push_back(std::move(program));
  }
  return programs;
}

Stalled PlayStall(const std::vector<StageProgram>& programs, int culprit, int64_t stop) {
  Stalled stalled;
  stalled.here.assign(programs.size(), 0);
  for (const StageProgram& program : programs) {
    stalled.elsewhere.push_back(std::find(program.lanes.begin(), program.lanes.end(), kDpLane) - program.lanes.begin());
  }
  const auto done = [&](size_t stage, Lane lane) {
    return programs[stage].before[static_cast<size_t>(stalled.here[stage])][lane];
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < programs.size(); ++stage) {
      for (;;) {
        int64_t& at = stalled.here[stage];
        const Lane lane = programs[stage].lanes[static_cast<size_t>(at)];
        if (lane == kDpLane || (static_cast<int>(stage) == culprit && at == stop)) break;
        if (lane == kRecvPrev && done(stage - 1, kSendNext) <= done(stage, kRecvPrev)) break;
        if (lane == kRecvNext && done(stage + 1, kSendPrev) <= done(stage, kRecvNext)) break;
        ++at;
        moved = true;
      }
    }
  }
  return stalled;
}

}  // namespace lockstep::jobmodel
