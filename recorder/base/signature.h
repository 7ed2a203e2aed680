// Rolling hash of a communicator's collectives. It is equal on all members as long as they make the same calls. The
// hash is affine in the previous hash, so the operations of a captured graph combine into one factor and one term. A
// member that launches the graph and one that issues the same operations one by one therefore get the same hash.
#pragma once

#include <cstdint>

#include "recorder/ring/calls.h"

namespace lockstep::recorder {

// Odd, and factor - 1 is divisible by 2 only once, so swapping two operations changes the hash.
constexpr uint64_t kRollFactor = 0x9fb21c651e98df27u;

// Hashes the values that NCCL requires to be equal on all members. Independent of earlier calls.
inline uint64_t SignatureOf(ring::CallKind kind, uint8_t datatype, uint8_t reduction, int32_t root_or_peer,
                            uint64_t count) noexcept {
  uint64_t value = static_cast<uint64_t>(kind) | uint64_t{datatype} << 16 | uint64_t{reduction} << 24 |
                   static_cast<uint64_t>(static_cast<uint32_t>(root_or_peer)) << 32;
  value *= 0x9fb21c651e98df25u;
  value ^= value >> 29;
  value = (value + count) * 0xd6e8feb86659fd93u;
  return value ^ value >> 32;
}

inline uint64_t Roll(uint64_t hash, uint64_t signature) noexcept { return hash * kRollFactor + signature; }

// A sequence of operations as one step; {1, 0} for none. Has no initializers, so that tables of it are zero pages.
struct RolledSteps {
  uint64_t factor, term;

  void Add(uint64_t signature) noexcept {
    factor *= kRollFactor;
    term = Roll(term, signature);
  }
  void Add(const RolledSteps& later) noexcept {
    factor *= later.factor;
    term = term * later.factor + later.term;
  }
  uint64_t After(uint64_t hash) const noexcept { return hash * factor + term; }
};

}  // namespace lockstep::recorder
