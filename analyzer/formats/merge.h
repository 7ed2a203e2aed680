// Puts ranks from several files together: one job, its newest generation, one entry a rank, communicators merged by
// identity. Used by the ring loader, the dump reader and LoadPaths. What the files say is not trusted: sizes and ranks
// are bounded, contradictions become problems.
#ifndef LOCKSTEP_ANALYZER_FORMATS_MERGE_H_
#define LOCKSTEP_ANALYZER_FORMATS_MERGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/bundle.h"
#include "analyzer/util/printable.h"

namespace lockstep {

// What one rank, or one file's table, says of a communicator.
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

// The same, held by the builder: what all members of a communicator say of it alike is there once.
struct HeldRank {
  Rank rank;
  std::vector<uint32_t> facts;  // of rank.memberships, same order: index into HeldRanks::facts
};
struct SaidFacts {
  CommFacts facts;
  uint32_t comm = 0;  // equal for equal facts.id, from 0 without gaps
};
struct HeldRanks {
  std::vector<std::unique_ptr<HeldRank>> ranks;  // a Rank is large: it stays where it is while these are sorted
  std::vector<SaidFacts> facts;
};

class BundleBuilder {
 public:
  // A rank below 0 or not below kMaxRanks is refused with a problem.
  void AddRank(LooseRank loose);
  // A communicator's table entry with the members it names. Less trusted than what the members say of themselves.
  void AddComm(CommFacts facts, std::vector<MemberSpan> members);
  void AddProblem(Problem problem) { bundle_.problems.push_back(std::move(problem)); }
  // Where a host stands, as its own file says. Hosts without a name, and places that say nothing, are passed over.
  void AddPlace(HostPlace place);
  // The largest number said wins; 0 says nothing.
  void ExpectRanks(int64_t ranks);
  uint32_t InternString(std::string_view text);
  uint32_t InternShape(std::string_view text);
  void SetStalled(int64_t stalled_ns);
  void SetJob(std::string job) { manifest_job_ = std::move(job); }
  bool empty() const { return held_.ranks.empty(); }

  // Everything put together. The builder is empty afterwards.
  Bundle Finish();

 private:
  struct TableEntry {
    CommFacts facts;
    std::vector<MemberSpan> members;
  };

  void KeepOneJob();
  void KeepNewestGeneration();
  void KeepOnePerRank();
  void MergeCommunicators();
  void CountExpected();

  HeldRanks held_;
  absl::flat_hash_map<CommFacts, uint32_t> facts_;    // -> index into held_.facts
  absl::flat_hash_map<std::string, uint32_t> comms_;  // id -> SaidFacts::comm
  std::vector<TableEntry> table_;
  std::map<std::string, HostPlace> places_;
  Bundle bundle_;
  std::string manifest_job_;
  int64_t expected_ = 0;
  absl::flat_hash_map<std::string, uint32_t> strings_, shapes_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_MERGE_H_
