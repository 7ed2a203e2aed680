// The communicators of a job, each with its stream, and this rank's place in them.
#ifndef LOCKSTEP_TESTS_WORKLOAD_COMMS_H_
#define LOCKSTEP_TESTS_WORKLOAD_COMMS_H_

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
// The group of `kind` that holds `rank`.
Group GroupOf(const Options& options, CommKind kind, int rank);

// One communicator and its stream. `handle` is null for groups of one rank, which issue nothing.
struct Comm {
  CommKind kind = CommKind::kWorld;
  std::string name;  // "world", "tp_3"
  Group group;
  std::vector<int32_t> ranks;  // of the members
  ncclComm_t handle = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t ready = nullptr;  // computation's results that the operation reads
  cudaEvent_t done = nullptr;   // the operation's results

  int size() const { return group.size; }
  int index() const { return group.index; }
  bool used() const { return handle != nullptr; }
};

class Communicators {
 public:
  // Collective over the job: creates world from a unique id of rank 0, splits tp, dp and ep from it, and creates pp
  // from its own unique ids. Exits the process with status 1 on an error.
  Communicators(const Options& options, const Environment& environment, TCPStore* store);
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  Comm& operator[](CommKind kind) { return comms_[static_cast<size_t>(kind)]; }

  // Aborts one split communicator with all queued work, and splits it from world again. Collective over the job.
  void Recreate(CommKind kind);

  // Finalizes and destroys all, the children first; then the streams.
  void Destroy();

 private:
  void Split(CommKind kind);
  // It runs on the world's stream, which is the computation's too.
  bool SharesStream(CommKind kind) const;

  const Options& options_;
  const int rank_;
  Comm comms_[kCommKinds];
};

}  // namespace trainsim

#endif  // LOCKSTEP_TESTS_WORKLOAD_COMMS_H_
