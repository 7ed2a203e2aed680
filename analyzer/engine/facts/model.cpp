#include "analyzer/engine/facts/model.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/exits.h"
#include "analyzer/engine/facts/gpu_wait.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/parallel.h"
#include "analyzer/util/rank_text.h"

namespace lockstep {

using ring::CallKind;
using ring::CommState;

Model::Model(const Bundle& b, const AnalyzeOptions& options) : bundle(b), options_(options) {
  shares_process_.resize(bundle.ranks.size());
  absl::flat_hash_map<std::pair<std::string_view, int32_t>, size_t> first_of;
  for (const Rank& r : bundle.ranks) {
    const size_t index = static_cast<size_t>(&r - bundle.ranks.data());
    if (r.pid > 0) {
      const auto [first, added] = first_of.try_emplace({r.host, r.pid}, index);
      if (!added) shares_process_[first->second] = shares_process_[index] = true;
    }
    anyone_runs_ |= r.process.life == Life::kRunning;
    ages_told_ |= !r.damaged && r.captured_ns > 0;
  }
  sizes_inferred_ = std::ranges::any_of(bundle.comms, [](const Communicator& comm) { return comm.members_inferred; });
  ranks.resize(bundle.ranks.size());
  BuildComms();
  exchanges_.resize(bundle.ranks.size());
  std::vector<Standing> standing(WorkerCount(ranks.size()));
  Parallel(ranks.size(), [&](size_t i, size_t worker) { BuildRank(i, &standing[worker]); });
  for (const Standing& s : standing) {
    stalled |= s.stalled;
    set_back_ |= s.set_back;
  }
  // If a rank's clock was set back, the age of its operations is unknown. If no rank moves, the rank may have been
  // stuck for long.
  stalled |= set_back_ && std::ranges::none_of(ranks, &RankView::seen_moving);
  // A process that ended because of another process counts as running, in the state of its last activity.
  const std::vector<bool> consequences = FindConsequences(*this);
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (consequences[i]) SetHost(i, false);
  }
}

// Communicators of equal size whose names differ only in numbers ("tp_0", "tp_3") form a class. Without a name, the
// order of creation defines the class.
void Model::Classify(const Communicator& comm, CommView* view) const {
  std::string pattern, names;
  bool numbered = false;
  for (char c : comm.name) {
    if (c < '0' || c > '9') {
      pattern += c;
      names += c;
    } else if (pattern.empty() || pattern.back() != '#') {
      pattern += '#';
      names += '*';
      numbered = true;
    }
  }
  if (pattern.empty() || pattern == "#") {
    // If members are inferred from use, sizes do not separate classes.
    const bool sized = comm.ordinal == 0 || !sizes_inferred_;
    view->klass =
        absl::StrCat(sized ? comm.size : 0, "/", comm.parent_id.empty() ? "root" : "child", "/", comm.ordinal);
    return;
  }
  view->klass = absl::StrCat(comm.size, "/", pattern);
  if (numbered) view->names = std::move(names);
}

// Infers the global ranks of members that no source contains. In the communicator of all ranks, they equal the member
// ranks. The global ranks of other groups are assumed to be equally far apart, unless the known ones are not.
void Model::InferMembers(const Communicator& comm, CommView* view) const {
  auto& members = view->members;
  if (comm.size > 0 && comm.size == bundle.ranks_expected && members.size() == static_cast<size_t>(comm.size)) {
    for (size_t m = 0; m < members.size(); ++m) {
      if (members[m].global_rank >= 0 && members[m].global_rank != static_cast<int32_t>(m)) return;
    }
    for (size_t m = 0; m < members.size(); ++m) members[m].global_rank = static_cast<int32_t>(m);
    return;
  }
  int64_t first = -1, stride = 0;
  for (size_t m = 0; m < members.size(); ++m) {
    if (members[m].global_rank < 0) continue;
    if (first < 0) {
      first = static_cast<int64_t>(m);
      continue;
    }
    const int64_t span = members[m].global_rank - members[first].global_rank, steps = static_cast<int64_t>(m) - first;
    if (span % steps != 0 || (stride != 0 && span / steps != stride)) return;
    stride = span / steps;
  }
  if (stride <= 0) return;
  for (size_t m = 0; m < members.size(); ++m) {
    const int64_t rank = members[first].global_rank + (static_cast<int64_t>(m) - first) * stride;
    if (members[m].global_rank < 0 && rank >= 0 && (bundle.ranks_expected == 0 || rank < bundle.ranks_expected)) {
      members[m].global_rank = static_cast<int32_t>(rank);
    }
  }
}

