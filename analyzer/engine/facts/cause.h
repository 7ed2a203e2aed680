// Findings under construction, with their evidence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/evidence/activity_rules.h"
#include "analyzer/model/bundle.h"
#include "analyzer/util/sorted.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Sets the fields of a sentence. `Self` must have mutable_detail().
template <typename Self>
class Sentence {
 public:
  Self& Call(CallRef call) {
    *detail()->mutable_call() = std::move(call);
    return *self();
  }
  Self& Other(CallRef call) {
    *detail()->mutable_other() = std::move(call);
    return *self();
  }
  Self& Name(std::string name) {
    detail()->set_name(std::move(name));
    return *self();
  }
  Self& Names(std::string name, std::string other) {
    detail()->set_other_name(std::move(other));
    return Name(std::move(name));
  }
  Self& Flag(bool flag) {
    detail()->set_flag(flag);
    return *self();
  }
  template <typename Integer>
  Self& Count(Integer count) {
    detail()->set_count(static_cast<int64_t>(count));
    return *self();
  }
  template <typename Integer, typename Whole>
  Self& CountOf(Integer count, Whole whole) {
    detail()->set_of(static_cast<int64_t>(whole));
    return Count(count);
  }
  template <typename Integer>
  Self& Number(Integer number) {
    detail()->set_number(static_cast<int64_t>(number));
    return *self();
  }
  // Adds the ranks (indexes) that the sentence names, in this order. NamingOthers adds a second list.
  Self& Naming(const Bundle& bundle, const auto& ranks) {
    for (const int32_t r : ranks) detail()->add_ranks(bundle.ranks[r].rank);
    return *self();
  }
  Self& Naming(const Bundle& bundle, std::initializer_list<int32_t> ranks) {
    return Naming<std::initializer_list<int32_t>>(bundle, ranks);
  }
  Self& NamingOthers(const Bundle& bundle, const auto& ranks) {
    for (const int32_t r : ranks) detail()->add_others(bundle.ranks[r].rank);
    return *self();
  }

 private:
  Self* self() { return static_cast<Self*>(this); }
  Detail* detail() { return self()->mutable_detail(); }
};

// One item of evidence: a kind, and the fields that its sentence needs. `ranks` are indexes into Bundle::ranks.
struct EvidenceItem : Sentence<EvidenceItem> {
  EvidenceItem(Evidence::Kind kind, std::vector<int32_t> of) : ranks(std::move(of)) { fields.set_kind(kind); }
  EvidenceItem(Evidence of_kind, std::vector<int32_t> of) : fields(std::move(of_kind)), ranks(std::move(of)) {}

  using Sentence::Naming;
  EvidenceItem& Naming(const Bundle& bundle) { return Naming(bundle, ranks); }  // all ranks of the item
  EvidenceItem& On(const Bundle& bundle, uint32_t comm);
  Detail* mutable_detail() { return fields.mutable_detail(); }

  Evidence fields;  // all fields except `ranks`, `source` and `text`
  std::vector<int32_t> ranks;
};

// Returns whether the sentences of both items are equal.
bool SameEvidence(const EvidenceItem& a, const EvidenceItem& b);

// Returns a reference to the communicator, with `label` for sentences.
CommunicatorRef Labelled(const Bundle& bundle, uint32_t comm);

// Adds an entry to Verdict::ruled_out and returns the entry.
NotTheCause* RuleOut(NotTheCause::What what, Verdict* verdict);

// Returns a rank's call for sentences: "AllReduce #935", and its place in the code.
CallRef CallOf(const Bundle& bundle, int32_t rank_index, const Op& op);
// Like CallOf, but without the call's place in the code.
CallRef BriefCall(const Bundle& bundle, int32_t rank_index, const Op& op);
// Returns a reference to a call that is known only by its text: "ncclCommSplit #2".
CallRef CallNamed(std::string text, std::string on);
// "collective #935": a call whose record was overwritten.
std::string LostCollective(int64_t seq);
// "AllReduce #935" on this communicator.
CallRef NumberedCall(const Bundle& bundle, const Op& op, int64_t seq, uint32_t comm);

