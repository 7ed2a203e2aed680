// Reads each rank's program from the records: the rank's calls in flight, and calls that match a peer's call in flight.
// Omits calls that all members have completed, so that all programs begin at a consistent place, no matter what each
// ring still contains.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/replay/simulator.h"
#include "analyzer/engine/view.h"

namespace lockstep::replay {

// Which earlier calls a call waits for, besides its matching calls on other ranks.
enum class Order : uint8_t {
  kByStream,        // older calls on its stream; all older calls if the rank's streams are not recorded
  kByRank,          // all older calls
  kByCommunicator,  // older calls on its communicator
  kByGpu,           // like kByRank, but operations that the GPU has started come first
};

// A call on one of Bundle::comms.
struct Place {
  uint32_t comm = kNoIndex;
  int64_t seq = kUnknown;
  bool exchange = false;  // true for a send or receive, false for a collective
};

struct Recorded {
  Job job;           // not yet arranged; programs in the order of Bundle::ranks, then those of ranks without data
  size_t calls = 0;  // number of calls in all programs
  std::vector<int32_t> ranks;       // global rank of each program
  std::vector<uint32_t> job_comms;  // for each of Bundle::comms: index into Job::comms; kNoIndex if not replayed
  size_t unseen() const { return ranks.size() - seen; }
  size_t seen = 0;          // number of programs of ranks with data
  std::vector<bool> blind;  // indexed by program: the rank waits for its GPU, and no record shows in which operation
  bool too_large = false;   // too many calls or members: the job is not complete
};

// `from`: for some communicators, the collective from which completed calls are replayed, too, up to the last call. If
// `graph` is null, only these collectives are replayed, in no queue and whether they completed or not.
Recorded ReadRecorded(const Model& model, const WaitGraph* graph, Order order, const std::vector<Place>& from);

}  // namespace lockstep::replay
