#include "analyzer/engine/facts/cause.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "analyzer/engine/facts/model.h"

namespace lockstep {

namespace {

// An item as the reader sees it: durations in tenths of a second, communicators by label, and only the ranks in
// `detail`.
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

CommunicatorRef Labelled(const Bundle& bundle, const Communicator& comm) {
  CommunicatorRef ref;
  ref.set_id(comm.id);
  ref.set_name(comm.name);
  ref.set_size(comm.size);
  ref.set_label(CommText(bundle, comm));
  return ref;
}

NotTheCause* RuleOut(NotTheCause::What what, Verdict* verdict) {
  NotTheCause* out = verdict->add_ruled_out();
  out->set_what(what);
  return out;
}

EvidenceItem& EvidenceItem::Naming(const Bundle& bundle, const std::vector<int32_t>& named) {
  for (const int32_t r : named) detail()->add_ranks(bundle.ranks[r].rank);
  return *this;
}

EvidenceItem& EvidenceItem::On(const Bundle& bundle, const Communicator& comm) {
  *fields.mutable_communicator() = Labelled(bundle, comm);
  return *this;
}

EvidenceItem& EvidenceItem::Call(CallRef call) {
  *detail()->mutable_call() = std::move(call);
  return *this;
}

EvidenceItem& EvidenceItem::Name(std::string name) {
  detail()->set_name(std::move(name));
  return *this;
}

EvidenceItem& EvidenceItem::Names(std::string name, std::string other) {
  detail()->set_other_name(std::move(other));
  return Name(std::move(name));
}

EvidenceItem& EvidenceItem::Flag(bool flag) {
  detail()->set_flag(flag);
  return *this;
}

CallRef BriefCall(const Bundle& bundle, const Rank& rank, const Op& op) {
  const bool known = op.membership < rank.memberships.size();
  return CallNamed(OpText(bundle, rank, op),
                   known ? CommText(bundle, bundle.comms[rank.memberships[op.membership].comm]) : "");
}

CallRef CallOf(const Bundle& bundle, const Rank& rank, const Op& op) {
  CallRef call = BriefCall(bundle, rank, op);
  if (op.call_site != kNoIndex && op.call_site < bundle.strings.size()) {
    call.set_site(bundle.strings[op.call_site]);
  } else if (op.caller != 0) {
    call.set_site(absl::StrFormat("called from %08x+0x%x", op.caller_object, op.caller));
  }
  return call;
}

bool Names(const std::vector<Cause>& causes, int32_t rank_index) {
  return std::any_of(causes.begin(), causes.end(), [&](const Cause& c) {
    return std::find(c.ranks.begin(), c.ranks.end(), rank_index) != c.ranks.end();
  });
}

CallRef CallNamed(std::string text, std::string on) {
  CallRef call;
  call.set_text(std::move(text));
  call.set_on(std::move(on));
  return call;
}

}  // namespace lockstep
