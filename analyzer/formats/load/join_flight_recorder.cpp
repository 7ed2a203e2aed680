#include "analyzer/formats/load/join_flight_recorder.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/load/join_calls.h"
#include "analyzer/model/call_kinds.h"

namespace lockstep {
namespace {

using ring::CallKind;

// A dump records a call's time just before the own record does, from the same host's clock. Adjustments of that clock
// are smaller than this limit, and starts of a job are further apart.
constexpr int64_t kSameCallNs = 30'000'000'000;

constexpr size_t kMaxNamed = 8;  // number of unmatched groups that are listed individually

std::string_view FirstLabel(std::string_view host) { return host.substr(0, host.find('.')); }

bool SameHost(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ||
         absl::AsciiStrToLower(std::string(FirstLabel(a))) == absl::AsciiStrToLower(std::string(FirstLabel(b)));
}

// Returns a process group's own name, from its ID "NAME/HASH".
std::string GroupName(const Communicator& comm) { return comm.id.substr(0, comm.id.rfind('/')); }

// Returns whether all members that both sides know are equal, and there is at least one.
bool SameMembers(const Communicator& a, const Communicator& b) {
  if (a.size != b.size || a.members.size() != b.members.size()) return false;
  bool shared = false;
  for (size_t i = 0; i < a.members.size(); ++i) {
    if (a.members[i] < 0 || b.members[i] < 0) continue;
    if (a.members[i] != b.members[i]) return false;
    shared = true;
  }
  return shared;
}

class Joiner {
 public:
  Joiner(const Bundle& dumps, Bundle* own)
      : dumps_(dumps),
        own_(*own),
        entry_index_(dumps),
        own_index_(*own),
        own_rank_(dumps.ranks.size(), kNoIndex),
        links_(dumps.comms.size()) {}

  void Run() {
    PairRanks();
    PairCommunicators();
    RefuseOtherStarts();
    own_.problems.insert(own_.problems.end(), dumps_.problems.begin(), dumps_.problems.end());
    Bundle& out = own_;
    InternTexts();
    for (uint32_t c = 0; c < dumps_.comms.size(); ++c) NameCommunicator(c);
    std::vector<Rank> added;
    for (uint32_t r = 0; r < dumps_.ranks.size(); ++r) {
      if (refused_[r]) continue;
      if (own_rank_[r] != kNoIndex) {
        Enrich(r, &out.ranks[own_rank_[r]]);
      } else {
        AddAlone(r, &added);
      }
    }
    for (Rank& rank : added) out.ranks.push_back(std::move(rank));
    std::sort(out.ranks.begin(), out.ranks.end(), [](const Rank& a, const Rank& b) { return a.rank < b.rank; });
    out.ranks_expected = std::max(out.ranks_expected, dumps_.ranks_expected);
    TellUnjoined();
  }

 private:
  // How a process group of the dumps was matched.
  struct Link {
    uint32_t comm = kNoIndex;  // index in the bundle of Lockstep's own records
    bool used = false;         // some rank made a call in the group
    bool split = false;        // see EntryCalls
    Shift shift;
    CallTable table;
    std::string why_not;        // the reason, if a group with calls and a candidate was not joined
    uint32_t added = kNoIndex;  // a communicator that only dumps contain, added to the bundle
  };

  void PairRanks() {
    absl::flat_hash_map<int32_t, uint32_t> own_ranks;
    for (uint32_t r = 0; r < own_.ranks.size(); ++r) own_ranks[own_.ranks[r].rank] = r;
    refused_.assign(dumps_.ranks.size(), false);
    for (uint32_t r = 0; r < dumps_.ranks.size(); ++r) {
      const Rank& rank = dumps_.ranks[r];
      auto at = own_ranks.find(rank.rank);
      if (at == own_ranks.end()) continue;
      if (!SameHost(rank.host, own_.ranks[at->second].host)) {
        Refuse(r,
               absl::StrCat("omitted: its name shows that it belongs to host ", rank.host, ", but rank ", rank.rank,
                            " ran on ", own_.ranks[at->second].host),
               "another host");
        continue;
      }
      own_rank_[r] = at->second;
    }
  }

