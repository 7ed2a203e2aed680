// The program of one training step, as plain data: the order in which a pipeline stage runs its micro-batches, and the
// calls that a rank issues.
#ifndef LOCKSTEP_TESTS_JOBMODEL_STEP_H_
#define LOCKSTEP_TESTS_JOBMODEL_STEP_H_

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

// What a stage does next: a pass of one micro-batch, or a batch of sends and receives with the stages beside it.
struct Turn {
  enum Kind { kForward, kBackward, kExchange };
  Kind kind = kForward;
  // Of an exchange, which issues them in this order. "Forward" means activations, "backward" gradients.
  bool send_backward = false, recv_forward = false, send_forward = false, recv_backward = false;
};
// `chunks` is for kInterleaved, which also needs a multiple of `stages` micro-batches.
std::vector<Turn> TurnsOf(Schedule schedule, int stage, int stages, int micro_batches, int chunks = 1);

struct Call {
  Family family = Family::kWorld;
  ring::CallKind kind = ring::CallKind::kNone;
  int64_t count = 0;  // elements
  uint8_t datatype = 7;
  uint8_t reduction = ring::kNoReduction;
  int32_t root_or_peer = -1;  // member rank of the group
  uint64_t site = 0;
};

struct Step {
  Schedule schedule = Schedule::kForwardFirst;
  int micro_batches = 1;
  std::vector<Call> forward, backward;  // of one micro-batch
  // What stages send each other. The sites are those of Turn's exchanges, in its order.
  int64_t exchange_count = 0;
  uint8_t exchange_datatype = 7;
  uint64_t exchange_sites[4] = {};
  std::vector<Call> end;  // after the last micro-batch
};
// Calls on kEmb are left out where the stage is in no such group.
std::vector<Call> CallsOf(const Step& step, int stage, int stages);

}  // namespace lockstep::jobmodel

#endif  // LOCKSTEP_TESTS_JOBMODEL_STEP_H_
