// Determines which ranks run the same program: those in the same kinds of communicators, at the same place in a
// pipeline.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

class Model;

struct Roles {
  std::vector<uint32_t> of_rank;  // by rank index: ranks with equal numbers have the same role
  std::vector<bool> exchanges;    // by communicator: its members all exchange with each other in groups
  std::vector<bool> rings;        // by communicator: its members have the same peers, counted around it

  // Returns the distance to the peer, as the programs of that communicator count it.
  int32_t Distance(uint32_t comm, int32_t member, int32_t peer, size_t members) const {
    const auto size = static_cast<int32_t>(members);
    return rings[comm] && peer < member ? peer - member + size : peer - member;
  }
};

Roles FindRoles(const Model& model);

}  // namespace lockstep
