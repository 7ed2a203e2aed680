// Ranks of several files, before they are merged.
#ifndef LOCKSTEP_ANALYZER_FORMATS_HELD_RANKS_H_
#define LOCKSTEP_ANALYZER_FORMATS_HELD_RANKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep {

// A communicator as one rank, or one file's table, describes it.
struct CommFacts {
  std::string id;
  std::string name;
  int32_t size = 0;  // <= 0: not known
  std::string parent_id;
  uint32_t ordinal = 0;
  int32_t color = 0;
  ring::CallKind origin = ring::CallKind::kNone;
  bool members_inferred = false;

  bool operator==(const CommFacts& other) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const CommFacts& facts) {
    return H::combine(std::move(h), facts.id, facts.name, facts.size, facts.parent_id, facts.ordinal, facts.color,
                      facts.origin, facts.members_inferred);
  }
};

struct MemberSpan {
  uint32_t first_member = 0;
  int32_t first_rank = 0;
  int32_t stride = 0;
  uint32_t count = 0;
};

// A rank before its communicators have indexes.
struct LooseRank {
  Rank rank;                     // Membership::comm is not set
  std::vector<CommFacts> comms;  // of rank.memberships, same order
};

// The same, held by the builder: facts on which all members of a communicator agree are stored once.
struct HeldRank {
  Rank rank;
  std::vector<uint32_t> facts;  // of rank.memberships, same order: index into HeldRanks::facts
};
struct SaidFacts {
  CommFacts facts;
  uint32_t comm = 0;  // equal for equal facts.id, from 0 without gaps
};
struct HeldRanks {
  std::vector<std::unique_ptr<HeldRank>> ranks;  // a Rank is large: it does not move while these are sorted
  std::vector<SaidFacts> facts;
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_HELD_RANKS_H_