void Model::BuildComms() {
  comms.resize(bundle.comms.size());
  absl::flat_hash_map<std::string, uint32_t> kind_of_class;
  absl::flat_hash_map<std::string_view, uint32_t> comm_of_id;
  for (uint32_t c = 0; c < comms.size(); ++c) comm_of_id.try_emplace(bundle.comms[c].id, c);
  for (size_t c = 0; c < comms.size(); ++c) {
    const Communicator& comm = bundle.comms[c];
    CommView& view = comms[c];
    Classify(comm, &view);
    if (const auto parent = comm_of_id.find(comm.parent_id); parent != comm_of_id.end()) view.parent = parent->second;
    view.kind = kind_of_class.try_emplace(view.klass, static_cast<uint32_t>(kinds.size())).first->second;
    if (view.kind == kinds.size()) kinds.emplace_back();
    kinds[view.kind].push_back(static_cast<uint32_t>(c));
    view.members.resize(comm.members.size());
    for (size_t m = 0; m < comm.members.size(); ++m) view.members[m].global_rank = comm.members[m];
    InferMembers(comm, &view);
  }
  // Sequence numbers of each membership's recorded collectives.
  struct Recorded {
    int64_t newest = kNone, oldest = kUnknown;
  };
  std::vector<Recorded> recorded;
  std::vector<size_t> first_recorded;
  for (const Rank& rank : bundle.ranks) {
    first_recorded.push_back(recorded.size());
    recorded.resize(recorded.size() + rank.memberships.size());
    Recorded* const own = recorded.data() + first_recorded.back();
    const bool open = std::ranges::any_of(rank.threads, [](const auto& t) { return t.group_depth > 0; });
    for (const Op& op : rank.ops) {
      if (op.membership == kNoIndex) continue;
      if (open && op.state == OpState::kQueued)
        ranks[first_recorded.size() - 1].queued.push_back(static_cast<uint32_t>(&op - rank.ops.data()));
      if (IsPointToPoint(op.kind)) {
        comms[rank.memberships[op.membership].comm].used_for_p2p = true;
      } else if (IsCollective(op.kind) && op.seq >= 0 && op.state != OpState::kFailed && op.state != OpState::kQueued) {
        Recorded& of = own[op.membership];
        of.newest = std::max(of.newest, op.seq);
        of.oldest = of.oldest == kUnknown ? op.seq : std::min(of.oldest, op.seq);
      }
    }
  }
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    const Rank& rank = bundle.ranks[r];
    for (size_t i = 0; i < rank.memberships.size(); ++i) {
      const Membership& ms = rank.memberships[i];
      CommView& view = comms[ms.comm];
      if (ms.member_rank < 0 || static_cast<size_t>(ms.member_rank) >= view.members.size()) continue;
      Member& member = view.members[ms.member_rank];
      member.rank_index = static_cast<int32_t>(r);
      member.global_rank = rank.rank;
      member.membership = static_cast<uint32_t>(i);
      member.left = ms.state == CommState::kDestroyed || ms.state == CommState::kAborted ||
                    ms.state == CommState::kRevoked || ms.state == CommState::kNotMember;
      const int64_t arrived = ms.launched >= 0 ? ms.launched : ms.issued;
      member.completed = ms.completed;
      const Recorded& of = recorded[first_recorded[r] + i];
      member.oldest = of.oldest;
      // The progress cell may be slightly older than the records, or the reverse; neither ever overstates progress.
      member.arrived = arrived == kUnknown ? of.newest : std::max(arrived, of.newest);
    }
  }
  // For a member without a record of the communicator: returns the rank's index. -1 if the rank has no data, or only a
  // log that omits groups, or a stack that does not show in which operation the rank waits.
  auto index_of = [&](int32_t number) {
    auto it = std::lower_bound(bundle.ranks.begin(), bundle.ranks.end(), number,
                               [](const Rank& rank, int32_t n) { return rank.rank < n; });
    if (it == bundle.ranks.end() || it->rank != number) return -1;
    if (it->some_groups && !HasEnded(it->process)) return -1;
    const bool called = it->source != Source::kFlightRecorder || !it->memberships.empty();
    return called || PlaceOfProcess(it->process).where != Whereabouts::kWaits
               ? static_cast<int32_t>(it - bundle.ranks.begin())
               : -1;
  };
  for (CommView& view : comms) {
    for (Member& m : view.members) {
      if (m.rank_index < 0 && m.global_rank >= 0) m.rank_index = index_of(m.global_rank);
      if (m.rank_index >= 0) view.least_arrived = std::min(view.least_arrived, m.arrived);
      view.most_arrived = std::max(view.most_arrived, m.arrived);
    }
  }
}

