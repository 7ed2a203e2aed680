#include "analyzer/browser/explore/calls.h"

#include <algorithm>
#include <string>

#include "analyzer/util/time_units.h"

namespace lockstep {

void CallSource::Get(size_t rank, std::vector<PageCall>* calls) const {
  calls->clear();
  Read(rank, calls);
  const auto earlier = [](const PageCall& a, const PageCall& b) { return a.enter_ns < b.enter_ns; };
  if (std::all_of(calls->begin(), calls->end(), [](const PageCall& call) { return call.enter_ns != 0; }) &&
      !std::is_sorted(calls->begin(), calls->end(), earlier)) {
    std::stable_sort(calls->begin(), calls->end(), earlier);
  }
}

void BundleCalls::Read(size_t rank, std::vector<PageCall>* calls) const {
  const Rank& from = bundle_.ranks[rank];
  for (const Op& op : from.ops) {
    if (op.membership >= from.memberships.size()) continue;
    calls->push_back({op.membership, op.kind, op.state, op.root_or_peer, op.seq, op.enter_ns, op.started_ns,
                      op.completed_ns, op.call_site});
  }
}

void IndexCalls::Read(size_t rank, std::vector<PageCall>* calls) const {
  const IndexRank& from = index_.ranks()[rank];
  const IndexColumns columns = index_.columns(rank);
  const auto memberships = index_.memberships().subspan(from.first_membership, from.memberships);
  const auto time = [&](uint32_t us) { return us == kIndexNoTime ? 0 : from.base_ns + int64_t{us} * kUs; };
  for (size_t i = 0; i < columns.kind.size(); ++i) {
    // Reads each value once, because the file may change between two reads.
    const uint16_t membership = columns.membership[i];
    if (membership >= memberships.size()) continue;
    const uint32_t seq = columns.seq[i], peer = columns.peer.empty() ? kIndexNoPeer : columns.peer[i];
    const uint8_t state = columns.state[i];
    PageCall call;
    call.membership = membership;
    call.kind = static_cast<ring::CallKind>(columns.kind[i]);
    if (state <= static_cast<uint8_t>(OpState::kCaptured)) call.state = static_cast<OpState>(state);
    if (peer != kIndexNoPeer && peer <= INT32_MAX) call.peer = static_cast<int32_t>(peer - 1);
    if (seq != kIndexNoSeq) call.seq = memberships[membership].seq_base + seq;
    call.enter_ns = time(columns.enter[i]);
    call.started_ns = time(columns.start[i]);
    call.completed_ns = time(columns.end[i]);
    calls->push_back(call);
  }
}

Bundle FrameOfIndex(const IndexReader& index, const ViewFacts& facts) {
  Bundle frame;
  frame.job = facts.verdict().job();
  frame.ranks_expected = facts.verdict().ranks_expected();
  for (const IndexComm& from : index.comms()) {
    Communicator comm;
    comm.id = std::string(index.text(from.id));
    comm.name = std::string(index.text(from.name));
    comm.size = from.size;
    const auto members = index.members(from);
    comm.members.assign(members.begin(), members.end());
    frame.comms.push_back(std::move(comm));
  }
  for (const IndexRank& from : index.ranks()) {
    Rank rank;
    rank.rank = from.rank;
    rank.host = std::string(index.text(from.host));
    rank.gpu_index = from.gpu;
    rank.pid = from.pid;
    for (const IndexMembership& m : index.memberships().subspan(from.first_membership, from.memberships)) {
      Membership membership;
      membership.comm = m.comm;
      membership.member_rank = m.member_rank;
      membership.issued = m.issued;
      membership.completed = m.completed;
      rank.memberships.push_back(std::move(membership));
    }
    frame.ranks.push_back(std::move(rank));
  }
  return frame;
}

CallStates::CallStates(const Bundle& bundle, const ViewFacts& facts) : bundle_(bundle), odd_(OddCallsOf(facts)) {
  for (const RankFacts& rank : facts.ranks()) {
    const WaitClass::Kind kind = rank.wait_class() < 0 ? WaitClass::HEALTHY : facts.classes(rank.wait_class()).kind();
    waits_.push_back(kind == WaitClass::VICTIM || kind == WaitClass::IN_CYCLE);
  }
}

ViewState CallStates::Of(size_t rank, const PageCall& call) const {
  const Membership& m = bundle_.ranks[rank].memberships[call.membership];
  const bool collective = ring::IsCollective(call.kind);
  if (collective && !odd_.empty()) {
    const auto found = odd_.find({static_cast<int32_t>(m.comm), call.seq});
    if (found != odd_.end() && found->second.Contains(bundle_.ranks[rank].rank)) return ViewState::kMismatch;
  }
  const ViewState state = StateOfOp(call.state, waits_[rank]);
  return state == ViewState::kIssued && collective && call.seq >= 0 && m.completed >= call.seq ? ViewState::kCompleted
                                                                                               : state;
}

}  // namespace lockstep
