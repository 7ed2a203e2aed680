// Merges ranks from several files: one job, its newest generation, one entry per rank, and communicators merged by id.
// Files are untrusted: sizes and ranks are bounded, and contradictions become problems.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/formats/held_ranks.h"
#include "analyzer/model/bundle.h"
#include "analyzer/util/printable.h"

namespace lockstep {

class BundleBuilder {
 public:
  // If the rank is not in 0..kMaxRanks-1, omits it and adds a problem.
  void AddRank(LooseRank loose);
  // Adds a communicator from a file's table, with the members that the table lists. The ranks' own memberships take
  // precedence.
  void AddComm(CommFacts facts, std::vector<MemberSpan> members);
  void AddProblem(Problem problem) { bundle_.problems.push_back(std::move(problem)); }
  // Adds a host's rack, switch and network. Ignores a host without a name, or with none of these.
  void AddPlace(const HostPlace& place);
  // The number of ranks in the job. The largest number wins; ignores numbers outside 1..kMaxRanks.
  void ExpectRanks(int64_t ranks);
  uint32_t InternString(std::string_view text);
  uint32_t InternShape(std::string_view text);
  void SetStalled(int64_t stalled_ns);
  // Finish() then keeps only the ranks of this job and ranks without a job. If no rank has this job, or it is not set,
  // Finish() keeps the job with the most ranks.
  void SetJob(std::string job) { manifest_job_ = std::move(job); }
  // Returns each job's number of added ranks. Omits ranks without a job.
  std::map<std::string, int64_t> Jobs() const;
  bool empty() const { return held_.ranks.empty(); }

  // Merges everything. The builder is empty afterwards.
  Bundle Finish();

 private:
  struct TableEntry {
    CommFacts facts;
    std::vector<MemberSpan> members;
  };

  void KeepOneJob();
  void KeepNewestGeneration();
  void KeepOnePerRank();
  // Reports a contradiction. After kMaxContradictions, contradictions are only counted.
  void Contradict(const char* like, const std::string& path, int32_t rank, std::string text);
  void MergeCommunicators();
  // Adds the communicators to the bundle, with the facts that most members report. Returns their indexes in the bundle,
  // by SaidFacts::comm; kNoIndex if no kept rank is a member.
  std::vector<uint32_t> AddCommunicators();
  // Fills in Communicator::members from the ranks' own memberships; PlaceListedMembers() adds members from the tables.
  void PlaceMembers(const std::vector<uint32_t>& index);
  void PlaceListedMembers(const std::vector<uint32_t>& index);
  void NumberTwins();
  void CountExpected();

  HeldRanks held_;
  absl::flat_hash_map<CommFacts, uint32_t> facts_;    // index into held_.facts
  absl::flat_hash_map<std::string, uint32_t> comms_;  // SaidFacts::comm of each id
  std::vector<TableEntry> table_;
  std::map<std::string, HostPlace> places_;
  Bundle bundle_;
  std::string manifest_job_;
  int64_t expected_ = 0;
  int contradictions_ = 0;
  absl::flat_hash_map<std::string, uint32_t> strings_, shapes_;
};

}  // namespace lockstep