bool Model::ProvenIncomplete(const Rank& rank, const Op& op) const {
  if (IsCollective(op.kind)) return NeedsEveryMember(op.kind) && comms[CommOf(rank, op)].least_arrived < op.seq;
  // A small send may complete before its receive is issued, but not if the process has waited for the GPU since.
  const RankView& view = ranks[&rank - bundle.ranks.data()];
  if (op.kind == CallKind::kSend && (view.host != HostState::kInWait || view.thread->wait_since_ns < op.enter_ns))
    return false;
  const Member* peer = PeerOf(rank, op);
  if (peer == nullptr) return false;
  const int64_t issued = PeerIssued(*peer, OtherSideOf(op.kind), rank.memberships[op.membership].member_rank);
  return issued >= 0 && issued < op.seq;
}

void Model::SetHost(size_t index, bool dead) {
  const Rank& rank = bundle.ranks[index];
  RankView& view = ranks[index];
  view.host = HostState::kUnknown;
  view.thread = nullptr;
  if (dead) {
    view.host = HostState::kDead;
  } else if (rank.process.state == "T" || rank.process.state == "t") {
    view.host = HostState::kStopped;
  } else if (!rank.threads.empty()) {
    bool any_recorded = false;
    for (const ring::ThreadSnapshot& t : rank.threads) {
      any_recorded |= t.calls > 0 || t.call != CallKind::kNone || t.wait != CallKind::kNone;
      if (t.call != CallKind::kNone && view.host != HostState::kInCall) {
        view.host = HostState::kInCall;
        view.thread = &t;
      } else if (t.wait != CallKind::kNone && view.host != HostState::kInCall) {
        view.host = HostState::kInWait;
        view.thread = &t;
      }
    }
    if (view.host == HostState::kUnknown && any_recorded && rank.host_waits) {
      view.host = HostState::kElsewhere;
      for (const ring::ThreadSnapshot& t : rank.threads) {
        if (view.thread == nullptr || t.last_call_ns > view.thread->last_call_ns) view.thread = &t;
      }
    }
    // In a process with several ranks, a stack does not show which GPU the process waits for.
    if (shares_process_[index]) return;
    if (std::optional<ring::ThreadSnapshot> waiting = GpuWaitInStacks(rank)) {
      view.by_stack = std::make_shared<const ring::ThreadSnapshot>(*std::move(waiting));
      view.host = HostState::kInWait;
      view.thread = view.by_stack.get();
    }
  }
}

