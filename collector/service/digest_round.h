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

// Data that is not there, for the verdict's list of what is not known.
struct DigestHole {
  std::string text;       // "agent of node7 silent for 12 s: ranks 8-15"
  std::string host;       // empty: several
  Ranks ranks;            // empty: not known which
  int64_t silent_ns = 0;  // of the host's agent
};

class DigestRound {
 public:
  // A host's message, or a part of it, as it came from the network: what makes no sense is left out and said.
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
    // Whoever watches the job says that it stands still for so long; 0: found out from the digests themselves.
    int64_t stalled_ns = 0;
  };
  // Bundle, verdict and root from everything added. Nothing may be added afterwards.
  void Analyse(const Facts& facts);
  // In the place of digests: what an earlier life of the collector has kept of them.
  void Adopt(Bundle bundle);
  // The same bundle once more: with the evidence taken since, and, where stalled_ns is not 0, known to stand still.
  void Reanalyse(int64_t stalled_ns);
  // The detector's word for how long it has stood still, into what was found already.
  void StoodStill(int64_t stalled_ns);
  // Where people will find the ranks' files.
  void LiesIn(const std::string& folder);
  // Newer samples of processes that are in the bundle, asked for at `asked_ns`. They may come in any order: of each
  // rank the newest that was asked for counts. LookForRoot() uses them.
  void Sample(const DigestEnvelope& digest, int64_t asked_ns, int64_t received_ns);
  // root() anew from the samples since. Linear in all ranks.
  void LookForRoot();
  // Stacks and process states of ranks in the bundle; Reanalyse() uses them.
  void TakeEvidence(const HostEvidence& evidence);

  const Bundle& bundle() const { return bundle_; }
  const Verdict& verdict() const { return verdict_; }
  const RootFinding& root() const { return root_; }
  size_t ranks() const { return bundle_.ranks.size(); }
  // Whom to ask for evidence: the culprits, those next to them in the chain, one of each class of victims; at most so
  // many.
  std::vector<int32_t> EvidenceRanks(size_t most) const;
  // Of whom stacks alone are worth having, in one tree: more of each class of victims, not those of `others`; at most
  // so many.
  std::vector<int32_t> StackRanks(size_t most, const std::vector<int32_t>& others) const;
  // How long nobody has moved of those involved in the first finding; -1: not known.
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
