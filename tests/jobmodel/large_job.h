// The step of a large job, and the places where its ranks stop when one hangs. Tensor parallelism is 8, inside a node.
// There are pipeline (1F1B), data-parallel, embedding and world groups.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/jobmodel/step.h"

namespace lockstep::jobmodel {

constexpr int kLargeJobTp = 8;  // ranks per node

// Each lane numbers its own calls.
enum Lane { kTpLane, kDpLane, kEmbLane, kWorldLane, kSendNext, kSendPrev, kRecvNext, kRecvPrev, kLanes };
constexpr bool Collective(int lane) { return lane <= kWorldLane; }
// Stream 0 is tensor parallel, 1 is the pipeline, 2 has the rest.
constexpr int kLaneStreams = 3;
constexpr int LaneStream(int lane) { return lane == kTpLane ? 0 : lane >= kSendNext ? 1 : 2; }

// The calls of one stage's step. A position counts calls since the first step.
struct StageProgram {
  std::vector<Call> calls;
  std::vector<Lane> lanes;  // the lane of each call
  std::vector<std::array<int64_t, kLanes>>
      before;  // number of calls on the same lane before each call; the last entry covers the whole step

  int64_t length() const { return static_cast<int64_t>(calls.size()); }
  // Returns the number of the lane's calls before the position.
  int64_t Count(int64_t position, int lane) const;
};
std::vector<StageProgram> LargeJobPrograms(int stages, int micro_batches);

// The number of calls that complete in the step, by stage, if a rank of stage `culprit` never reaches its call `stop`:
// in that rank's replica, and in the others.
struct Stalled {
  std::vector<int64_t> here, elsewhere;
};
Stalled PlayStall(const std::vector<StageProgram>& programs, int culprit, int64_t stop);

// A hash that generates the values that differ between ranks.
constexpr uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace lockstep::jobmodel
