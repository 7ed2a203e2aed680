#include "analyzer/formats/merge.h"

#include <algorithm>
#include <deque>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/bounds.h"
#include "analyzer/formats/generations.h"

namespace lockstep {
namespace {

// Limit for reported contradictions, because one file may contradict the others in thousands of places.
constexpr int kMaxContradictions = 20;

// Returns how much data a rank has. If a rank has two sources, the one with the larger value is kept.
std::tuple<int64_t, size_t, int64_t, int32_t, std::string> Knowledge(const Rank& rank) {
  int64_t progress = 0;
  for (const Membership& m : rank.memberships) {
    progress += std::clamp<int64_t>(m.issued, 0, int64_t{1} << 40);
    for (const PeerCount& peer : m.peers) {
      progress +=
          std::clamp<int64_t>(peer.sends, 0, int64_t{1} << 40) + std::clamp<int64_t>(peer.recvs, 0, int64_t{1} << 40);
    }
  }
  return {progress, rank.memberships.size() + rank.ops.size(), rank.captured_ns, rank.pid, rank.path};
}

std::string Folded(std::vector<int32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] <= ranks[end] + 1) ++end;
    if (text.size() > 200) return absl::StrCat(text, ", ...");
    absl::StrAppend(&text, text.empty() ? "" : ", ", ranks[i]);
    if (ranks[end] != ranks[i]) absl::StrAppend(&text, "-", ranks[end]);
    i = end + 1;
  }
  return text;
}

// The most frequent value, or the smallest of several equally frequent ones, so that the order of files does not
// matter.
template <typename T>
struct Votes {
  std::map<T, int> votes;
  void Add(const T& value, int times) { votes[value] += times; }
  T Winner(T otherwise) const {
    int best = 0;
    for (const auto& [value, count] : votes) {
      if (count > best) {
        best = count;
        otherwise = value;
      }
    }
    return otherwise;
  }
};

struct CommVotes {
  Votes<int32_t> size, color;
  Votes<std::string> name, parent;
  Votes<uint32_t> ordinal;
  Votes<ring::CallKind> origin;
  bool inferred = false;
  int members_seen = 0;

  void Add(const CommFacts& facts, int times) {
    if (facts.size > 0) size.Add(facts.size, times);
    if (!facts.name.empty()) name.Add(facts.name, times);
    if (!facts.parent_id.empty()) parent.Add(facts.parent_id, times);
    if (facts.ordinal != 0) ordinal.Add(facts.ordinal, times);
    if (facts.origin != ring::CallKind::kNone) origin.Add(facts.origin, times);
    color.Add(facts.color, times);
    inferred |= facts.members_inferred;
  }
};

uint32_t InternInto(std::string_view text, std::vector<std::string>* all,
                    absl::flat_hash_map<std::string, uint32_t>* index) {
  auto [it, added] = index->try_emplace(std::string(text), static_cast<uint32_t>(all->size()));
  if (added) all->emplace_back(text);
  return it->second;
}

// Sorts by program order in each thread, as Bundle requires, no matter how the file is sorted. Operations that the
// rings had overwritten are older and come first.
void SortOps(std::vector<Op>* ops) {
  const auto before = [](const Op& a, const Op& b) {
    if (a.recent_only != b.recent_only) return a.recent_only;
    if (a.recent_only) return a.membership != b.membership ? a.membership < b.membership : a.seq < b.seq;
    return a.thread != b.thread ? a.thread < b.thread : a.index < b.index;
  };
  absl::flat_hash_map<uint32_t, int64_t> newest;
  bool ordered = true;
  for (const Op& op : *ops) {
    if (op.recent_only) continue;
    auto [it, fresh] = newest.try_emplace(op.thread, op.index);
    ordered &= fresh || it->second <= op.index;
    it->second = op.index;
  }
  if (!ordered) std::stable_sort(ops->begin(), ops->end(), before);
}

}  // namespace