  void Refuse(uint32_t r, std::string text, const char* like = "") {
    refused_[r] = true;
    own_.problems.push_back(
        {.path = dumps_.ranks[r].path, .text = std::move(text), .rank = dumps_.ranks[r].rank, .like = like});
  }

  bool IsUsed(uint32_t group) const {
    for (const CallIndex::Use& use : entry_index_.uses[group]) {
      const Membership& m = dumps_.ranks[use.rank].memberships[use.membership];
      if (m.issued >= 0 || m.p2p_issued >= 0 || !entry_index_.OpsOf(use).empty()) return true;
    }
    return false;
  }

  // Returns the own number of the last call and its position among the group's entries, for each rank that has both.
  std::vector<std::pair<int64_t, int64_t>> Ends(uint32_t group, uint32_t comm, const CallTable& table) const {
    std::vector<std::pair<int64_t, int64_t>> ends;
    for (const CallIndex::Use& use : entry_index_.uses[group]) {
      const uint32_t mine = own_rank_[use.rank];
      if (mine == kNoIndex || refused_[use.rank]) continue;
      const int64_t position = table.PositionOf(dumps_.ranks[use.rank].memberships[use.membership].issued);
      for (const Membership& m : own_.ranks[mine].memberships) {
        if (m.comm == comm && m.issued >= 0 && position >= 0) ends.emplace_back(m.issued, position);
      }
    }
    return ends;
  }

  Link TryLink(uint32_t group, uint32_t comm) {
    Link link;
    link.comm = comm;
    link.split = true;
    for (const CallIndex::Use& use : own_index_.uses[comm]) {
      for (uint32_t i : own_index_.OpsOf(use)) {
        if (CallFactsOf(own_.ranks[use.rank].ops[i].kind).may_be_sends) link.split = false;
      }
    }
    link.table = EntryCalls(entry_index_, group, link.split);
    bool own_calls = false, calls = !link.table.calls.empty();
    for (const CallIndex::Use& use : own_index_.uses[comm]) {
      own_calls |= own_.ranks[use.rank].memberships[use.membership].issued >= 1;
    }
    for (const CallIndex::Use& use : entry_index_.uses[group]) {
      calls |= dumps_.ranks[use.rank].memberships[use.membership].issued >= 1;
    }
    if (!calls && !own_calls) {  // only sends and receives, so there are no numbers to align
      link.shift.found = true;
      return link;
    }
    // PyTorch creates separate communicators for some sends and receives; these are not candidates.
    if (calls && !own_calls) return link;
    link.shift = FindShift(OwnCalls(own_index_, comm), link.table, Ends(group, comm, link.table));
    if (!link.shift.found) link.why_not = link.shift.why_not;
    return link;
  }

