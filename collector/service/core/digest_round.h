// Turns digests of a job's ranks into a verdict: builds a bundle from the hosts' messages, analyzes it, and finds the
// root for the detector. Does no I/O. One thread at a time uses it, while another thread of the collector receives.
//
// The ages in an answer were measured between request and receipt. Progress ages count from the request, because
// heartbeats would show newer progress. Other ages count from the receipt, so they are never too high.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/engine/engine.h"
#include "analyzer/formats/merge.h"
#include "analyzer/model/bundle.h"
#include "analyzer/model/rank_set.h"
#include "collector/detect/detector.h"
#include "collector/detect/root_finding.h"
#include "collector/service/core/host_clocks.h"
#include "collector/service/core/known_members.h"
#include "proto/verdict.pb.h"
#include "proto/wire.pb.h"

namespace lockstep {

// Returns the rank of a packed RankDigest without parsing the rest; -1 if it is invalid.
int32_t RankOfDigest(const std::string& packed);

// Missing data, for the verdict's list of unknowns.
struct DigestHole {
  std::string text;       // "the agent of node7 has been silent for 12 s: .."
  std::string host;       // empty if there are several
  Ranks ranks;            // empty if unknown
  int64_t silent_ns = 0;  // how long the host's agent has been silent
};

class DigestRound {
 public:
  // Adds a host's message, or a part of it, from the network. Skips and reports invalid parts.
  void Add(const DigestEnvelope& digest, int64_t received_ns);

  struct Facts {
    std::string job;
    int32_t ranks_expected = 0;
    std::vector<DigestHole> holes;
    std::vector<KnownMembers> members;  // for communicators with ranks that sent no digest
    HostClocks clocks;
    int64_t asked_ns = 0;  // when the digests were requested, on the clock that `clocks` converts to
    int64_t late_after_ns = 5'000'000'000;
    int64_t dead_settle_ns = 1'000'000'000;
    int64_t ends_follow_ns = 0;  // Detector::ends_follow_ns
  };
  // Computes bundle, verdict and root from all added messages. Add() may not be called afterwards.
  void Analyse(const Facts& facts);
  // Uses digests that an earlier collector process stored, instead of new ones.
  void Adopt(Bundle bundle);
  // Repeats the analysis with new evidence. If stalled_ns is not 0, it is the known time without progress.
  void Reanalyse(int64_t stalled_ns);
  // Raises the time without progress in an existing result to the detector's.
  void RaiseStalledTime(int64_t stalled_ns);
  // Sets the folder in which users find the ranks' files.
  void SetFolder(const std::string& folder);
  // Adds newer samples of processes in the bundle, requested at `asked_ns`. Samples may arrive in any order: for each
  // rank, the sample requested last counts. LookForRoot() uses them.
  void Sample(const DigestEnvelope& digest, int64_t asked_ns, int64_t received_ns);
  // Recomputes root() from newer samples, in time linear in the number of ranks.
  void LookForRoot();
  // Adds stacks and process states of ranks in the bundle. Reanalyse() uses them.
  void TakeEvidence(const HostEvidence& evidence);

  const Bundle& bundle() const { return bundle_; }
  const Verdict& verdict() const { return verdict_; }
  const RootFinding& root() const { return root_; }
  size_t ranks() const { return bundle_.ranks.size(); }
  // Returns at most `most` ranks from which to request evidence: the culprits, some ranks that wait directly for them,
  // and one rank of each other chain link.
  std::vector<int32_t> EvidenceRanks(size_t most) const;
  // Returns the ranks from which to request only merged stacks: at most `most` further ranks of all chain links,
  // without `others`.
  std::vector<int32_t> StackRanks(size_t most, const std::vector<int32_t>& others) const;
  // Returns how long the ranks of the first finding have made no progress; -1 if unknown.

 private:
  void AddRank(const DigestEnvelope& host, const std::string& packed, int64_t received_ns);
  void MarkEnds(const HostClocks& clocks, int64_t ends_follow_ns);
  RankMotion MotionOfRank(int32_t rank) const;

  BundleBuilder builder_;
  Bundle bundle_;
  Verdict verdict_;
  RootFinding root_;
  AnalyzeOptions options_;
  struct Motion {
    RankMotion then;
    int64_t asked_ns = 0, received_ns = 0;  // asked_ns is 0 for the round itself
  };
  absl::flat_hash_map<int32_t, Motion> motion_;
  int64_t asked_ns_ = 0, now_ns_ = 0;
  absl::flat_hash_map<int32_t, size_t> place_;  // maps a rank to an index in the bundle
  // Boot ID, and the monotonic clock of that boot when it answered.
  std::vector<std::pair<std::string, int64_t>> answered_;
  RankDigest digest_;  // reused to save allocations
  int malformed_ = 0;
  size_t memberships_ = 0;
};

}  // namespace lockstep