void Model::BuildRank(size_t index, Standing* standing) {
  const Rank& rank = bundle.ranks[index];
  RankView& view = ranks[index];
  view.collectives.resize(rank.memberships.size());
  // A process that was ended with the job, or is gone like all others, does not count as dead: that would hide its last
  // activity.
  const bool ended = rank.process.life == Life::kExited || rank.process.life == Life::kKilled || EndedWell(rank) ||
                     (rank.process.life == Life::kGone && (anyone_runs_ || IsFramework(rank)));
  SetHost(index, ended && !rank.process.consequence);

  if (IsFramework(rank)) {
    view.longest_ns.resize(rank.memberships.size());
    // The longest time is ignored, because it may have occurred only once, while the communicator was created.
    std::vector<int64_t> once(rank.memberships.size());
    for (const Op& op : rank.ops) {
      if (op.membership == kNoIndex || op.enter_ns <= 0 || op.completed_ns <= 0) continue;
      int64_t &most = once[op.membership], &again = view.longest_ns[op.membership];
      const int64_t took = op.completed_ns - op.enter_ns;
      again = std::max(again, std::min(most, took));
      most = std::max(most, took);
    }
  }
  view.finished_ns.resize(rank.streams.size());
  for (const Op& op : rank.ops) {
    if (op.stream < rank.streams.size())
      view.finished_ns[op.stream] = std::max(view.finished_ns[op.stream], op.completed_ns);
  }
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < rank.ops.size(); ++i) {
    const Op& op = rank.ops[i];
    if (const int64_t age = Age(rank, op); age != kUnknown && !bundle.known_stalled)
      view.seen_moving |= age < options_.late_after_ns;
    if (op.membership == kNoIndex) continue;
    if (IsCollective(op.kind) && op.seq >= 0 && op.state != OpState::kFailed) {
      view.collectives[op.membership].push_back(i);
    }
    if (!IsCollective(op.kind) && !IsPointToPoint(op.kind)) continue;
    bool flying = IsUnfinished(op.state) || op.state == OpState::kEntered;
    if (op.state == OpState::kUnknown) flying = ProvenIncomplete(rank, op);
    // No rank waits in a communicator that the program aborted or destroyed. A watchdog that aborts also ends the
    // process.
    const CommState state = rank.memberships[op.membership].state;
    if ((state == CommState::kAborted || state == CommState::kDestroyed) && !ended) flying = false;
    if (flying) order.push_back(i);
  }
  if (!order.empty()) {
    view.first_in_flight = order.front();
    view.unit_of_op.assign(order.back() - order.front() + 1, kNoIndex);
  }
  for (auto& list : view.collectives) {
    std::ranges::stable_sort(list, [&](uint32_t a, uint32_t b) { return rank.ops[a].seq < rank.ops[b].seq; });
  }
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) {
    const Op &x = rank.ops[a], &y = rank.ops[b];
    if (x.record_id >= 0 && y.record_id >= 0 && x.record_id != y.record_id) return x.record_id < y.record_id;
    if (x.thread == y.thread && x.thread != kNoIndex) return x.index < y.index;
    return x.enter_ns < y.enter_ns;
  });
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> groups;
  for (uint32_t i : order) {
    const Op& op = rank.ops[i];
    uint32_t unit = kNoIndex;
    if (op.group != 0) {
      auto [it, fresh] = groups.try_emplace({op.thread, op.group}, static_cast<uint32_t>(view.in_flight.size()));
      if (!fresh) unit = it->second;
    } else if (op.in_batch || op.batch_end) {
      // Key of a framework's batch: the communicator, and the number that its operations share.
      auto [it, fresh] = groups.try_emplace(
          {(uint64_t{1} << 40) + CommOf(rank, op), static_cast<uint64_t>(op.seq) * 2 + IsPointToPoint(op.kind)},
          static_cast<uint32_t>(view.in_flight.size()));
      if (!fresh) unit = it->second;
    }
    if (unit == kNoIndex) {
      unit = static_cast<uint32_t>(view.in_flight.size());
      view.in_flight.push_back({{}, op.enter_ns});
    }
    view.in_flight[unit].ops.push_back(i);
    view.unit_of_op[i - view.first_in_flight] = unit;
    // A damaged file may have no capture time or no clock. Its operations do not count as old if the ages of other
    // ranks' operations are known.
    if (rank.damaged && ages_told_ && !bundle.known_stalled) continue;
    const int64_t age = Age(rank, op);
    const bool set_back = age == kUnknown && op.enter_ns > 0 && (rank.set_back || rank.captured_ns > 0);
    standing->set_back |= set_back;
    standing->stalled |= bundle.known_stalled || (!set_back && !Young(rank, op));
  }
}

std::span<const uint32_t> Model::CollectivesAt(const Member& member, int64_t seq) const {
  if (!member.recorded()) return {};
  const std::vector<Op>& ops = bundle.ranks[member.rank_index].ops;
  const auto& list = ranks[member.rank_index].collectives[member.membership];
  const auto first =
      std::lower_bound(list.begin(), list.end(), seq, [&](uint32_t i, int64_t s) { return ops[i].seq < s; });
  auto end = first;
  while (end != list.end() && ops[*end].seq == seq) ++end;
  return {first, end};
}

const Op* Model::FindCollective(const Member& member, int64_t seq) const {
  const std::span<const uint32_t> found = CollectivesAt(member, seq);
  return found.empty() ? nullptr : &bundle.ranks[member.rank_index].ops[found[0]];
}

MemberState Model::StateOf(const Member& member, int64_t seq) const {
  MemberState state{.op = FindCollective(member, seq)};
  state.unit = UnitOf(member.rank_index, state.op);
  const bool queued = state.op != nullptr && state.op->state == OpState::kQueued;
  state.issued = !queued && (member.arrived >= seq || state.InFlight());
  state.completed = state.op != nullptr ? state.op->state == OpState::kCompleted : member.completed >= seq;
  return state;
}

