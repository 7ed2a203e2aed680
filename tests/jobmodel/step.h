// The program of one training step as plain data: the order in which a pipeline stage runs its micro-batches, and the
// calls that a rank issues.
#pragma once

#include <cstdint>
#include <vector>

#include "recorder/ring/calls.h"
#include "tests/jobmodel/layout.h"

namespace lockstep::jobmodel {

enum class Schedule {
  kForwardFirst,           // all forward passes, then all backward passes
  kOneForwardOneBackward,  // 1F1B
  kInterleaved,            // Megatron's: each stage holds several chunks of the model
};

// A stage's next action: a pass of one micro-batch, or a batch of sends and receives with the neighboring stages.
struct Turn {
  enum Kind { kForward, kBackward, kExchange };
  Kind kind = kForward;
  // The sends and receives of an exchange, in issue order. "Forward" means activations, "backward" means gradients.
  bool send_backward = false, recv_forward = false, send_forward = false, recv_backward = false;
};
// `chunks` is for kInterleaved, which also needs a multiple of `stages` micro-batches.
std::vector<Turn> TurnsOf(Schedule schedule, int stage, int stages, int micro_batches, int chunks = 1);

struct Call {
  Family family = Family::kWorld;
  ring::CallKind kind = ring::CallKind::kNone;
  int64_t count = 0;  // number of elements
  uint8_t datatype = 7;
  uint8_t reduction = ring::kNoReduction;
  int32_t root_or_peer = -1;  // member rank of the group
  uint64_t site = 0;
};

struct Step {
  Schedule schedule = Schedule::kForwardFirst;
  int micro_batches = 1;
  std::vector<Call> forward, backward;  // calls of one micro-batch
  // The data that stages exchange. The sites are those of Turn's exchanges, in the same order.
  int64_t exchange_count = 0;
  uint8_t exchange_datatype = 7;
  uint64_t exchange_sites[4] = {};
  std::vector<Call> end;  // calls after the last micro-batch
};
// Omits calls on kEmb if the stage is in no embedding group.
std::vector<Call> CallsOf(const Step& step, int stage, int stages);

}  // namespace lockstep::jobmodel
