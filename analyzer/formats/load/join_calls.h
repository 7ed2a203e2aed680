// Aligns the numbers of a communicator's collectives in two sources.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep {

// Lockstep's own record numbers a communicator's collectives from 1. Flight Recorder numbers a process group's launches
// from 0 or 1. A coalesced batch of n operations is one launch, and operations built from sends and receives (an
// all-to-all, a gather) count, too. So its calls get positions: consecutive numbers in call order, one for each call
// that Lockstep's own record would count. If every launch is one call, positions are the dump's own numbers.

// The positions of each communicator's calls, computed once for a bundle that must not change afterwards.
struct CallIndex {
  explicit CallIndex(const Bundle& bundle);

  struct Use {
    uint32_t rank, membership;  // indexes into Bundle::ranks and Rank::memberships
  };
  const std::vector<uint32_t>& OpsOf(const Use& use) const { return ops[use.rank][use.membership]; }

  const Bundle& bundle;
  std::vector<std::vector<Use>> uses;                   // indexed by communicator
  std::vector<std::vector<std::vector<uint32_t>>> ops;  // indexed by rank and membership: indexes into Rank::ops
};

// Returns whether a call in Lockstep's own record and an entry of a dump can be the same call, by kind and size.
bool SameCall(const Op& own, const Op& entry);

// One call as recorded by several ranks of a source; the majority decides each fact.
class Witnessed {
 public:
  void Add(const Op& op);
  // Null if there is no majority.
  const Op* op() const;

 private:
  const Op* ops_[2] = {nullptr, nullptr};
  int32_t votes_[2] = {0, 0};
  int32_t others_ = 0;
};

// The calls of one communicator over all ranks of one source, by number.
struct CallTable {
  std::map<int64_t, Witnessed> calls;
  bool from_birth = true;    // positions are the dump's own numbers
  int64_t first_number = 1;  // the number of the first call ever, if from_birth
  std::string refused;       // if not empty, why positions cannot be determined
  // For a dump: maps a number to the position of its first call. Omits numbers that no rank has any more.
  std::map<int64_t, int64_t> positions;

  // Returns the position of a launch's last call. Returns kNone and kUnknown unchanged, and kUnknown if no entry
  // decides the position.
  int64_t PositionOf(int64_t number) const;
};

CallTable OwnCalls(const CallIndex& own, uint32_t comm);
// `split` is true if the own record does not count all-to-alls, gathers or scatters here, because they are sends and
// receives.
CallTable EntryCalls(const CallIndex& dump, uint32_t comm, bool split);

// Returns the positions of a rank's entries, in order: (position, index into Rank::ops).
std::vector<std::pair<int64_t, uint32_t>> EntryPositions(const CallIndex& dump, const CallIndex::Use& use,
                                                         const CallTable& table, bool split);

// The difference of own number and position.
struct Shift {
  bool found = false;
  int64_t by = 0;
  int64_t agreeing = 0;  // number of calls that both have
  std::string why_not;   // if not found, the reason
};
// `ends` contains the own number and position of the last call, for every rank that both sources contain. If the calls
// repeat, the shift is decided by ranks that stopped at different places but agree on the difference.
Shift FindShift(const CallTable& own, const CallTable& entries, const std::vector<std::pair<int64_t, int64_t>>& ends);

}  // namespace lockstep