void BundleBuilder::AddRank(LooseRank loose) {
  if (loose.rank.rank < 0 || loose.rank.rank >= kMaxRanks) {
    AddProblem({.path = loose.rank.path,
                .text = absl::StrCat("claims to be rank ", loose.rank.rank, ", which is not between 0 and ",
                                     kMaxRanks - 1, ": omitted"),
                .like = "impossible rank"});
    return;
  }
  BoundNumbers(&loose.rank);
  SortOps(&loose.rank.ops);
  loose.comms.resize(loose.rank.memberships.size());
  auto held = std::make_unique<HeldRank>();
  held->rank = std::move(loose.rank);
  held->facts.reserve(loose.comms.size());
  for (CommFacts& facts : loose.comms) {
    const auto [said, fresh] = facts_.try_emplace(std::move(facts), static_cast<uint32_t>(held_.facts.size()));
    if (fresh)
      held_.facts.push_back(
          {said->first, comms_.try_emplace(said->first.id, static_cast<uint32_t>(comms_.size())).first->second});
    held->facts.push_back(said->second);
  }
  held_.ranks.push_back(std::move(held));
}

void BundleBuilder::AddComm(CommFacts facts, std::vector<MemberSpan> members) {
  table_.push_back({std::move(facts), std::move(members)});
}

void BundleBuilder::AddPlace(const HostPlace& place) {
  if (place.host.empty() || (place.rack.empty() && place.leaf_switch.empty() && place.network.ports == 0)) return;
  HostPlace& known = places_[place.host];
  known.host = place.host;
  // If a host has two racks or switches, the smaller text wins, so the order of files does not matter.
  for (auto member : {&HostPlace::rack, &HostPlace::leaf_switch}) {
    if (!(place.*member).empty() && ((known.*member).empty() || place.*member < known.*member))
      known.*member = place.*member;
  }
  const auto rate = [](const HostNetwork& n) { return std::tie(n.port_mbits, n.ports, n.gpus); };
  if (rate(place.network) > rate(known.network)) known.network = place.network;
}

void BundleBuilder::ExpectRanks(int64_t ranks) {
  if (ranks > 0 && ranks <= kMaxRanks) expected_ = std::max(expected_, ranks);
}

void BundleBuilder::SetStalled(int64_t stalled_ns) {
  bundle_.known_stalled = true;
  bundle_.stalled_ns = std::max(bundle_.stalled_ns, stalled_ns);
}

uint32_t BundleBuilder::InternString(std::string_view text) { return InternInto(text, &bundle_.strings, &strings_); }
uint32_t BundleBuilder::InternShape(std::string_view text) { return InternInto(text, &bundle_.shapes, &shapes_); }

std::map<std::string, int64_t> BundleBuilder::Jobs() const {
  std::map<std::string, int64_t> jobs;
  for (const auto& held : held_.ranks) {
    if (!held->rank.job.empty()) ++jobs[held->rank.job];
  }
  return jobs;
}

void BundleBuilder::KeepOneJob() {
  std::map<std::string, std::vector<int32_t>> jobs;
  for (const auto& held : held_.ranks) {
    if (!held->rank.job.empty()) jobs[held->rank.job].push_back(held->rank.rank);
  }
  std::string kept = manifest_job_;
  if (!jobs.count(kept)) {
    size_t most = 0;
    for (const auto& [job, ranks] : jobs) {
      if (ranks.size() > most) {
        most = ranks.size();
        kept = job;
      }
    }
  }
  bundle_.job = kept;
  if (jobs.size() < 2) return;
  for (const auto& [job, ranks] : jobs) {
    if (job == kept) continue;
    AddProblem({"", -1,
                absl::StrCat("data from another job, ", job, " (ranks ", Folded(ranks),
                             "), was omitted; analyze each job separately"),
                -1, /*note=*/true});
  }
  std::erase_if(held_.ranks, [&](const auto& held) { return !held->rank.job.empty() && held->rank.job != kept; });
}

