// Merges ranks from several files: one job, its newest generation, one entry per rank, and communicators merged by
// id. The ring loader, the dump reader and LoadPaths use it. Files are untrusted: sizes and ranks are bounded, and
// contradictions become problems.
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
  // Refuses a negative rank or one of at least kMaxRanks, and adds a problem.
  void AddRank(LooseRank loose);
  // A communicator's table entry and the members that it lists. The members' own data takes precedence.
  void AddComm(CommFacts facts, std::vector<MemberSpan> members);
  void AddProblem(Problem problem) { bundle_.problems.push_back(std::move(problem)); }
  // A host's position, from its own file. Ignores hosts without a name, and empty positions.
  void AddPlace(const HostPlace& place);
  // The largest number wins; 0 if unknown.
  void ExpectRanks(int64_t ranks);
  uint32_t InternString(std::string_view text);
  uint32_t InternShape(std::string_view text);
  void SetStalled(int64_t stalled_ns);
  // Keeps only the ranks of this job.
  void SetJob(std::string job) { manifest_job_ = std::move(job); }
  // The jobs of the added ranks, and each job's number of ranks. Omits ranks whose files name no job.
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
  // Reports a contradiction. After the first few, they are only counted.
  void Contradict(const char* like, const std::string& path, int32_t rank, std::string text);
  void MergeCommunicators();
  // What most members report about each communicator. Returns the index in the bundle by SaidFacts::comm; kNoIndex if
  // there is none.
  std::vector<uint32_t> AddCommunicators();
  // Uses what ranks report about themselves, then the other ranks' lists.
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
