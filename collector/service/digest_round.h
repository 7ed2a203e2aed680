// Digests of a job's ranks on their way to a verdict: from messages of hosts to the analysis' bundle, the verdict, and
// what the detector wants to know of its root. Plain work without I/O: a thread of the collector's does it while
// another goes on receiving. One thread at a time.
//
// The ages in an answer were true at a moment between asking for it and receiving it; nobody says at which. They count
// as of the asking; what is added to the time without activity, which nobody else would contradict, counts from the
// receiving.
#ifndef LOCKSTEP_COLLECTOR_SERVICE_DIGEST_ROUND_H_
#define LOCKSTEP_COLLECTOR_SERVICE_DIGEST_ROUND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/engine/engine.h"
#include "analyzer/formats/merge.h"
#include "analyzer/model/bundle.h"
#include "collector/common/rank_set.h"
#include "collector/detect/detector.h"
#include "collector/detect/root_finding.h"
#include "collector/service/host_clocks.h"
#include "collector/service/known_members.h"
#include "proto/verdict.pb.h"
#include "proto/wire.pb.h"

namespace lockstep {

// Which rank a packed RankDigest is of, without parsing the rest; -1: it is none.
int32_t RankOfDigest(const std::string& packed);

// Missing data, for the verdict's list of unknowns.
struct DigestHole {
  std::string text;       // "agent of node7 silent for 12 s: ranks 8-15"
  std::string host;       // empty: several
  Ranks ranks;            // empty: not known which
  int64_t silent_ns = 0;  // how long the host's agent has been silent
};

class DigestRound {
 public:
  // A host's message, or a part of it, from the network: invalid parts are left out and reported.
  void Add(const DigestEnvelope& digest, int64_t received_ns);

  struct Facts {
    std::string job;
    int32_t ranks_expected = 0;
    std::vector<DigestHole> holes;
    std::vector<KnownMembers> members;  // of communicators that ranks without a digest are in
    HostClocks clocks;
    int64_t asked_ns = 0;  // when the digests were asked for, by the clock that `clocks` are laid on
    int64_t late_after_ns = 5'000'000'000;
    int64_t dead_settle_ns = 1'000'000'000;
    int64_t ends_follow_ns = 0;  // Detector::ends_follow_ns
    // How long nothing has moved, from the observer of the job; 0: derive it from the digests.
    int64_t stalled_ns = 0;
  };
  // Bundle, verdict and root from everything added. Nothing may be added afterwards.
  void Analyse(const Facts& facts);
  // In the place of digests: what an earlier life of the collector has kept of them.
  void Adopt(Bundle bundle);
  // The bundle again, with new evidence; if stalled_ns is not 0, with that as the known time without progress.
  void Reanalyse(int64_t stalled_ns);
  // Sets the detector's time without progress in an existing result.
  void StoodStill(int64_t stalled_ns);
  // Where people will find the ranks' files.
  void LiesIn(const std::string& folder);
  // Newer samples of processes that are in the bundle, asked for at `asked_ns`. They may come in any order: of each
  // rank the newest that was asked for counts. LookForRoot() uses them.
  void Sample(const DigestEnvelope& digest, int64_t asked_ns, int64_t received_ns);
  // root() again, from newer samples. Linear in all ranks.
  void LookForRoot();
  // Stacks and process states of ranks in the bundle; Reanalyse() uses them.
  void TakeEvidence(const HostEvidence& evidence);

  const Bundle& bundle() const { return bundle_; }
  const Verdict& verdict() const { return verdict_; }
  const RootFinding& root() const { return root_; }
  size_t ranks() const { return bundle_.ranks.size(); }
  // The ranks whose evidence is requested: the culprits, their neighbors in the chain, one of each class of victims; at
  // most this many.
  std::vector<int32_t> EvidenceRanks(size_t most) const;
  // The ranks that send only stacks, in one tree: more of each class of victims, none of `others`; at most this many.
  std::vector<int32_t> StackRanks(size_t most, const std::vector<int32_t>& others) const;
  // How long the ranks of the first finding have not moved; -1: unknown.
  int64_t still_ns() const { return root_.still_ns; }

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
    int64_t asked_ns = 0, received_ns = 0;  // asked_ns 0: in the round itself
  };
  absl::flat_hash_map<int32_t, Motion> motion_;
  int64_t asked_ns_ = 0, now_ns_ = 0;
  absl::flat_hash_map<int32_t, size_t> place_;             // rank -> index in the bundle
  std::vector<std::pair<std::string, int64_t>> answered_;  // boot id, its monotonic clock in the answer
  RankDigest digest_;                                      // its memory is used again and again
  int malformed_ = 0;
  size_t memberships_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_SERVICE_DIGEST_ROUND_H_
