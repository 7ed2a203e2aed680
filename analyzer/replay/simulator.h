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

#include "analyzer/model/bundle.h"

namespace lockstep::replay {

inline constexpr uint32_t kOwnQueue = UINT32_MAX;

struct Call {
  uint32_t comm = 0;           // index into Job::comms
  int32_t peer = -1;           // member of the communicator; -1 for a collective
  bool send = false;           // for a call with a peer: send or receive
  uint32_t queue = kOwnQueue;  // calls in one queue run in order; kOwnQueue: the call is in no queue
  uint32_t unit = 0;           // adjacent calls with equal numbers other than 0 start together
  bool blocked = false;        // the GPU reaches neither this call nor later ones in its queue
  bool by_host = false;        // `blocked` only because its process is gone or stopped
  bool unfinished = false;     // in the record
  const Op* op = nullptr;      // its arguments; null: unknown, and taken to agree with all others
};

// What the rank's process does after it has issued all its own calls.
enum class Host : uint8_t {
  kWaits,   // makes the calls that others wait for when all its own have completed
  kHalted,  // makes no further call
  kFree,    // makes the calls that others wait for at once
};

struct Program {
  std::vector<Call> calls;
  Host host = Host::kWaits;
};

struct Job {
  struct Comm {
    std::vector<int32_t> members;  // indexes into `programs`; -1: unknown, and ignored
    uint32_t bundle_comm = kNoIndex;
    int64_t first = 0;  // sequence number of the first replayed collective
  };
  std::deque<Program> programs;  // references stay valid while programs are added
  std::vector<Comm> comms;
};

// Matching calls: one collective, or a send and its receive.
struct Meeting {
  uint32_t comm = 0;
  int32_t sender = -1, receiver = -1;  // members; -1: a collective
  uint32_t number = 0;                 // from 0
  bool complete = false;
  bool agree = true;  // the arguments
  // Two programs whose arguments differ, if they do not agree; -1: no two differ, but all together do.
  std::pair<int32_t, int32_t> unlike = {-1, -1};
  bool unfinished = false;  // all its calls are recorded as unfinished, although nothing here delays them
};

struct Outcome {
  bool too_large = false;  // the job was not simulated
  size_t open = 0;         // meetings that did not complete
  size_t parts = 0;        // calls, and members of meetings
  std::vector<Meeting> meetings;
  std::vector<bool> owes;   // by program: whether others need calls that it did not make
  std::vector<bool> meets;  // by program: whether it takes part in a meeting that did not complete
  bool completes() const { return !too_large && open == 0; }
};

inline constexpr size_t kMostParts = size_t{1} << 21;  // maximum number of members in all meetings

// Returns whether the arguments of two matching calls agree.
using Agree = std::function<bool(const Op&, const Op&)>;

Outcome Play(const Job& job, const Agree& agree);

}  // namespace lockstep::replay
