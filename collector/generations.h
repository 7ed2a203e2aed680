// Restarts of one job, kept apart. A generation is one life of a job: the same job, step and restart count, and no rank
// that was started anew in between. A requeued job and an elastic restart begin a new one; a restart inside the processes
// (same pid, new communicators) does not: the processes live on, and their old communicators are told from the new by
// their identities, which unique ids make different. Pure; not thread-safe.
#ifndef LOCKSTEP_COLLECTOR_GENERATIONS_H_
#define LOCKSTEP_COLLECTOR_GENERATIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

// A process as its ring's header names it.
struct RingIdentity {
  std::string job, step;
  uint32_t restart_count = 0;
  uint32_t uid = 0;
  std::string boot_id;              // of its host
  int32_t pid = 0;
  uint64_t start_ticks = 0, pid_namespace = 0;
  int32_t rank = -1, world_size = -1;
  int64_t created_real_ns = 0;      // of the ring
  bool ended = false;               // its process is gone already
};
RingIdentity IdentityOf(const ring::ProcessInfo& process, uint32_t uid);

// Numbered from 1 in the order in which they were first seen; never reused.
using GenerationId = uint32_t;

struct Placement {
  GenerationId generation = 0;
  bool fresh = false;               // the generation was begun by this process
  bool moved = false;               // the process had been counted to another one until now
  // A living process of the same generation claims the same rank: the job is started twice under one name, or several
  // programs of it number their ranks alike. It is placed all the same; digests of one rank must not be merged. 0: none.
  int32_t duplicate_of_pid = 0;
};

struct Generation {
  GenerationId id = 0;
  std::string job, step;
  uint32_t restart_count = 0, uid = 0;
  uint32_t life = 1;                // of several with the same job, step and restart count
  int64_t began_real_ns = 0;        // ring of its first process
  uint32_t processes = 0, alive = 0;
  int32_t world_size = -1;
  std::string Name() const;         // "train/0/2", with life 2 and up "train/0/2#2"
};

class Generations {
 public:
  // Of a ring that was found (again: the same process keeps its place). The newest life of the job is tried first; a rank
  // that is there already, in a process that has ended or was created more than a minute earlier on another host that is
  // silent, was started anew: a new life begins.
  Placement Place(const RingIdentity& ring);
  // A parentless communicator of it was seen. Communicators are made with unique ids: processes that share one are of one
  // life, whatever order they were found in.
  Placement Saw(const RingIdentity& ring, uint64_t communicator);
  void Ended(const RingIdentity& ring);
  // Its host's agent is gone: what it spoke for may have been started anew elsewhere.
  void Silent(const std::string& boot_id, bool silent);

  // Where it was placed last (another process's communicator may have moved it since Place); 0: nowhere.
  GenerationId Of(const RingIdentity& ring) const;
  const Generation* Find(GenerationId id) const;
  // The newest of a job (by uid and name); null: none.
  const Generation* Newest(uint32_t uid, const std::string& job) const;
  std::vector<GenerationId> All() const;
  // Forgets a generation and its processes. Those of it that are found again would begin a new one.
  void Drop(GenerationId id);

 private:
  struct Known {
    GenerationId generation = 0;
    int32_t rank = -1, pid = 0;
    bool alive = true;
    std::string boot_id;
    int64_t created_real_ns = 0;
  };
  struct Life {
    Generation info;
    std::string job_key;
    absl::flat_hash_map<int32_t, uint32_t> holder;  // rank -> process
  };
  struct Bound {
    GenerationId generation = 0;
    absl::flat_hash_set<uint32_t> processes;
  };
  enum class Standing : uint8_t { kFree, kDuplicate, kNewer, kOlder };
  // How the process stands to the one that holds its rank in a life.
  Standing Compare(const Life& life, const Known& process, const Known** holder) const;
  uint32_t Number(const RingIdentity& ring, bool* fresh);
  GenerationId Begin(const std::string& job_key, const RingIdentity& ring, bool newest);
  void Put(GenerationId id, uint32_t process);
  void Remove(uint32_t process);

  std::map<GenerationId, Life> lives_;
  absl::flat_hash_map<std::string, std::vector<GenerationId>> of_job_;  // job key -> oldest first
  absl::flat_hash_map<std::string, uint32_t> numbers_;                  // of processes, by what makes them unique
  absl::flat_hash_map<uint32_t, Known> processes_;
  absl::flat_hash_set<std::string> silent_;
  absl::flat_hash_map<uint64_t, Bound> comms_;
  GenerationId last_ = 0;
  uint32_t last_process_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_GENERATIONS_H_
