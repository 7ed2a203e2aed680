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

// The ranks behind each host, switch, rack and rail of the job. Includes only things with at least two ranks, but not
// all ranks.
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

  // Returns the smallest thing that contains nearly all culprits and whose members are nearly all culprits. Null if
  // there is none, or more than one. `culprits` are indexes into Bundle::ranks.
  const Thing* CommonTo(const std::vector<int32_t>& culprits) const;
};

// What stuck (or slow) communicators cross and working ones do not: the smallest set of ranks that explains them. Each
// entry has the ranks of one communicator or pair.
struct Crossing {
  std::vector<int32_t>
      ranks;  // indexes into Bundle::ranks, ascending: all ranks of the suspect thing in stuck communicators
  const Things::Thing* thing = nullptr;  // null for a single rank or a plain set
  bool certain = false;                  // nothing else explains the stuck communicators
};
Crossing FindCrossing(const Bundle& bundle, const Things& things, const std::vector<std::vector<int32_t>>& bad,
                      const std::vector<std::vector<int32_t>>& good);

// Sets Cause::factor to this thing and this number of culprits.
void SetFactor(const Things::Thing& thing, size_t culprits, Cause* cause);

// Combines causes of one kind whose culprits share a thing, and sets Cause::factor.
void FoldByFactor(const Model& model, std::vector<Cause>* causes);

}  // namespace lockstep
