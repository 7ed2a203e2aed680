// The step of a large job and where its ranks stop when one of them hangs: tensor parallel 8 inside a node, pipeline
// (1F1B), data parallel, an embedding group and the world.
#ifndef LOCKSTEP_TESTS_JOBMODEL_LARGE_JOB_H_
#define LOCKSTEP_TESTS_JOBMODEL_LARGE_JOB_H_

#include <array>
#include <cstdint>
#include <vector>

#include "tests/jobmodel/step.h"

namespace lockstep::jobmodel {

constexpr int kLargeJobTp = 8;  // ranks of a node

// Calls of one lane are numbered together.
enum Lane { kTpLane, kDpLane, kEmbLane, kWorldLane, kSendNext, kSendPrev, kRecvNext, kRecvPrev, kLanes };
constexpr bool Collective(int lane) {
  return lane <= kWorldLane;
}
// Streams: 0 tensor parallel, 1 pipeline, 2 the rest.
constexpr int kLaneStreams = 3;
constexpr int LaneStream(int lane) {
  return lane == kTpLane ? 0 : lane >= kSendNext ? 1 : 2;
}

// The calls of one stage's step. A position counts calls from the first step on.
struct StageProgram {
  std::vector<Call> calls;
  std::vector<Lane> lanes;                          // by call
  std::vector<std::array<int64_t, kLanes>> before;  // calls of the lane before each call; at the end those of the step

  int64_t length() const { return static_cast<int64_t>(calls.size()); }
  // Calls of the lane before the position.
  int64_t Count(int64_t position, int lane) const;
};
// By stage.
std::vector<StageProgram> LargeJobPrograms(int stages, int micro_batches);

// The calls of the step that complete, by stage, if a rank of stage `culprit` never reaches its call `stop`: in the
// replica of that rank, and in the others.
struct Stalled {
  std::vector<int64_t> here, elsewhere;
};
Stalled PlayStall(const std::vector<StageProgram>& programs, int culprit, int64_t stop);

// A hash with which such jobs make up what differs between ranks.
constexpr uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace lockstep::jobmodel

#endif  // LOCKSTEP_TESTS_JOBMODEL_LARGE_JOB_H_
