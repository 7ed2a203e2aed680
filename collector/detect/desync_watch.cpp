#include "collector/detect/desync_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/util/rank_text.h"
#include "collector/common/say.h"

namespace lockstep {
namespace {

constexpr size_t kMostSides = 16;
constexpr size_t kKeptRuns = 32;

}  // namespace

std::string DesyncWhere(const Desync& desync) {
  const std::string seq = CountText(desync.seq);
  return absl::StrCat("the ranks of communicator ",
                      desync.name.empty() ? absl::StrCat(absl::Hex(desync.comm)) : desync.name, " (size ", desync.size,
                      ") made different calls ",
                      desync.after > 0 ? absl::StrCat("between collectives #", CountText(desync.after), " and #", seq)
                                       : absl::StrCat("up to collective #", seq));
}

std::string DesyncText(const Desync& desync) {
  std::string text = DesyncWhere(desync);
  if (desync.even) {
    absl::StrAppend(&text, "; ranks ", desync.odd.Text(),
                    " differ from the others, but the hashes alone do not show which side is wrong");
  } else if (!desync.odd.empty()) {
    absl::StrAppend(&text, desync.odd.size() == 1 ? "; rank " : "; ranks ", desync.odd.Text(),
                    desync.odd.size() == 1 ? " differs" : " differ", " from the others");
  }
  return text;
}

bool DesyncWatch::Say(Comm* comm, uint64_t seq, uint64_t hash, const Ranks& ranks) {
  if (seq == 0 || hash == 0 || ranks.empty()) return false;
  auto at = std::lower_bound(comm->points.begin(), comm->points.end(), seq,
                             [](const Point& p, uint64_t s) { return p.seq < s; });
  if (at == comm->points.end() || at->seq != seq) {
    if (comm->points.size() >= most_points_) {
      if (at == comm->points.begin()) return false;
      const Point& oldest = comm->points.front();
      if (oldest.sides.size() == 1 && oldest.sides[0].count > 1) comm->agreed = std::max(comm->agreed, oldest.seq);
      const auto place = at - comm->points.begin();
      at = comm->points.erase(comm->points.begin()) + (place - 1);
    }
    at = comm->points.insert(at, Point{seq, {}});
  }
  // Only a member's last report counts, because the calls of a failed group are removed from its hash again.
  for (Side& side : at->sides) {
    if (side.hash == hash) continue;
    const size_t before = side.ranks.size();
    side.ranks.Subtract(ranks);
    side.count -= static_cast<uint32_t>(before - side.ranks.size());
  }
  auto side = std::find_if(at->sides.begin(), at->sides.end(), [hash](const Side& s) { return s.hash == hash; });
  if (side == at->sides.end()) {
    if (at->sides.size() >= kMostSides) return true;
    at->sides.emplace_back();
    side = at->sides.end() - 1;
    side->hash = hash;
  }
  Ranks fresh = ranks;
  fresh.Subtract(side->ranks);
  side->count += static_cast<uint32_t>(fresh.size());
  if (side->ranks.runs().size() < kKeptRuns) {
    side->ranks.Unite(fresh);
  } else if (!fresh.empty()) {
    side->whole = false;
  }
  const auto empty = std::remove_if(at->sides.begin(), at->sides.end(), [](const Side& s) { return s.count == 0; });
  at->sides.erase(empty, at->sides.end());
  return at->sides.size() > 1;
}

Desync DesyncWatch::Describe(uint64_t id, const Comm& comm) {
  Desync desync;
  desync.comm = id;
  desync.name = comm.name;
  desync.size = comm.size;
  desync.after = comm.agreed;
  desync.confirmed = comm.stage == Stage::kConfirmed;
  // The point with the most reports shows best which members differ. The first difference shows where they started to
  // differ.
  const Point* best = nullptr;
  uint32_t best_count = 0;
  for (const Point& point : comm.points) {
    if (point.sides.size() < 2) continue;
    if (desync.seq == 0) desync.seq = point.seq;
    uint32_t count = 0;
    for (const Side& side : point.sides) count += side.count;
    if (best == nullptr || count > best_count) {
      best = &point;
      best_count = count;
    }
  }
  if (best == nullptr) return desync;
  desync.compared = best_count;
  const auto most = std::max_element(best->sides.begin(), best->sides.end(),
                                     [](const Side& a, const Side& b) { return a.count < b.count; });
  desync.even =
      std::count_if(best->sides.begin(), best->sides.end(), [&](const Side& s) { return s.count == most->count; }) > 1;
  for (const Side& side : best->sides) {
    if (desync.even || &side != &*most) desync.odd.Unite(side.ranks);
  }
  for (const Point& point : comm.points) {
    if (point.seq >= desync.seq) break;
    const Side& side = point.sides[0];
    const bool heard = !side.whole || desync.odd.empty() || side.ranks.Contains(desync.odd.front());
    if (point.sides.size() == 1 && side.count > 1 && heard) desync.after = point.seq;
  }
  return desync;
}

std::vector<Desync> DesyncWatch::Apply(uint32_t child, const CommBeat& beat) {
  if (beat.comm == 0) return {};
  if (beat.gone) {
    if (const auto found = comms_.find(beat.comm); found != comms_.end()) found->second.members.erase(child);
    return {};
  }
  if (beat.hashes.empty() && beat.members.empty() && beat.name.empty()) return {};
  Comm& comm = comms_[beat.comm];
  comm.size = std::max(comm.size, beat.size);
  if (!beat.name.empty()) comm.name = beat.name;
  Ranks& members = comm.members[child];
  if (!beat.members.empty()) members = beat.members;
  if (comm.stage == Stage::kConfirmed) return {};
  uint64_t differs = 0;
  for (const HashPoint& point : beat.hashes) {
    std::vector<int32_t> odd;
    for (const HashOdd& other : beat.odd) {
      if (other.point.seq == point.seq) odd.push_back(other.rank);
    }
    Ranks usual = members;
    usual.Subtract(Ranks::Of(odd));
    bool apart = Say(&comm, point.seq, point.hash, usual);
    for (const HashOdd& other : beat.odd) {
      if (other.point.seq == point.seq) apart |= Say(&comm, point.seq, other.point.hash, Ranks::Of({other.rank}));
    }
    if (apart) differs = point.seq;
  }
  if (differs == 0) return {};
  if (comm.stage == Stage::kEqual) {
    comm.stage = Stage::kSeen;
    comm.seen_seq = differs;
    comm.seen_child = child;
  } else if (differs > comm.seen_seq || child == comm.seen_child) {
    comm.stage = Stage::kConfirmed;
  } else {
    return {};
  }
  return {Describe(beat.comm, comm)};
}

std::vector<Desync> DesyncWatch::Look(const std::vector<RingView>& rings) {
  absl::flat_hash_map<uint64_t, bool> differs;
  for (size_t i = 0; i < rings.size(); ++i) {
    if (rings[i].digest == nullptr) continue;
    const Ranks rank = Ranks::Of({rings[i].rank});
    for (const ring::CommSnapshot& snapshot : rings[i].digest->comms) {
      if (snapshot.id == 0 || snapshot.issued_seq == 0) continue;
      Comm& comm = comms_[snapshot.id];
      if (comm.stage == Stage::kConfirmed) continue;
      comm.size = std::max(comm.size, snapshot.size);
      if (comm.name.empty()) comm.name = snapshot.name;
      bool apart = false;
      for (const ring::HashCheckpoint& point : snapshot.checkpoints) apart |= Say(&comm, point.seq, point.hash, rank);
      const auto pair = std::make_pair(snapshot.issued_seq, snapshot.signature_hash);
      auto& before = newest_[uint64_t{i} << 32 | snapshot.index];
      if (before == pair) apart |= Say(&comm, pair.first, pair.second, rank);
      before = pair;
      differs[snapshot.id] |= apart;
    }
  }
  std::vector<Desync> found;
  for (const auto& [id, apart] : differs) {
    if (!apart) continue;
    Comm& comm = comms_[id];
    // A ring later in the list may have replaced the hash that differed.
    if (std::all_of(comm.points.begin(), comm.points.end(), [](const Point& p) { return p.sides.size() < 2; }))
      continue;
    comm.stage = comm.stage == Stage::kEqual ? Stage::kSeen : Stage::kConfirmed;
    found.push_back(Describe(id, comm));
  }
  std::sort(found.begin(), found.end(), [](const Desync& a, const Desync& b) { return a.comm < b.comm; });
  return found;
}

}  // namespace lockstep
