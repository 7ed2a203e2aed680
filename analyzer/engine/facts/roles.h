// Determines which ranks run the same program: those in the same kinds of communicators, at the same place in a
// pipeline.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

class Model;

struct Roles {
  std::vector<uint32_t> of_rank;  // by rank index: ranks with equal numbers have the same role
  std::vector<bool> exchanges;    // by communicator: groups exchange with many members
  std::vector<bool> rings;        // by communicator: most members have the same peers, if distances wrap around

  // Returns the distance from the member to the peer. In a ring, it is never negative.
  int32_t Distance(uint32_t comm, int32_t member, int32_t peer, size_t members) const {
    const auto size = static_cast<int32_t>(members);
    return rings[comm] && peer < member ? peer - member + size : peer - member;
  }
};

Roles FindRoles(const Model& model);

}  // namespace lockstep
