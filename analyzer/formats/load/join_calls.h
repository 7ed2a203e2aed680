// Aligns the numbers of a communicator's collectives in Lockstep's own record and in Flight Recorder dumps.
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
// all-to-all, a gather) count, too. A dump's calls therefore get positions: consecutive numbers in call order, one for
// each call that Lockstep's own record would count. If every launch is one call, positions are the dump's own numbers.

// Finds each communicator's operations in a bundle. Valid while the bundle exists and its memberships and operations do
// not change.
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

// One call as several ranks of a source recorded it; the majority decides its kind and sizes.
class Witnessed {
 public:
  void Add(const Op& op);
  // Returns an operation that agrees with the majority; null if there is no majority.
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
  int64_t first_number = 1;  // the dump's number of the group's first call ever: 0 or 1
  std::string refused;       // if not empty, why positions cannot be determined
  // For a dump: maps a launch number to the position of its first call. Omits launches that no dump contains.
  std::map<int64_t, int64_t> positions;

  // Returns the position of a launch's last call. Returns kNone and kUnknown unchanged, and kUnknown if no entry
  // decides the position.
  int64_t PositionOf(int64_t number) const;
};

CallTable OwnCalls(const CallIndex& own, uint32_t comm);
// `split` is true if the own record does not count all-to-alls, gathers or scatters here, because they are sends and
// receives.
CallTable EntryCalls(const CallIndex& dump, uint32_t comm, bool split);

// Returns the positions of a rank's entries, in the rank's order: (position, index into Rank::ops). Omits launches that
// the dump contains only in part.
std::vector<std::pair<int64_t, uint32_t>> EntryPositions(const CallIndex& dump, const CallIndex::Use& use,
                                                         const CallTable& table, bool split);

// Own number minus position.
struct Shift {
  bool found = false;
  int64_t by = 0;
  int64_t agreeing = 0;  // number of calls that agree
  std::string why_not;   // if not found, the reason
};
// `ends` contains the own number and position of the last call, for every rank that both sources contain. If the calls
// repeat, ranks that stopped at different places but agree on the difference decide the shift.
Shift FindShift(const CallTable& own, const CallTable& entries, const std::vector<std::pair<int64_t, int64_t>>& ends);

}  // namespace lockstep
