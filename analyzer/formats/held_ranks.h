// Ranks from several files before they are merged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep {

// One rank's, or one file's, description of a communicator.
struct CommFacts {
  std::string id;
  std::string name;
  int32_t size = 0;  // <= 0 if unknown
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

// A rank before its communicators get indexes in the bundle.
struct LooseRank {
  Rank rank;                     // Membership::comm is not set
  std::vector<CommFacts> comms;  // for rank.memberships, in the same order
};

// A rank as BundleBuilder stores it. Equal facts of a communicator's members are stored once, in HeldRanks::facts.
struct HeldRank {
  Rank rank;
  std::vector<uint32_t> facts;  // for rank.memberships, in the same order: index into HeldRanks::facts
};
struct SaidFacts {
  CommFacts facts;
  uint32_t comm = 0;  // number of facts.id: equal for equal ids, from 0 without gaps
};
struct HeldRanks {
  // Pointers, so that sorting does not move the large Rank objects.
  std::vector<std::unique_ptr<HeldRank>> ranks;
  std::vector<SaidFacts> facts;
};

}  // namespace lockstep