  void PairCommunicators() {
    // Own communicators by size and known member.
    std::map<std::pair<int32_t, int32_t>, std::vector<uint32_t>> by_shape;
    for (uint32_t c = 0; c < own_.comms.size(); ++c) {
      for (int32_t member : own_.comms[c].members) {
        if (member >= 0) by_shape[{own_.comms[c].size, member}].push_back(c);
      }
    }
    std::vector<std::vector<Link>> possible(dumps_.comms.size());
    std::map<uint32_t, std::vector<uint32_t>> claims;  // maps an own communicator to the groups that match it
    for (uint32_t g = 0; g < dumps_.comms.size(); ++g) {
      const Communicator& group = dumps_.comms[g];
      links_[g].used = IsUsed(g);
      if (!links_[g].used) continue;
      std::vector<uint32_t> candidates;
      for (int32_t member : group.members) {
        auto at = by_shape.find({group.size, member});
        if (at == by_shape.end()) continue;
        for (uint32_t c : at->second) {
          if (SameMembers(own_.comms[c], group)) candidates.push_back(c);
        }
        if (!candidates.empty()) break;
      }
      std::string why_not;
      for (uint32_t c : candidates) {
        Link link = TryLink(g, c);
        if (link.shift.found) {
          possible[g].push_back(std::move(link));
        } else if (!link.why_not.empty()) {
          why_not = link.why_not;
        }
      }
      if (possible[g].size() > 1) KeepNamed(group, &possible[g]);
      if (possible[g].empty()) {
        links_[g].why_not = why_not;
        continue;
      }
      for (const Link& link : possible[g]) claims[link.comm].push_back(g);
    }
    for (uint32_t g = 0; g < dumps_.comms.size(); ++g) {
      if (possible[g].empty()) continue;
      Link& link = possible[g][0];
      std::vector<uint32_t> rivals = claims[link.comm];
      if (possible[g].size() == 1 && rivals.size() > 1) {
        // The groups with the communicator's name.
        std::vector<uint32_t> named;
        for (uint32_t rival : rivals) {
          if (IsNamed(own_.comms[link.comm], dumps_.comms[rival])) named.push_back(rival);
        }
        if (named.size() == 1) rivals = named;
      }
      if (possible[g].size() == 1 && rivals.size() == 1 && rivals[0] == g) {
        link.used = true;
        links_[g] = std::move(link);
      } else if (possible[g].size() > 1) {
        links_[g].why_not = absl::StrCat(possible[g].size(), " communicators have the same members and calls");
      } else {
        links_[g].why_not = "another process group has the same members and calls";
      }
    }
  }

  static bool IsNamed(const Communicator& comm, const Communicator& group) {
    return !comm.name.empty() && (comm.name == group.name || comm.name == GroupName(group));
  }

  // If several communicators match, keeps the one named after the group.
  void KeepNamed(const Communicator& group, std::vector<Link>* links) const {
    std::vector<size_t> named;
    for (size_t i = 0; i < links->size(); ++i) {
      if (IsNamed(own_.comms[(*links)[i].comm], group)) named.push_back(i);
    }
    if (named.size() != 1) return;
    Link kept = std::move((*links)[named[0]]);
    links->clear();
    links->push_back(std::move(kept));
  }

  // Returns the index of the rank's membership in an own communicator; kNoIndex if it is not a member.
  uint32_t OwnMembership(uint32_t own_rank, uint32_t comm) const {
    const std::vector<Membership>& all = own_.ranks[own_rank].memberships;
    for (uint32_t m = 0; m < all.size(); ++m) {
      if (all[m].comm == comm) return m;
    }
    return kNoIndex;
  }

  struct Match {
    int64_t seq;
    uint32_t entry;  // index into the dump's ops
    uint32_t op;     // index into the own ops; kNoIndex if the own record does not have it
  };
  // Returns the entries of one of a rank's memberships, numbered as in Lockstep's own record. `mine` is kNoIndex if the
  // rank has no own record.
  std::vector<Match> MatchesOf(uint32_t r, uint32_t m, uint32_t mine) const {
    const Link& link = links_[dumps_.ranks[r].memberships[m].comm];
    absl::flat_hash_map<int64_t, uint32_t> by_seq;
    const uint32_t own_membership = mine == kNoIndex ? kNoIndex : OwnMembership(mine, link.comm);
    if (own_membership != kNoIndex) {
      for (uint32_t i : own_index_.ops[mine][own_membership]) {
        const Op& op = own_.ranks[mine].ops[i];
        if (op.seq >= 1 && op.kind != CallKind::kGroup && !ring::IsPointToPoint(op.kind)) by_seq[op.seq] = i;
      }
    }
    std::vector<Match> out;
    for (const auto& [position, entry] : EntryPositions(entry_index_, {r, m}, link.table, link.split)) {
      const int64_t seq = position + link.shift.by;
      if (seq < 1) continue;
      auto at = by_seq.find(seq);
      out.push_back({seq, entry, at == by_seq.end() ? kNoIndex : at->second});
    }
    return out;
  }

  bool IsJoined(uint32_t r, uint32_t m) const { return links_[dumps_.ranks[r].memberships[m].comm].comm != kNoIndex; }

