// The communicators of a job, each with a stream, and this rank's index in them.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <string>
#include <vector>

#include "tests/jobmodel/layout.h"
#include "tests/workload/options.h"
#include "tests/workload/store.h"

namespace trainsim {

using lockstep::jobmodel::Group;
using lockstep::jobmodel::Place;
Place PlaceOf(const Options& options, int rank);
Group GroupOf(const Options& options, CommKind kind, int rank);

// A communicator and its stream. `handle` is null for a group of one rank, which issues no operations.
struct Comm {
  CommKind kind = CommKind::kWorld;
  std::string name;  // "world", "tp_3"
  Group group;
  std::vector<int32_t> ranks;  // the members' global ranks
  ncclComm_t handle = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t ready = nullptr;  // recorded after the computation that the operation depends on
  cudaEvent_t done = nullptr;   // recorded after the operation

  int size() const { return group.size; }
  int index() const { return group.index; }
  bool used() const { return handle != nullptr; }
};

class Communicators {
 public:
  // Collective over the job. Creates world from a unique ID of rank 0, splits tp, dp and ep from world, and creates
  // each pp from its own unique ID. Exits with status 1 on an error.
  Communicators(const Options& options, const Environment& environment, TCPStore* store);
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  Comm& operator[](CommKind kind) { return comms_[static_cast<size_t>(kind)]; }

  // Collective over the job. Aborts one split communicator with all queued work, and splits it from world again.
  void Recreate(CommKind kind);

  // Finalizes all communicators, children first. Then destroys them with their events and streams.
  void Destroy();

 private:
  void Split(CommKind kind);
  // Returns whether the communicator runs on world's stream, which is also the computation's stream.
  bool SharesStream(CommKind kind) const;

  const Options& options_;
  const int rank_;
  Comm comms_[kCommKinds];
};

}  // namespace trainsim
