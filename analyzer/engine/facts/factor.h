// Finds what many culprits share and other ranks do not: a host, a switch, a rack, a rail. The result is one finding
// for the broken part instead of one for each of its ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/model.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// The ranks of each thing that several ranks use: host, switch, rack or rail. Omits things with only one rank or with
// all ranks, switches and racks with only one host, and rails if the job has fewer than three hosts.
class Things {
 public:
  explicit Things(const Bundle& bundle);

  struct Thing {
    const char* kind = "";  // "host", "switch", "rack", "rail"
    std::string name;
    std::vector<int32_t> ranks;  // indexes into Bundle::ranks, ascending
    int32_t hosts = 0;
    int32_t rail = -1;
  };
  std::vector<Thing> things;                   // smaller kinds first
  std::vector<std::vector<uint32_t>> of_rank;  // indexes of the things that a rank belongs to

  // Returns the smallest thing that contains nearly all culprits, and in which nearly all ranks are culprits. Null if
  // there is none, or fewer than two culprits. `culprits` are indexes into Bundle::ranks.
  const Thing* CommonTo(const std::vector<int32_t>& culprits) const;
};

// What stuck (or slow) communicators cross and working ones do not: the smallest set of ranks that explains them.
struct Crossing {
  // The suspects: indexes into Bundle::ranks, ascending. If `thing` is set, only its ranks in stuck communicators.
  std::vector<int32_t> ranks;
  const Things::Thing* thing = nullptr;  // null for a single rank or a plain set
  bool certain = false;                  // nothing else explains the stuck communicators
};
// Each entry of `bad` (stuck or slow) and `good` has the ranks (indexes) of one communicator or pair.
Crossing FindCrossing(const Bundle& bundle, const Things& things, const std::vector<std::vector<int32_t>>& bad,
                      const std::vector<std::vector<int32_t>>& good);

void SetFactor(const Things::Thing& thing, size_t culprits, Cause* cause);

// Combines stuck operations if one thing explains all, or if communicators of one size hang at once. Sets Cause::factor
// of causes if the culprits share a thing.
void FoldByFactor(const Model& model, std::vector<Cause>* causes);

}  // namespace lockstep