  // Rejects dumps that contain different calls than the rank's own record, or the same calls at different times. If
  // that rejects the dumps of all ranks with an own record, rejects all dumps.
  void RefuseOtherStarts() {
    size_t both = 0, other = 0;
    for (uint32_t r = 0; r < dumps_.ranks.size(); ++r) {
      const uint32_t mine = own_rank_[r];
      if (mine == kNoIndex || refused_[r]) continue;
      ++both;
      const Rank &rank = dumps_.ranks[r], &own = own_.ranks[mine];
      int64_t apart = INT64_MAX;
      bool same = true;
      for (uint32_t m = 0; m < rank.memberships.size() && same; ++m) {
        if (!IsJoined(r, m)) continue;
        for (const Match& match : MatchesOf(r, m, mine)) {
          if (match.op == kNoIndex) continue;
          const Op &entry = rank.ops[match.entry], &op = own.ops[match.op];
          same = same && SameCall(op, entry);
          if (own.real_minus_mono_ns == 0 || entry.enter_ns <= 0 || op.enter_ns <= 0) continue;
          apart = std::min(apart, std::abs(entry.enter_ns - (op.enter_ns + own.real_minus_mono_ns)));
        }
      }
      if (!same) {
        Refuse(r,
               "omitted: it shows different calls than the rank's own record, so one of the two belongs to another "
               "process");
      } else if (apart != INT64_MAX && apart > kSameCallNs) {
        Refuse(r, absl::StrCat("omitted: its calls were made ", apart / 1'000'000'000,
                               " s before or after the same calls in the rank's own record, so it belongs to another "
                               "start of the job"));
      } else {
        continue;
      }
      ++other;
    }
    if (both == 0 || other < both) return;
    for (uint32_t r = 0; r < dumps_.ranks.size(); ++r) {
      if (refused_[r]) continue;
      Refuse(r,
             "omitted: all Flight Recorder dumps of ranks that also have Lockstep's own record belong to another start "
             "of the job");
    }
  }

  void InternTexts() {
    auto add = [](const std::vector<std::string>& from, std::vector<std::string>* to, std::vector<uint32_t>* map) {
      absl::flat_hash_map<std::string, uint32_t> known;
      for (uint32_t i = 0; i < to->size(); ++i) known.emplace((*to)[i], i);
      for (const std::string& text : from) {
        auto [at, added] = known.try_emplace(text, static_cast<uint32_t>(to->size()));
        if (added) to->push_back(text);
        map->push_back(at->second);
      }
    };
    add(dumps_.strings, &own_.strings, &strings_);
    add(dumps_.shapes, &own_.shapes, &shapes_);
  }
  static uint32_t Translate(const std::vector<uint32_t>& map, uint32_t index) {
    return index == kNoIndex ? kNoIndex : map[index];
  }

  void NameCommunicator(uint32_t group) {
    const Communicator& from = dumps_.comms[group];
    if (links_[group].comm == kNoIndex) return;
    Communicator& comm = own_.comms[links_[group].comm];
    if (comm.name.empty()) comm.name = from.name;
    for (size_t i = 0; i < comm.members.size(); ++i) {
      if (comm.members[i] < 0) comm.members[i] = from.members[i];
    }
  }

  void AddFacts(const Op& entry, Op* op) const {
    if (op->call_site == kNoIndex) op->call_site = Translate(strings_, entry.call_site);
    if (op->input_shape == kNoIndex && op->output_shape == kNoIndex) {
      op->input_shape = Translate(shapes_, entry.input_shape);
      op->output_shape = Translate(shapes_, entry.output_shape);
      op->input_elements = entry.input_elements;
      op->output_elements = entry.output_elements;
    }
    if (op->dtypes == kNoIndex) op->dtypes = Translate(strings_, entry.dtypes);
    op->retired |= entry.retired;
    // Only a start or completion is certain, because other states in the dump may be outdated.
    if (op->state == OpState::kUnknown && (entry.state == OpState::kCompleted || entry.state == OpState::kStarted))
      op->state = entry.state;
  }