void BundleBuilder::KeepNewestGeneration() {
  uint32_t newest = 0;
  for (const auto& held : held_.ranks) newest = std::max(newest, held->rank.restart_count);
  std::map<uint32_t, std::vector<int32_t>> stale;
  for (const auto& held : held_.ranks) {
    if (held->rank.restart_count < newest) stale[held->rank.restart_count].push_back(held->rank.rank);
  }
  for (const auto& [generation, ranks] : stale) {
    AddProblem({.text = absl::StrCat("ranks ", Folded(ranks), " of restart ", generation,
                                     " were omitted: the newest restart of the job is ", newest),
                .note = true,
                .like = "older restart"});
  }
  if (!stale.empty()) std::erase_if(held_.ranks, [&](const auto& held) { return held->rank.restart_count < newest; });
}

namespace {

// Moves what was observed of a process from outside, except how the process ended.
void TakeLook(Process* from, Process* to) {
  to->evidence = std::move(from->evidence);
  to->stack = std::move(from->stack);
  to->stack_later = std::move(from->stack_later);
  to->python_stack = std::move(from->python_stack);
  to->stack_refused = std::move(from->stack_refused);
  if (to->written_files.empty()) {
    to->written_files = std::move(from->written_files);
    to->written_mounts = std::move(from->written_mounts);
  }
  if (to->sample_gap_ns > 0 || from->sample_gap_ns == 0) return;
  to->sample_gap_ns = from->sample_gap_ns;
  to->cpu_ns_between_samples = from->cpu_ns_between_samples;
  to->io_bytes_between_samples = from->io_bytes_between_samples;
}

}  // namespace

void BundleBuilder::KeepOnePerRank() {
  std::stable_sort(held_.ranks.begin(), held_.ranks.end(),
                   [](const auto& a, const auto& b) { return a->rank.rank < b->rank.rank; });
  std::vector<std::unique_ptr<HeldRank>> kept;
  kept.reserve(held_.ranks.size());
  for (std::unique_ptr<HeldRank>& held : held_.ranks) {
    if (kept.empty() || kept.back()->rank.rank != held->rank.rank) {
      kept.push_back(std::move(held));
      continue;
    }
    // Records from before exec belong to a program that no longer runs, so they lose even if there are more of them.
    const bool over = held->rank.recorder_state == ring::RecorderState::kReplaced;
    const bool kept_over = kept.back()->rank.recorder_state == ring::RecorderState::kReplaced;
    if (over != kept_over ? kept_over : Knowledge(held->rank) > Knowledge(kept.back()->rank))
      std::swap(held, kept.back());
    Rank &winner = kept.back()->rank, &loser = held->rank;
    // Nothing is lost if the loser is the same process, or never used a communicator.
    const bool same_process = winner.pid == loser.pid && winner.host == loser.host && winner.boot_id == loser.boot_id;
    // The collector's digest of a rank may have evidence that the whole ring does not have.
    if (same_process && winner.process.evidence == nullptr && loser.process.evidence != nullptr)
      TakeLook(&loser.process, &winner.process);
    if (same_process || (loser.memberships.empty() && loser.ops.empty())) continue;
    AddProblem({.path = loser.path,
                .text = absl::StrCat("a second process of rank ", loser.rank, " (pid ", loser.pid,
                                     " in addition to pid ", winner.pid, ") was omitted: it recorded less"),
                .rank = loser.rank,
                .note = true,
                .like = "second process"});
  }
  held_.ranks = std::move(kept);
}

void BundleBuilder::Contradict(const char* like, const std::string& path, int32_t rank, std::string text) {
  if (++contradictions_ <= kMaxContradictions) AddProblem({path, -1, std::move(text), rank, false, false, like});
}

void BundleBuilder::MergeCommunicators() {
  const std::vector<uint32_t> index = AddCommunicators();
  PlaceMembers(index);
  PlaceListedMembers(index);
  if (contradictions_ > kMaxContradictions) {
    AddProblem({"", -1, absl::StrCat(contradictions_ - kMaxContradictions, " more contradictions between ranks"), -1});
  }
}

