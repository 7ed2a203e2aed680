#include "analyzer/engine/facts/cause.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

namespace {

// Serializes what the item's sentence shows: durations in tenths of a second, communicators by label, and named ranks.
std::string AsRead(const EvidenceItem& item) {
  constexpr int64_t kTenth = 100'000'000;
  Evidence seen = item.fields;
  switch (seen.kind()) {
    case Evidence::STACK:
    case Evidence::PROCESS_STATE: seen.add_ranks(item.ranks.empty() ? -1 : item.ranks[0]); break;
    case Evidence::IN_OPERATION:
      seen.add_ranks(item.ranks.empty() ? -1 : item.ranks[0]);
      seen.clear_operation();
      break;
    case Evidence::TWO_CALLS: seen.mutable_detail()->clear_flag(); break;
    case Evidence::WAITING: seen.add_ranks(static_cast<int32_t>(item.ranks.size())); break;
    default: break;
  }
  if (seen.has_duration_ns()) seen.set_duration_ns((seen.duration_ns() + kTenth / 2) / kTenth);
  if (seen.has_communicator()) {
    seen.mutable_communicator()->clear_id();
    seen.mutable_communicator()->clear_name();
  }
  return seen.SerializeAsString();
}

}  // namespace

bool SameEvidence(const EvidenceItem& a, const EvidenceItem& b) {
  return a.fields.kind() == b.fields.kind() && AsRead(a) == AsRead(b);
}

CommunicatorRef Labelled(const Bundle& bundle, uint32_t comm) {
  CommunicatorRef ref;
  ref.set_id(bundle.comms[comm].id);
  ref.set_name(bundle.comms[comm].name);
  ref.set_size(bundle.comms[comm].size);
  ref.set_label(CommText(bundle, comm));
  return ref;
}

NotTheCause* RuleOut(NotTheCause::What what, Verdict* verdict) {
  NotTheCause* out = verdict->add_ruled_out();
  out->set_what(what);
  return out;
}

EvidenceItem& EvidenceItem::On(const Bundle& bundle, uint32_t comm) {
  *fields.mutable_communicator() = Labelled(bundle, comm);
  return *this;
}

CallRef BriefCall(const Bundle& bundle, int32_t rank_index, const Op& op) {
  const Rank& rank = bundle.ranks[rank_index];
  const bool known = op.membership < rank.memberships.size();
  return CallNamed(OpText(bundle, rank, op), known ? CommText(bundle, rank.memberships[op.membership].comm) : "");
}

CallRef CallOf(const Bundle& bundle, int32_t rank_index, const Op& op) {
  CallRef call = BriefCall(bundle, rank_index, op);
  if (op.call_site != kNoIndex && op.call_site < bundle.strings.size()) {
    call.set_site(bundle.strings[op.call_site]);
  } else if (op.caller != 0) {
    call.set_site(absl::StrFormat("called from %08x+0x%x", op.caller_object, op.caller));
  }
  return call;
}

bool Names(const std::vector<Cause>& causes, int32_t rank_index) {
  return std::ranges::any_of(causes, [&](const Cause& c) { return Contains(c.ranks, rank_index); });
}

std::string LostCollective(int64_t seq) { return absl::StrCat("collective #", seq); }

CallRef NumberedCall(const Bundle& bundle, const Op& op, int64_t seq, uint32_t comm) {
  return CallNamed(absl::StrCat(OpName(bundle, op), " #", seq), CommText(bundle, comm));
}

CallRef CallNamed(std::string text, std::string on) {
  CallRef call;
  call.set_text(std::move(text));
  call.set_on(std::move(on));
  return call;
}

}  // namespace lockstep