MemberState Model::StateOf(int32_t rank_index, const Op& op, const Member& peer) const {
  bool counted = false;
  MemberState state{.op = OtherSide(rank_index, op, peer, &counted)};
  state.unit = UnitOf(peer.rank_index, state.op);
  const int32_t me = bundle.ranks[rank_index].memberships[op.membership].member_rank;
  const int64_t count = PeerIssued(peer, OtherSideOf(op.kind), me);
  state.issued = count >= 0 ? count >= op.seq : state.op != nullptr;
  if (state.op == nullptr) return state;
  state.issued &= state.op->state != OpState::kQueued;
  state.completed = state.op->state == OpState::kCompleted;
  return state;
}

const Member* Model::MemberOfKind(int32_t rank_index, uint32_t kind) const {
  for (const Membership& ms : bundle.ranks[rank_index].memberships) {
    const Member* member = comms[ms.comm].kind == kind ? MemberAt(ms.comm, ms.member_rank) : nullptr;
    if (member != nullptr && member->rank_index == rank_index) return member;
  }
  return nullptr;
}

const Roles& Model::roles() const {
  if (roles_ == nullptr) roles_ = std::make_unique<const Roles>(FindRoles(*this));
  return *roles_;
}

const Model::Exchanges& Model::ExchangesOf(int32_t rank_index) const {
  std::unique_ptr<const Exchanges>& known = exchanges_[rank_index];
  if (known != nullptr) return *known;
  auto made = std::make_unique<Exchanges>();
  const Rank& rank = bundle.ranks[rank_index];
  const bool framework = IsFramework(rank);
  std::vector<int64_t> first(rank.memberships.size(), INT64_MAX);
  for (uint32_t i = 0; i < rank.ops.size(); ++i) {
    const Op& op = rank.ops[i];
    if (op.membership == kNoIndex || !IsPointToPoint(op.kind)) continue;
    first[op.membership] = std::min(first[op.membership], op.seq);
    if (op.state != OpState::kFailed) made->lanes[{op.membership, op.kind, op.root_or_peer}].push_back(i);
  }
  const auto by_number = [&](uint32_t a, uint32_t b) { return rank.ops[a].seq < rank.ops[b].seq; };
  for (auto& [key, lane] : made->lanes) {
    if (!framework && !std::ranges::is_sorted(lane, by_number)) std::ranges::stable_sort(lane, by_number);
  }
  // A framework numbers a group's sends and receives together, from 1. So none are missing if the first one has number
  // 1.
  for (size_t m = 0; m < first.size(); ++m)
    made->whole.push_back(framework && !rank.damaged && !rank.only_active && first[m] == 1 &&
                          rank.memberships[m].not_loaded == 0 && rank.memberships[m].unrecorded == 0);
  known = std::move(made);
  return *known;
}

const Op* Model::FindPointToPoint(const Member& member, CallKind kind, int32_t peer, int64_t seq) const {
  if (member.rank_index < 0) return nullptr;
  const Rank& rank = bundle.ranks[member.rank_index];
  const Exchanges::Lane* lane = ExchangesOf(member.rank_index).Find({member.membership, kind, peer});
  if (lane == nullptr) return nullptr;
  if (IsFramework(rank)) {  // its numbers are not per peer and direction
    const uint32_t oldest = ranks[member.rank_index].first_in_flight;
    for (auto at = std::lower_bound(lane->begin(), lane->end(), oldest); at != lane->end(); ++at) {
      if (InFlight(member.rank_index, rank.ops[*at])) return &rank.ops[*at];
    }
    return nullptr;
  }
  const auto after = std::upper_bound(lane->begin(), lane->end(), seq,
                                      [&](int64_t number, uint32_t i) { return number < rank.ops[i].seq; });
  const Op* found = after == lane->begin() ? nullptr : &rank.ops[*(after - 1)];
  return found != nullptr && found->seq == seq ? found : nullptr;
}