std::vector<uint32_t> BundleBuilder::AddCommunicators() {
  // Number of memberships that report the facts, by index into held_.facts.
  std::vector<int> said(held_.facts.size());
  for (const auto& held : held_.ranks) {
    for (const uint32_t facts : held->facts) ++said[facts];
  }
  std::deque<CommVotes> votes(comms_.size());
  for (size_t i = 0; i < said.size(); ++i) {
    if (said[i] == 0) continue;  // reported only by ranks that were removed
    CommVotes& vote = votes[held_.facts[i].comm];
    vote.Add(held_.facts[i].facts, said[i]);
    vote.members_seen += said[i];
  }
  for (const TableEntry& entry : table_) {
    // A table entry without a rank is not a communicator of this bundle.
    const auto it = comms_.find(entry.facts.id);
    if (it != comms_.end() && votes[it->second].members_seen > 0) votes[it->second].Add(entry.facts, 1);
  }

  std::vector<std::pair<std::string_view, uint32_t>> order;  // id and SaidFacts::comm
  for (const auto& [id, comm] : comms_) {
    if (votes[comm].members_seen > 0) order.emplace_back(id, comm);
  }
  std::sort(order.begin(), order.end());
  std::vector<uint32_t> index(votes.size(), kNoIndex);
  bundle_.comms.reserve(order.size());
  for (const auto& [id, number] : order) {
    const CommVotes& vote = votes[number];
    index[number] = static_cast<uint32_t>(bundle_.comms.size());
    Communicator& comm = bundle_.comms.emplace_back();
    comm.id = std::string(id);
    comm.name = vote.name.Winner("");
    comm.size = vote.size.Winner(0);
    comm.parent_id = vote.parent.Winner("");
    comm.ordinal = vote.ordinal.Winner(0);
    comm.color = vote.color.Winner(0);
    comm.origin = vote.origin.Winner(ring::CallKind::kNone);
    comm.members_inferred = vote.inferred;
  }
  // Communicators that many ranks report get their member lists first, because a false entry could use up
  // kMaxMemberEntries.
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return votes[a.second].members_seen > votes[b.second].members_seen;
  });
  int64_t room = kMaxMemberEntries;
  for (const auto& one : order) {
    Communicator& comm = bundle_.comms[index[one.second]];
    if (comm.size > kMaxMembers || comm.size > room) {
      Contradict("impossible size", "", -1,
                 absl::StrCat("communicator ", comm.id, " claims ", comm.size,
                              " members, which is implausible; ignoring its size"));
      comm.size = 0;
    }
    comm.members.assign(static_cast<size_t>(comm.size), -1);
    room -= comm.size;
  }
  return index;
}

void BundleBuilder::PlaceMembers(const std::vector<uint32_t>& index) {
  for (const auto& held : held_.ranks) {
    Rank& rank = held->rank;
    for (size_t i = 0; i < rank.memberships.size(); ++i) {
      Membership& m = rank.memberships[i];
      const SaidFacts& says = held_.facts[held->facts[i]];
      m.comm = index[says.comm];
      Communicator& comm = bundle_.comms[m.comm];
      if (says.facts.size > 0 && says.facts.size != comm.size) {
        Contradict("another size", rank.path, rank.rank,
                   absl::StrCat("reports that communicator ", comm.id, " has ", says.facts.size, " members; ",
                                comm.size, " according to the others"));
      }
      if (m.member_rank < 0) continue;
      if (m.member_rank >= comm.size) {
        if (comm.size > 0)
          Contradict("member outside", rank.path, rank.rank,
                     absl::StrCat("member rank ", m.member_rank, " does not fit communicator ", comm.id, " of ",
                                  comm.size, ": ignored"));
        m.member_rank = -1;
        continue;
      }
      int32_t& member = comm.members[static_cast<size_t>(m.member_rank)];
      if (member >= 0 && member != rank.rank) {
        Contradict("member twice", rank.path, rank.rank,
                   absl::StrCat("ranks ", member, " and ", rank.rank, " both claim to be member ", m.member_rank,
                                " of communicator ", comm.id));
        continue;
      }
      member = rank.rank;
    }
  }
}

