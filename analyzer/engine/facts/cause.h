// A finding in the making, as the stages of the engine pass it on.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_CAUSE_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_CAUSE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/evidence/activity_rules.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Cause::op_name of waits for another process by other means than NCCL.
inline constexpr char kRendezvous[] = "a rendezvous outside of NCCL";

// One item of evidence: a fact in words, or fields of another kind than FACT. `ranks` are indexes into Bundle::ranks.
struct EvidenceItem {
  EvidenceItem(std::string text, std::vector<int32_t> of) : ranks(std::move(of)) { fields.set_text(std::move(text)); }
  EvidenceItem(Evidence of_kind, std::vector<int32_t> of) : fields(std::move(of_kind)), ranks(std::move(of)) {}
  Evidence fields;  // all but `ranks` and `source`
  std::vector<int32_t> ranks;
};

// Whether a reader sees the same in both.
bool SameEvidence(const EvidenceItem& a, const EvidenceItem& b);

// With `label`, for sentences.
CommunicatorRef Labelled(const Communicator& comm);

void RuleOut(NotTheCause::What what, std::string why, Verdict* verdict);

// A call of that rank, for sentences.
CallRef CallOf(const Bundle& bundle, const Rank& rank, const Op& op);
// Any other: "ncclCommSplit #2".
CallRef CallNamed(std::string text, std::string on);

// A finding in the making. `ranks` are indexes into Bundle::ranks; `missing` are global ranks without data.
struct Cause {
  FindingKind kind = FINDING_UNSPECIFIED;
  std::vector<int32_t> ranks, missing;
  uint32_t comm = kNoIndex;
  const Op* op = nullptr;  // the operation at issue; whose it is stands in op_rank
  int32_t op_rank = -1;
  Grade grade = GRADE_STRONG;
  std::vector<EvidenceItem> evidence;
  Reason reason = REASON_UNSPECIFIED;
  Detail detail;
  std::vector<Rival> rivals;  // beside those that the reason always has
  std::string inside;         // Finding::stuck_inside
  int64_t since_ns = 0;       // when `since_rank` (index) was last seen to move, by its clock; 0: not known
  int32_t since_rank = -1;
  std::string cause;              // Finding::cause
  Stall stall = Stall::kUnknown;  // what the named hosts are seen in
  bool moving = false;            // one of the named hosts uses CPU or I/O
  bool doubtful = false;          // rests on operations that may as well be complete, or not begun
  bool beside = false;            // nobody waits for it: seen beside another cause, told behind it
  bool hypothesis = false;        // fits the evidence, not proven by it
  bool first_only =
      false;  // of RANK_NO_DATA: the others wait for it in first operations of communicators, nowhere else
  bool by_damaged =
      false;  // likewise: all that wait for it are damaged records, which may be in something else that they lost
  uint32_t first_lost = kNoIndex;  // communicator whose first operation all the named are in, though its record is gone
  bool not_begun = false;          // no GPU is in the operation: computation ahead of it, which may be legal
  std::optional<CommonFactor> factor;  // what the named ranks share
  // Only for findings of slowness; the same as in Finding.
  int64_t cost_ns_per_step = 0, cost_uncertainty_ns = 0;
  std::string pattern;
  double slowdown = 0;
  std::vector<uint32_t> nodes;  // of the wait graph, for chain and victims
  // Of the making of a communicator: the call, and who waits in it (indexes).
  std::string op_name;
  std::vector<int32_t> waiting;

  // Begins a rival; the caller may fill its detail.
  Detail* AddRival(Rival::Kind rival) {
    rivals.emplace_back().set_kind(rival);
    return rivals.back().mutable_detail();
  }
};

// Whether one of the causes names that rank (index).
bool Names(const std::vector<Cause>& causes, int32_t rank_index);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_CAUSE_H_