// A finding under construction. `ranks` are indexes into Bundle::ranks; `missing` are global ranks without data.
struct Cause : Sentence<Cause> {
  FindingKind kind = FINDING_UNSPECIFIED;
  std::vector<int32_t> ranks, missing;
  uint32_t comm = kNoIndex;
  const Op* op = nullptr;  // the operation concerned; op_rank is its rank
  int32_t op_rank = -1;
  int64_t lost_seq = kNone;  // number of that operation, a collective, if its record was overwritten (`op` is null)
  Grade grade = GRADE_STRONG;
  std::vector<EvidenceItem> evidence;
  Reason reason = REASON_UNSPECIFIED;
  Detail detail;
  std::vector<Rival> rivals;  // additional explanations, besides those of the reason
  std::string inside;         // see Finding::stuck_inside
  int64_t since_ns = 0;       // when `since_rank` (index) last moved, on its clock; 0 if unknown
  int32_t since_rank = -1;
  std::string cause;              // see Finding::cause
  Stall stall = Stall::kUnknown;  // what the processes of the named ranks were doing, as sampled
  bool moving = false;            // one of these processes uses CPU or I/O
  bool doubtful = false;          // based on operations that may already be complete, or not have begun
  bool beside = false;  // no rank waits for the named ranks: found in addition to another cause and reported after it
  bool hypothesis = false;  // fits the evidence but is not proven
  // For RANK_NO_DATA: the others wait for the rank only in the first operations of communicators.
  bool first_only = false;
  // The communicator if all named ranks are in its first operation, and the operation's record is lost.
  uint32_t first_lost = kNoIndex;
  bool not_begun = false;  // no GPU has started the operation: earlier computation still runs, perhaps normally
  std::optional<CommonFactor> factor;  // what the named ranks share
  // Set only for slowness findings. The fields mean the same as in Finding.
  int64_t cost_ns_per_step = 0, cost_uncertainty_ns = 0;
  std::string pattern;
  double slowdown = 0;
  std::vector<uint32_t> nodes;  // nodes of the wait graph, for chain and victims
  // Where the ranks in `waiting` (indexes) wait, if not in `op`: a rendezvous, or the call `op_name`.
  ChainLink::What wait = ChainLink::OPERATION;
  std::string op_name;
  std::vector<int32_t> waiting;

  // Sets what is at fault, the reason, and how certain that is.
  Cause& Is(FindingKind fault, Reason why, Grade certain) {
    kind = fault, reason = why, grade = certain;
    return *this;
  }
  Cause& Because(Reason why, Grade certain) { return Is(kind, why, certain); }
  // Sets which ranks (indexes) are at fault.
  Cause& Of(std::vector<int32_t> whom) {
    ranks = std::move(whom);
    std::ranges::sort(ranks);
    return *this;
  }
  // Sets the operation concerned, its rank (index) and its communicator.
  Cause& In(uint32_t of, const Op* operation, int32_t whose) {
    comm = of, op = operation, op_rank = whose;
    return *this;
  }
  // Like In, and names the operation in the sentence.
  Cause& At(const Bundle& bundle, uint32_t of, const Op& operation, int32_t whose) {
    return In(of, &operation, whose).Call(CallOf(bundle, whose, operation));
  }
  Detail* mutable_detail() { return &detail; }
  // Makes the cause a hypothesis of at most this grade.
  void Doubt(Grade most) {
    hypothesis = true;
    grade = std::min(grade, most);
  }
  // Takes over the other cause's nodes and evidence, and clears its kind.
  void Absorb(Cause* other) {
    Append(other->nodes, &nodes);
    for (EvidenceItem& item : other->evidence) evidence.push_back(std::move(item));
    other->kind = FINDING_UNSPECIFIED;
  }
  // Begins an item of evidence. The caller sets the other fields of its sentence.
  EvidenceItem& Add(Evidence::Kind of_kind, std::vector<int32_t> of) {
    return evidence.emplace_back(of_kind, std::move(of));
  }
  // Adds an alternative explanation. The caller may fill in its detail.
  Detail* AddRival(Rival::Kind rival) {
    rivals.emplace_back().set_kind(rival);
    return rivals.back().mutable_detail();
  }
};

inline Cause CauseOf(FindingKind kind, Reason reason, Grade grade, std::vector<int32_t> ranks = {}) {
  Cause c;
  c.Is(kind, reason, grade).ranks = std::move(ranks);
  return c;
}

// Returns whether one of the causes names that rank (index).
bool Names(const std::vector<Cause>& causes, int32_t rank_index);

}  // namespace lockstep