// Skips complete communicators and repeated lists, because every node's file lists the members of the largest
// communicators.
void BundleBuilder::PlaceListedMembers(const std::vector<uint32_t>& index) {
  std::vector<uint64_t> unknown;
  for (const Communicator& comm : bundle_.comms)
    unknown.push_back(static_cast<uint64_t>(std::count(comm.members.begin(), comm.members.end(), -1)));
  absl::flat_hash_set<std::pair<uint32_t, uint64_t>> applied;  // communicator, list of members
  for (const TableEntry& entry : table_) {
    const auto it = comms_.find(entry.facts.id);
    const uint32_t at = it == comms_.end() ? kNoIndex : index[it->second];
    if (at == kNoIndex || unknown[at] == 0) continue;
    uint64_t list = entry.members.size();
    for (const MemberSpan& span : entry.members)
      list = absl::HashOf(list, span.first_member, span.first_rank, span.stride, span.count);
    if (!applied.insert({at, list}).second) continue;
    std::vector<int32_t>& members = bundle_.comms[at].members;
    uint64_t left = members.size();  // valid spans do not overlap
    for (const MemberSpan& span : entry.members) {
      for (uint64_t k = 0; left > 0 && k < span.count && span.first_member + k < members.size(); ++k, --left) {
        const int64_t rank = span.first_rank + static_cast<int64_t>(k) * span.stride;
        int32_t& member = members[span.first_member + k];
        if (member < 0 && rank >= 0 && rank < kMaxRanks) {
          member = static_cast<int32_t>(rank);
          --unknown[at];
        }
      }
    }
  }
}

void BundleBuilder::NumberTwins() {
  std::vector<Communicator*> nameless;
  for (Communicator& comm : bundle_.comms)
    if (comm.name.empty()) nameless.push_back(&comm);
  std::stable_sort(nameless.begin(), nameless.end(), [](const Communicator* a, const Communicator* b) {
    return a->members != b->members ? a->members < b->members : a->ordinal < b->ordinal;
  });
  for (size_t i = 1; i < nameless.size(); ++i) {
    if (nameless[i]->members != nameless[i - 1]->members) continue;
    if (nameless[i - 1]->twin == 0) nameless[i - 1]->twin = 1;
    nameless[i]->twin = nameless[i - 1]->twin + 1;
  }
}

void BundleBuilder::CountExpected() {
  Votes<int32_t> worlds;
  for (const auto& held : held_.ranks) {
    if (held->rank.world_size > 0 && held->rank.world_size <= kMaxRanks) worlds.Add(held->rank.world_size, 1);
  }
  int64_t world = worlds.Winner(0);
  int64_t largest = 0;
  for (const Communicator& comm : bundle_.comms) largest = std::max<int64_t>(largest, comm.size);
  // If there was no launcher, or it counted processes that use several GPUs each, the largest communicator decides.
  int64_t highest = held_.ranks.empty() ? 0 : held_.ranks.back()->rank.rank + int64_t{1};
  if (world < highest) world = std::max(world, largest);
  bundle_.ranks_expected = static_cast<int32_t>(std::max(world, expected_));
}

Bundle BundleBuilder::Finish() {
  KeepOneJob();
  KeepNewestGeneration();
  KeepNewestRun(&held_, &bundle_.problems);
  KeepOnePerRank();
  MergeCommunicators();
  NumberTwins();
  CountExpected();
  for (auto& [host, place] : places_) bundle_.places.push_back(std::move(place));
  bundle_.ranks.reserve(held_.ranks.size());
  for (std::unique_ptr<HeldRank>& held : held_.ranks) {
    bundle_.ranks.push_back(std::move(held->rank));
    held.reset();
  }
  std::sort(bundle_.problems.begin(), bundle_.problems.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.path, a.offset, a.rank, a.text) < std::tie(b.path, b.offset, b.rank, b.text);
  });
  Bundle done = std::move(bundle_);
  *this = BundleBuilder();
  return done;
}

}  // namespace lockstep