  // Converts a dump's entry to an operation with own numbers; times are on the rank's clock.
  Op Translated(const Op& entry, uint32_t membership, int64_t seq, int64_t real_minus_mono_ns) const {
    Op op = entry;
    op.membership = membership;
    op.seq = seq;
    op.name = Translate(strings_, entry.name);
    op.call_site = Translate(strings_, entry.call_site);
    op.dtypes = Translate(strings_, entry.dtypes);
    op.input_shape = Translate(shapes_, entry.input_shape);
    op.output_shape = Translate(shapes_, entry.output_shape);
    for (int64_t* time : {&op.enter_ns, &op.started_ns, &op.completed_ns}) {
      if (*time > 0) *time = std::max<int64_t>(*time - real_minus_mono_ns, 1);
    }
    return op;
  }

  void Enrich(uint32_t r, Rank* own) {
    const Rank& rank = dumps_.ranks[r];
    const uint32_t mine = own_rank_[r];
    std::vector<std::pair<uint32_t, Op>> older;  // position in the dump, operation
    size_t first_shared = SIZE_MAX;
    std::map<uint32_t, int64_t> threads;  // maps a thread of the own record to the number of calls in both records
    for (uint32_t m = 0; m < rank.memberships.size(); ++m) {
      if (!IsJoined(r, m)) continue;
      const Link& link = links_[rank.memberships[m].comm];
      const uint32_t place = OwnMembership(mine, link.comm);
      if (place == kNoIndex) continue;
      Membership& membership = own->memberships[place];
      if (membership.local_name.empty()) membership.local_name = rank.memberships[m].local_name;
      const int64_t issued = link.table.PositionOf(rank.memberships[m].issued);
      const int64_t completed = link.table.PositionOf(rank.memberships[m].completed);
      // If both sources contain the same last call, the framework's count is from the same moment.
      if (membership.completed == kUnknown && issued >= 0 && issued + link.shift.by == membership.issued &&
          completed >= 0)
        membership.completed = completed + link.shift.by;
      int64_t oldest = INT64_MAX;
      for (uint32_t i : own_index_.ops[mine][place]) {
        if (own->ops[i].seq >= 1 && !ring::IsPointToPoint(own->ops[i].kind)) oldest = std::min(oldest, own->ops[i].seq);
      }
      for (const Match& match : MatchesOf(r, m, mine)) {
        if (match.op != kNoIndex) {
          AddFacts(rank.ops[match.entry], &own->ops[match.op]);
          first_shared = std::min<size_t>(first_shared, match.entry);
          ++threads[own->ops[match.op].thread];
        } else if (match.seq < oldest && oldest != INT64_MAX) {
          older.emplace_back(match.entry, Translated(rank.ops[match.entry], place, match.seq, own->real_minus_mono_ns));
        }
      }
    }
    AddOlder(std::move(older), first_shared, threads, own);
  }