namespace {

size_t CountBefore(const Model::Exchanges::Lane& lane, uint32_t index) {
  return static_cast<size_t>(std::lower_bound(lane.begin(), lane.end(), index) - lane.begin());
}

// Finds the last collective that both ranks completed before the operation, and returns how many entries of each lane
// precede it. Returns nullopt if there is none, or if one rank has exchanged more often than the other between
// the first and the last such collective of a communicator. Sets `sure` if a communicator has two such collectives.
std::optional<std::pair<size_t, size_t>> MetBefore(const Model& model, int32_t rank, uint32_t index,
                                                   const Model::Exchanges::Lane& lane, int32_t peer,
                                                   const Model::Exchanges::Lane& other, bool* sure) {
  const Rank &own = model.bundle.ranks[rank], &theirs = model.bundle.ranks[peer];
  std::optional<std::pair<size_t, size_t>> met;
  uint32_t newest = 0;
  for (const Membership& ms : own.memberships) {
    const Membership* also = MembershipIn(theirs, ms.comm);
    const Member* member = also == nullptr ? nullptr : model.MemberAt(ms.comm, also->member_rank);
    if (member == nullptr || member->rank_index != peer) continue;
    const Member& there = *member;
    const auto& calls = model.ranks[rank].collectives[&ms - own.memberships.data()];
    const auto both = [&](uint32_t i) {
      const Op* same = model.FindCollective(there, own.ops[i].seq);
      return i < index && same != nullptr && own.ops[i].state == OpState::kCompleted &&
             same->state == OpState::kCompleted;
    };
    const auto first = std::ranges::find_if(calls, both);
    const auto last = std::find_if(calls.rbegin(), calls.rend(), both);
    if (first == calls.end()) continue;
    const auto across = [&](uint32_t i) {
      return CountBefore(other, static_cast<uint32_t>(model.FindCollective(there, own.ops[i].seq) - theirs.ops.data()));
    };
    const std::pair<size_t, size_t> here(CountBefore(lane, *last), across(*last));
    if (here.first - CountBefore(lane, *first) != here.second - across(*first)) return std::nullopt;
    if (!met || *last > newest) met = here, newest = *last;
    *sure |= *first != *last;
  }
  return met;
}

}  // namespace

// A framework counts the sends and receives of a rank over all peers, so the numbers of the two sides differ. But the
// n-th send still matches the n-th receive. If older records were overwritten, both sides count from the last
// collective that they completed together. If no such collective is recorded, the oldest unfinished operations of both
// sides are assumed to match.
const Op* Model::OtherSide(int32_t rank_index, const Op& op, const Member& peer, bool* counted) const {
  *counted = false;
  const Rank& rank = bundle.ranks[rank_index];
  const int32_t me = rank.memberships[op.membership].member_rank;
  const CallKind reverse = OtherSideOf(op.kind);
  if (!peer.recorded() || !IsFramework(bundle.ranks[peer.rank_index]))
    return FindPointToPoint(peer, reverse, me, op.seq);
  const Exchanges &own = ExchangesOf(rank_index), &theirs = ExchangesOf(peer.rank_index);
  const Exchanges::Lane* lane = own.Find({op.membership, op.kind, op.root_or_peer});
  const Exchanges::Lane* other = theirs.Find({peer.membership, reverse, me});
  const auto index = static_cast<uint32_t>(&op - rank.ops.data());
  std::optional<std::pair<size_t, size_t>> from;  // where counting starts in each lane
  if (lane != nullptr && own.whole[op.membership] && theirs.whole[peer.membership]) {
    from = {0, 0};
    *counted = true;
  } else if (lane != nullptr && other != nullptr) {
    from = MetBefore(*this, rank_index, index, *lane, peer.rank_index, *other, counted);
  }
  // If both dumps contain only unfinished calls, equally many of the newest calls match.
  const bool unfinished = !from && lane != nullptr && other != nullptr && rank.only_active &&
                          bundle.ranks[peer.rank_index].only_active && lane->size() <= other->size();
  if (unfinished) from = {0, other->size() - lane->size()};
  *counted |= unfinished;
  if (!from) {
    *counted = false;
    return FindPointToPoint(peer, reverse, me, op.seq);
  }
  const size_t number = CountBefore(*lane, index) - from->first + from->second;
  return other == nullptr || number >= other->size() ? nullptr : &bundle.ranks[peer.rank_index].ops[(*other)[number]];
}

std::optional<bool> Model::Met(int32_t rank_index, const Op& op) const {
  const Rank& rank = bundle.ranks[rank_index];
  const Member* peer = PeerOf(rank, op);
  if (peer == nullptr) return std::nullopt;
  const int64_t issued = PeerIssued(*peer, OtherSideOf(op.kind), rank.memberships[op.membership].member_rank);
  if (issued >= 0) return issued >= op.seq;
  bool counted = false;
  const Op* theirs = OtherSide(rank_index, op, *peer, &counted);
  return counted ? std::optional<bool>(theirs != nullptr) : std::nullopt;
}

