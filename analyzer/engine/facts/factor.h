// What many culprits share and others do not: a host, a switch, a rack, a rail. One finding for the thing that broke
// instead of one for each rank behind it.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_FACTOR_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_FACTOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/model.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Ranks behind each host, switch, rack and rail of the job; only things with at least two ranks, fewer than all.
class Things {
 public:
  explicit Things(const Bundle& bundle);

  struct Thing {
    const char* kind = "";  // "host", "switch", "rack", "rail"
    std::string name;
    std::vector<int32_t> ranks;  // into Bundle::ranks, ascending
    int32_t hosts = 0;
    int32_t rail = -1;
  };
  std::vector<Thing> things;                   // smaller kinds first
  std::vector<std::vector<uint32_t>> of_rank;  // things that a rank belongs to

  // The smallest thing to which nearly all of the culprits belong and of which nearly all members are culprits; null
  // where there is none, or two. `culprits` are indexes into Bundle::ranks.
  const Thing* CommonTo(const std::vector<int32_t>& culprits) const;
};

// What communicators that stand still (or are slow) cross and others, that go on, do not: the smallest set of ranks
// that explains them. Each entry is the ranks of one communicator or pair.
struct Crossing {
  std::vector<int32_t>
      ranks;  // into Bundle::ranks: all of the suspect thing's that take part in what is bad; ascending
  const Things::Thing* thing = nullptr;  // null: a single rank, a link between two hosts, or a plain set
  std::vector<std::string> link;         // the two hosts of a link
  bool certain = false;                  // nothing else explains it
};
Crossing FindCrossing(const Bundle& bundle, const Things& things, const std::vector<std::vector<int32_t>>& bad,
                      const std::vector<std::vector<int32_t>>& good);

// Puts causes of one kind together where their culprits share a thing, and sets Cause::factor.
void FoldByFactor(const Model& model, std::vector<Cause>* causes);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_FACTOR_H_
