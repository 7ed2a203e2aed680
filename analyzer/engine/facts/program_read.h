// The calls of each rank's threads in program order, and which ranks run the same program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

struct Token {
  const Op* op = nullptr;
  uint32_t klass : 31 = 0;    // interned class of the communicator
  uint32_t exchange : 1 = 0;  // one entry stands for all sends and receives of its group on that communicator
  int32_t peer = 0;           // distance to the peer of a send or receive (Roles::Distance)
};
static_assert(sizeof(Token) <= 16);  // there is one token for every operation of the job

// Consecutive calls. A record has several segments if calls in between were overwritten.
using Segment = std::vector<Token>;

struct Program {
  int32_t rank = -1;
  std::string role;  // see Roles
  std::vector<Segment> segments;
  size_t calls = 0;
};

// Returns whether the operation is part of the program. A captured operation has no number and runs as often as the
// graph is launched, so its replays count.
inline bool IsOfProgram(const Op& op) {
  return op.membership != kNoIndex && !op.recent_only && op.state != OpState::kFailed &&
         op.state != OpState::kCaptured && (ring::IsCollective(op.kind) || ring::IsPointToPoint(op.kind));
}

// Returns the programs by role and thread. A rank has one program for each thread that issues operations. Threads are
// identified by their calls, not by their number.
std::map<std::string, std::vector<Program>> ReadPrograms(const Model& model);

// For each communicator: whether a rank aborted it before creating others. Such a communicator belongs to an earlier
// run of the job in the same processes. Each rank's last calls on it are not compared.
std::vector<bool> FindGivenUp(const Model& model);

}  // namespace lockstep