bool Model::WaitsForCall(const Member& member, CallKind kind, int32_t peer) const {
  if (!member.recorded()) return false;
  const std::vector<Unit>& units = ranks[member.rank_index].in_flight;
  const auto any = [&](const Unit& unit, auto&& holds) {
    return std::ranges::any_of(unit.ops, [&](uint32_t i) {
      const Op& op = bundle.ranks[member.rank_index].ops[i];
      return op.membership == member.membership && op.kind == OtherSideOf(kind) && op.root_or_peer == peer && holds(op);
    });
  };
  // The peer may have issued the counterpart of the oldest operation, but not that of a later one.
  return !units.empty() && any(units[0], [](const Op&) { return true; }) &&
         std::ranges::any_of(units, [&](const Unit& unit) {
           return any(unit, [&](const Op& op) { return Met(member.rank_index, op) != true; });
         });
}

int64_t Model::PeerIssued(const Member& member, CallKind kind, int32_t peer) const {
  if (!member.recorded()) return kUnknown;
  const Rank& rank = bundle.ranks[member.rank_index];
  if (IsFramework(rank)) return kUnknown;
  const Membership& ms = rank.memberships[member.membership];
  int64_t newest = ms.recorded->peers_lost > 0 ? kUnknown : 0;
  for (const PeerCount& p : ms.peers) {
    if (p.peer == peer) newest = kind == CallKind::kSend ? p.sends : p.recvs;
  }
  // The counts include operations in a group that is still open, which are not launched.
  for (const uint32_t i : ranks[member.rank_index].queued) {
    const Op& op = rank.ops[i];
    if (op.membership == member.membership && op.kind == kind && op.root_or_peer == peer && newest >= op.seq)
      newest = op.seq - 1;
  }
  return newest;
}

uint32_t Model::UnitOf(int32_t rank_index, const Op* op) const {
  if (op == nullptr || rank_index < 0) return kNoIndex;
  const RankView& view = ranks[rank_index];
  // Excludes operations of other ranks, and those before or after the range in flight.
  const size_t place = static_cast<size_t>(op - bundle.ranks[rank_index].ops.data()) - view.first_in_flight;
  return place < view.unit_of_op.size() ? view.unit_of_op[place] : kNoIndex;
}

bool CompletionsAreRecorded(const Rank& rank, const Op* op) {
  if (!IsFramework(rank)) return true;
  if (rank.start_recorded || (op != nullptr && (op->state == OpState::kStarted || op->retired))) return true;
  return std::ranges::any_of(rank.memberships, [](const Membership& ms) { return ms.completed >= 0; }) ||
         std::ranges::any_of(rank.ops, [](const Op& o) { return o.state == OpState::kCompleted; });
}

std::map<int32_t, std::vector<std::pair<uint32_t, int32_t>>> UnseenMembers(const Model& model) {
  std::map<int32_t, std::vector<std::pair<uint32_t, int32_t>>> unseen;
  for (uint32_t c = 0; c < model.comms.size(); ++c) {
    const std::vector<Member>& members = model.comms[c].members;
    for (size_t m = 0; m < members.size(); ++m) {
      if (members[m].rank_index < 0 && members[m].global_rank >= 0)
        unseen[members[m].global_rank].push_back({c, static_cast<int32_t>(m)});
    }
  }
  return unseen;
}

std::vector<int32_t> RanksWithoutData(const Bundle& bundle, size_t most) {
  std::vector<int32_t> out;
  auto at = bundle.ranks.begin();
  for (int32_t rank = 0; rank < bundle.ranks_expected && out.size() < most; ++rank) {
    while (at != bundle.ranks.end() && at->rank < rank) ++at;
    if (at == bundle.ranks.end() || at->rank != rank) out.push_back(rank);
  }
  return out;
}

std::string OpName(const Bundle& bundle, const Op& op) {
  if (op.name != kNoIndex && op.name < bundle.strings.size()) return bundle.strings[op.name];
  return ring::CallName(op.kind);
}

std::string NumberedName(const Bundle& bundle, const Op& op) {
  std::string name = OpName(bundle, op);
  if (IsPointToPoint(op.kind) && (name.find("->") != std::string::npos || name.find("<-") != std::string::npos))
    name = op.kind == CallKind::kSend ? "send" : "recv";
  // Only operations can have sequence number 0.
  const bool counted = op.seq > 0 || (op.seq == 0 && (IsCollective(op.kind) || IsPointToPoint(op.kind)));
  return counted ? absl::StrCat(name, " #", op.seq) : name;
}