  // Adds the operations that the own ring has overwritten, before those that it still has.
  static void AddOlder(std::vector<std::pair<uint32_t, Op>> older, size_t first_shared,
                       const std::map<uint32_t, int64_t>& threads, Rank* own) {
    // The order is known only if there is a single thread.
    if (threads.size() != 1) return;
    std::erase_if(older, [&](const auto& one) { return one.first >= first_shared; });
    std::sort(older.begin(), older.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const uint32_t thread = threads.begin()->first;
    int64_t index = INT64_MAX;
    for (const Op& op : own->ops) {
      if (op.thread == thread) index = std::min(index, op.index);
    }
    index -= static_cast<int64_t>(older.size());
    std::vector<Op> ops;
    ops.reserve(older.size() + own->ops.size());
    for (auto& [place, op] : older) {
      op.thread = thread;
      op.index = index++;
      // The dump's batches and record numbers have no meaning in the own record.
      op.in_batch = false;
      op.group = 0;
      op.record_id = kUnknown;
      Membership& membership = own->memberships[op.membership];
      membership.lost_records = std::max<int64_t>(0, membership.lost_records - 1);
      ops.push_back(op);
    }
    ops.insert(ops.end(), own->ops.begin(), own->ops.end());
    own->ops = std::move(ops);
  }

  // Adds a communicator that only dumps contain.
  uint32_t AddedComm(uint32_t group) {
    Link& link = links_[group];
    if (link.added == kNoIndex) {
      link.added = static_cast<uint32_t>(own_.comms.size());
      own_.comms.push_back(dumps_.comms[group]);
    }
    return link.added;
  }

  void AddAlone(uint32_t r, std::vector<Rank>* added) {
    Rank rank = dumps_.ranks[r];
    std::vector<Membership> memberships;
    std::vector<uint32_t> place(rank.memberships.size(), kNoIndex);
    std::vector<Op> ops;
    std::vector<std::pair<uint32_t, Op>> kept;  // position in the dump, operation
    size_t left_out = 0;
    for (uint32_t m = 0; m < rank.memberships.size(); ++m) {
      const uint32_t group = rank.memberships[m].comm;
      const Link& link = links_[group];
      left_out += link.why_not.empty() ? 0 : 1;
      if (!link.why_not.empty() || !link.used) continue;
      place[m] = static_cast<uint32_t>(memberships.size());
      Membership membership = rank.memberships[m];
      if (link.comm == kNoIndex) {
        membership.comm = AddedComm(group);
        for (uint32_t i : entry_index_.ops[r][m]) {
          kept.emplace_back(i, Translated(rank.ops[i], place[m], rank.ops[i].seq, 0));
        }
        memberships.push_back(std::move(membership));
        continue;
      }
      membership.comm = link.comm;
      for (int64_t* number : {&membership.issued, &membership.started, &membership.completed}) {
        const int64_t position = link.table.PositionOf(*number);
        *number = position >= 0 ? position + link.shift.by : position;
      }
      membership.first_seq = 1;
      for (const Match& match : MatchesOf(r, m, kNoIndex)) {
        kept.emplace_back(match.entry, Translated(rank.ops[match.entry], place[m], match.seq, 0));
      }
      for (uint32_t i : entry_index_.ops[r][m]) {
        const Op& op = rank.ops[i];
        if (op.kind == CallKind::kGroup || ring::IsPointToPoint(op.kind))
          kept.emplace_back(i, Translated(op, place[m], op.seq, 0));
      }
      memberships.push_back(std::move(membership));
    }
    if (memberships.empty() && left_out > 0) {
      Refuse(r, "omitted: none of its process groups matches Lockstep's own records of other ranks");
      return;
    }
    std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    ops.reserve(kept.size());
    for (auto& [at, op] : kept) ops.push_back(op);
    rank.memberships = std::move(memberships);
    rank.ops = std::move(ops);
    added->push_back(std::move(rank));
  }

  void TellUnjoined() {
    size_t told = 0, more = 0;
    for (uint32_t g = 0; g < dumps_.comms.size(); ++g) {
      if (links_[g].why_not.empty()) continue;
      if (told >= kMaxNamed) {
        ++more;
        continue;
      }
      ++told;
      own_.problems.push_back(
          {.text = absl::StrCat(
               "process group ", GroupName(dumps_.comms[g]), " (", dumps_.comms[g].name,
               ") of the Flight Recorder dumps cannot be matched with a communicator in Lockstep's own records: ",
               links_[g].why_not, "; its entries are omitted"),
           .like = "not joined"});
    }
    if (more > 0) own_.problems.push_back({"", -1, absl::StrCat(more, " more process groups cannot be matched"), -1});
  }

  const Bundle& dumps_;
  Bundle& own_;
  CallIndex entry_index_, own_index_;
  std::vector<uint32_t> own_rank_;  // index into own_.ranks by rank of the dumps; kNoIndex if it has no own record
  std::vector<bool> refused_;       // by rank of the dumps
  std::vector<Link> links_;         // for each process group
  std::vector<uint32_t> strings_, shapes_;
};

}  // namespace

void JoinFlightRecorder(const Bundle& dumps, Bundle* own) { Joiner(dumps, own).Run(); }

}  // namespace lockstep
