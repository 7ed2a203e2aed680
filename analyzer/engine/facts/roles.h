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
};

Roles FindRoles(const Model& model);

}  // namespace lockstep