std::string OpText(const Bundle& bundle, const Rank& rank, const Op& op) {
  std::string text = NumberedName(bundle, op);
  if (IsPointToPoint(op.kind) && op.root_or_peer >= 0 && op.membership != kNoIndex) {
    const Communicator& comm = bundle.comms[rank.memberships[op.membership].comm];
    int32_t peer = -1;
    if (static_cast<size_t>(op.root_or_peer) < comm.members.size()) peer = comm.members[op.root_or_peer];
    const char* side = op.kind == CallKind::kSend ? "to" : "from";
    absl::StrAppend(&text, " ", side, peer >= 0 ? " rank " : " member ", peer >= 0 ? peer : op.root_or_peer);
  }
  if (const Replay* replay = ReplayOf(rank, op); replay != nullptr) {
    absl::StrAppend(&text, " (replay ", replay->number, " of graph ", replay->graph + 1, ")");
  }
  return text;
}

const Replay* ReplayOf(const Rank& rank, const Op& op) {
  return op.replayed && ReplayOf(op) < rank.replays.size() ? &rank.replays[ReplayOf(op)] : nullptr;
}

const ring::GraphSnapshot* GraphOf(const Rank& rank, const Replay& replay) {
  for (const ring::GraphSnapshot& graph : rank.graphs) {
    if (graph.index == replay.graph) return &graph;
  }
  return nullptr;
}

std::string CommName(const Communicator& comm) {
  return comm.name.empty() ? absl::StrCat("communicator ", comm.id) : comm.name;
}

namespace {

// "ranks 24-31", "8 ranks"; `range`: "8 ranks (0 .. 49)".
std::string MembersText(const Communicator& comm, bool range) {
  constexpr size_t kColumns = 24;
  const bool known = !comm.members.empty() && std::ranges::none_of(comm.members, [](int32_t r) { return r < 0; });
  std::string number = absl::StrCat(comm.size, comm.size == 1 ? " rank" : " ranks");
  if (!known) return number;
  std::string listed = absl::StrCat("ranks ", FoldRanks(comm.members, SIZE_MAX));
  if (listed.size() <= kColumns) return listed;
  const auto [first, last] = std::minmax_element(comm.members.begin(), comm.members.end());
  return range ? absl::StrCat(number, " (", *first, " .. ", *last, ")") : number;
}

// The group may have members without any record.
bool IsOpen(const Communicator& comm) { return comm.members_inferred || comm.may_have_more; }

}  // namespace

std::string GroupText(const Communicator& comm) {
  const std::string ranks = MembersText(comm, true);
  if (IsOpen(comm)) return absl::StrCat("a group with ", ranks);
  return comm.twin == 0 ? absl::StrCat("the group of ", ranks) : absl::StrCat("group ", comm.twin, " of ", ranks);
}

std::string CommText(const Bundle& bundle, uint32_t comm_index) {
  const Communicator& comm = bundle.comms[comm_index];
  if (comm.name.empty()) return GroupText(comm);
  const auto alike = [&](const Communicator& other) { return &other != &comm && other.name == comm.name; };
  if (IsOpen(comm) || std::ranges::none_of(bundle.comms, alike)) return comm.name;
  return absl::StrCat(comm.name, " (", MembersText(comm, false), ")");
}

std::string ReductionText(uint8_t reduction) {
  static constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg"};
  if (reduction < 5) return kNames[reduction];
  if (reduction == ring::kNoReduction) return "none";
  if (reduction >= ring::kCustomReductionBase && reduction <= ring::kCustomReductionLast) {
    return absl::StrCat("custom reduction ", reduction - ring::kCustomReductionBase);
  }
  return absl::StrCat("reduction ", reduction);
}

std::string DatatypeText(uint8_t datatype) {
  static constexpr const char* kNames[] = {"int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
                                           "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  if (datatype < 12) return kNames[datatype];
  if (datatype == ring::kNoDatatype) return "none";
  return absl::StrCat("datatype ", datatype);
}

void SetCondition(const Rank& rank, HostState host, Culprit* culprit) {
  const Process& process = rank.process;
  switch (host) {
    case HostState::kDead:
      culprit->set_condition(process.life == Life::kKilled   ? Culprit::KILLED
                             : process.life == Life::kExited ? Culprit::EXITED
                                                             : Culprit::GONE);
      culprit->set_code(process.life == Life::kKilled ? process.signal : process.exit_code);
      return;
    case HostState::kStopped:
      culprit->set_condition(Culprit::STOPPED);
      culprit->set_process_state(process.state);
      return;
    case HostState::kElsewhere: return culprit->set_condition(Culprit::OUTSIDE);
    case HostState::kInCall: return culprit->set_condition(Culprit::IN_CALL);
    case HostState::kInWait: return culprit->set_condition(Culprit::IN_WAIT);
    case HostState::kUnknown: return;
  }
}

}  // namespace lockstep
