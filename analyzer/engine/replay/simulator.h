// A small deterministic simulator of NCCL's rules. Each rank has a list of calls, in-order queues, and a process that
// issues the calls. A collective completes when every member has reached it with arguments that agree; a send completes
// when its receive has been reached too. The n-th collective of one member matches the n-th of every other member, and
// the n-th send to a peer matches that peer's n-th receive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/bundle.h"

namespace lockstep::replay {

inline constexpr uint32_t kOwnQueue = UINT32_MAX;

struct Call {
  uint32_t comm = 0;           // index into Job::comms
  int32_t peer = -1;           // member of the communicator; -1 for a collective
  bool send = false;           // for a call with a peer: true for a send
  uint32_t queue = kOwnQueue;  // calls in one queue run in order; kOwnQueue: the call is in no queue
  uint32_t unit = 0;           // adjacent calls with equal numbers other than 0 start together
  bool blocked = false;        // the GPU reaches neither this call nor later ones in its queue
  bool by_host = false;        // `blocked` only because its process has ended or is stopped
  bool unfinished = false;     // according to the record
  const Op* op = nullptr;      // its arguments; null if unknown, which agrees with all others
  // Set by Arrange:
  int32_t member = -1;       // member of the communicator; -1 if the program is not one, so that the call is ignored
  uint32_t lane = kNoIndex;  // for a call with a peer: index into Job::lanes
};

// What the rank's process does after it has issued all its own calls.
enum class Host : uint8_t {
  kWaits,   // makes the calls that others wait for when all its own have completed
  kHalted,  // makes no further call
  kFree,    // makes the calls that others wait for immediately
};

struct Program {
  std::vector<Call> calls;
  Host host = Host::kWaits;
};

struct Job {
  struct Comm {
    std::vector<int32_t> members;  // indexes into `programs`; -1 if unknown and therefore ignored
    uint32_t bundle_comm = kNoIndex;
    int64_t first = 0;  // sequence number of the first replayed collective
    // Set by Arrange:
    uint32_t slot = 0;   // position of the first member among the members of all communicators
    uint32_t known = 0;  // members that are not -1
  };
  // Sends from one member to another, and their receives.
  struct Lane {
    uint32_t comm = 0;
    int32_t sender = -1, receiver = -1;  // members
    uint32_t sends = 0, recvs = 0;
    auto operator<=>(const Lane&) const = default;
  };
  std::deque<Program> programs;  // references stay valid while programs are added
  std::vector<Comm> comms;
  // Set by Arrange:
  std::vector<Lane> lanes;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, int32_t> member_of;  // communicator, program
  uint32_t slots = 0, queues = 0;                                         // number of members; of queues
};

// Assigns the indexes that every replay of the job uses. Takes time linear in calls and members.
void Arrange(Job* job);

// A job with changes to some programs. Copies only the changed programs.
class Variant {
 public:
  explicit Variant(const Job& of) : job(of) {}
  const Program& Of(uint32_t program) const {
    const auto it = changed_.find(program);
    return it == changed_.end() ? job.programs[program] : it->second;
  }
  // The reference is valid until the next Change.
  Program& Change(uint32_t program) { return changed_.try_emplace(program, Of(program)).first->second; }
  void WriteTo(Job* to) {
    for (auto& [program, changed] : changed_) to->programs[program] = std::move(changed);
  }

  const Job& job;

 private:
  absl::flat_hash_map<uint32_t, Program> changed_;
};

// A meeting is a set of calls that match: one collective, or a send and its receive.
struct Meeting {
  uint32_t comm = 0;
  int32_t sender = -1, receiver = -1;  // members; -1: a collective
  uint32_t number = 0;                 // counted from 0
  bool complete = false;
  bool agree = true;  // whether the arguments agree
  // Two programs whose arguments differ, if `agree` is false; -1: no two differ, but all together do.
  std::pair<int32_t, int32_t> unlike = {-1, -1};
  bool unfinished = false;  // all its calls are recorded as unfinished, although nothing here delays them
};

struct Outcome {
  bool too_large = false;  // the job was not simulated
  size_t open = 0;         // meetings that did not complete
  size_t parts = 0;        // calls, and members of meetings
  std::vector<Meeting> meetings;
  std::vector<bool> owes;   // indexed by program: whether others need calls that it did not make
  std::vector<bool> meets;  // indexed by program: whether it takes part in a meeting that did not complete
  bool completes() const { return !too_large && open == 0; }
};

inline constexpr size_t kMostParts = size_t{1} << 21;  // maximum of Outcome::parts

using Agree = std::function<bool(const Op&, const Op&)>;

// Simulates a job. `variant.job` must be arranged.
Outcome Play(const Variant& variant, const Agree& agree);

}  // namespace lockstep::replay
