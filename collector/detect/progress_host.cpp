#include <algorithm>
#include <bit>
#include <utility>

#include "analyzer/model/rank_set.h"
#include "collector/detect/progress.h"
#include "proto/wire.pb.h"

namespace lockstep {
namespace {

constexpr size_t kMostPointsOfBeat = 8;  // maximum number per beat
constexpr size_t kMostHeldPoints = 128;  // maximum number per communicator between two beats
constexpr int kMostFromProto = 4096;
// A communicator is gone after this many scans without it. Fewer are not enough, because a table may be read while it
// is written.
constexpr uint64_t kLooksUntilGone = 50;

bool Ended(ring::CommState state) {
  return state != ring::CommState::kInitializing && state != ring::CommState::kReady &&
         state != ring::CommState::kFinalizing;
}

}  // namespace

CommBeat BeatFromProto(const CommunicatorBeat& proto) {
  CommBeat beat;
  beat.comm = proto.id();
  beat.gone = proto.size() < 0;
  beat.size = std::max(0, proto.size());
  beat.issued_max = std::max(proto.issued_min(), proto.issued_max());
  beat.issued_min = proto.issued_min();
  beat.total_max = std::max(proto.total_max(), beat.issued_max);
  beat.issue_age_ns = std::max<int64_t>(0, proto.issue_age_ns());
  beat.moved_age_ns = std::max<int64_t>(0, proto.moved_age_ns());
  beat.at_min = Ranks::FromOrNone(proto.at_min());
  beat.members = Ranks::FromOrNone(proto.members());
  beat.p99_gap_ns = std::max<int64_t>(0, proto.p99_gap_ns());
  beat.gaps = std::min<uint32_t>(proto.gaps(), GapHistory::kMost);
  beat.name = proto.name().substr(0, 256);
  const int points = std::min({proto.checkpoint_size(), proto.checkpoint_hash_size(), kMostFromProto});
  for (int i = 0; i < points; ++i) beat.hashes.push_back({proto.checkpoint(i), proto.checkpoint_hash(i)});
  const int odd = std::min(proto.deviant_size(), kMostFromProto);
  for (int i = 0; i < odd; ++i) {
    const HashDeviant& deviant = proto.deviant(i);
    if (deviant.rank() >= 0) beat.odd.push_back({deviant.rank(), {deviant.checkpoint(), deviant.hash()}});
  }
  return beat;
}

void BeatToProto(const CommBeat& beat, CommunicatorBeat* proto) {
  proto->set_id(beat.comm);
  proto->set_size(beat.gone ? -1 : beat.size);
  proto->set_issued_min(beat.issued_min);
  proto->set_issued_max(beat.issued_max);
  proto->set_total_max(beat.total_max);
  proto->set_issue_age_ns(beat.issue_age_ns);
  proto->set_moved_age_ns(beat.moved_age_ns);
  if (!beat.at_min.empty()) beat.at_min.To(proto->mutable_at_min());
  if (!beat.members.empty()) beat.members.To(proto->mutable_members());
  proto->set_p99_gap_ns(beat.p99_gap_ns);
  proto->set_gaps(beat.gaps);
  if (!beat.name.empty()) proto->set_name(beat.name);
  for (const HashPoint& point : beat.hashes) {
    proto->add_checkpoint(point.seq);
    proto->add_checkpoint_hash(point.hash);
  }
  for (const HashOdd& odd : beat.odd) {
    HashDeviant* deviant = proto->add_deviant();
    deviant->set_rank(odd.rank);
    deviant->set_checkpoint(odd.point.seq);
    deviant->set_hash(odd.point.hash);
  }
}

void HostProgress::AddPoint(Comm* comm, Member* member, int32_t rank, HashPoint point) {
  if (point.seq <= member->newest_point || point.hash == 0) return;
  auto at = std::lower_bound(comm->points.begin(), comm->points.end(), point.seq,
                             [](const Point& p, uint64_t seq) { return p.seq < seq; });
  if (at == comm->points.end() || at->seq != point.seq) at = comm->points.insert(at, Point{point.seq, {}});
  const bool told =
      std::any_of(at->hashes.begin(), at->hashes.end(), [&](const auto& entry) { return entry.first == rank; });
  if (!told) at->hashes.emplace_back(rank, point.hash);
  comm->moved = true;
}

void HostProgress::Leave(uint64_t id, int32_t rank) {
  const auto found = comms_.find(id);
  if (found == comms_.end() || found->second.members.erase(rank) == 0) return;
  Comm& comm = found->second;
  comm.moved = true;
  comm.members_told = false;
  for (Point& point : comm.points) {
    const auto left = std::remove_if(point.hashes.begin(), point.hashes.end(),
                                     [rank](const auto& entry) { return entry.first == rank; });
    point.hashes.erase(left, point.hashes.end());
  }
  std::erase_if(comm.points, [](const Point& point) { return point.hashes.empty(); });
  if (!comm.members.empty()) return;
  gone_.push_back(id);
  comms_.erase(found);
}

namespace {

// What the live members of a communicator in one process have issued. A process that drives several devices has several
// members.
struct IssuedHere {
  uint64_t least = UINT64_MAX, total = 0;
  int64_t newest_ns = 0, collective_ns = 0;  // last issue of any operation, and of a collective
};

absl::flat_hash_map<uint64_t, IssuedHere> IssuedIn(const ring::Snapshot& digest) {
  absl::flat_hash_map<uint64_t, IssuedHere> by_comm;
  for (const ring::CommSnapshot& snapshot : digest.comms) {
    if (snapshot.id == 0 || Ended(snapshot.state)) continue;
    IssuedHere& issued = by_comm[snapshot.id];
    issued.least = std::min(issued.least, snapshot.issued_seq);
    issued.total += snapshot.issued_seq;
    issued.collective_ns = std::max(issued.collective_ns, snapshot.issued_ns);
    issued.newest_ns = std::max(issued.newest_ns, snapshot.issued_ns);
    for (const ring::PeerProgress& peer : snapshot.peers) {
      issued.total += peer.sends + peer.recvs;
      issued.newest_ns = std::max({issued.newest_ns, peer.last_send_ns, peer.last_recv_ns});
    }
  }
  return by_comm;
}

}  // namespace

void HostProgress::Observe(const std::vector<RingView>& rings) {
  ++look_;
  absl::flat_hash_set<int32_t> seen;
  for (const RingView& ring : rings) {
    if (ring.rank < 0 || ring.digest == nullptr) continue;
    seen.insert(ring.rank);
    const absl::flat_hash_map<uint64_t, IssuedHere> by_comm = IssuedIn(*ring.digest);
    for (const ring::CommSnapshot& snapshot : ring.digest->comms) {
      if (snapshot.id == 0) continue;
      if (Ended(snapshot.state)) {
        if (!by_comm.contains(snapshot.id)) Leave(snapshot.id, ring.rank);
        continue;
      }
      Comm& comm = comms_[snapshot.id];
      comm.size = std::max(comm.size, snapshot.size);
      if (comm.name.empty() && !snapshot.name.empty()) {
        comm.name = snapshot.name;
        comm.members_told = false;
      }
      auto [entry, fresh] = comm.members.try_emplace(ring.rank);
      Member& member = entry->second;
      member.look = look_;
      const IssuedHere& issued = by_comm.at(snapshot.id);
      if (fresh) comm.members_told = false;
      comm.moved |= fresh || member.total != issued.total;
      member.total = issued.total;
      member.issued = issued.least;
      member.issued_ns = issued.newest_ns;
      member.collective_ns = issued.collective_ns;
      for (const ring::HashCheckpoint& point : snapshot.checkpoints)
        AddPoint(&comm, &member, ring.rank, {point.seq, point.hash});
      for (const ring::HashCheckpoint& point : snapshot.checkpoints)
        member.newest_point = std::max(member.newest_point, point.seq);
      // The newest number may be read before its hash is written.
      const HashPoint newest{snapshot.issued_seq, snapshot.signature_hash};
      if (newest == member.last_look) {
        AddPoint(&comm, &member, ring.rank, newest);
        if (newest.hash != 0) member.newest_point = std::max(member.newest_point, newest.seq);
      }
      member.last_look = newest;
      if (comm.points.size() > kMostHeldPoints)
        comm.points.erase(comm.points.begin(), comm.points.end() - kMostHeldPoints / 2);
    }
  }
  if (look_ % kLooksUntilGone != 0) return;
  std::vector<std::pair<uint64_t, int32_t>> left;
  for (const auto& [id, comm] : comms_) {
    for (const auto& [rank, member] : comm.members) {
      if (member.look + kLooksUntilGone < look_ && seen.contains(rank)) left.emplace_back(id, rank);
    }
  }
  for (const auto& [id, rank] : left) Leave(id, rank);
}

void HostProgress::TakePoints(Comm* comm, CommBeat* beat) {
  // Uses only points that all members on this host reported, because a point applies to all of them.
  std::vector<const Point*> whole;
  uint64_t done = 0;
  for (const Point& point : comm->points) {
    if (point.hashes.size() != comm->members.size()) continue;
    whole.push_back(&point);
    done = std::max(done, point.seq);
  }
  std::sort(whole.begin(), whole.end(), [](const Point* a, const Point* b) {
    const int round_a = std::countr_zero(a->seq), round_b = std::countr_zero(b->seq);
    return round_a != round_b ? round_a > round_b : a->seq > b->seq;
  });
  // Differing points come first, so that they are always reported.
  const auto differs = [](const Point* point) {
    return std::any_of(point->hashes.begin(), point->hashes.end(),
                       [&](const auto& entry) { return entry.second != point->hashes[0].second; });
  };
  std::stable_partition(whole.begin(), whole.end(), differs);
  if (whole.size() > kMostPointsOfBeat) whole.resize(kMostPointsOfBeat);
  std::sort(whole.begin(), whole.end(), [](const Point* a, const Point* b) { return a->seq < b->seq; });
  for (const Point* point : whole) {
    // The beat carries the hash of most members.
    uint64_t common = point->hashes[0].second;
    size_t most = 0;
    for (const auto& [rank, hash] : point->hashes) {
      const uint64_t wanted = hash;
      const auto count = static_cast<size_t>(std::count_if(point->hashes.begin(), point->hashes.end(),
                                                           [&](const auto& entry) { return entry.second == wanted; }));
      if (count > most) {
        most = count;
        common = hash;
      }
    }
    beat->hashes.push_back({point->seq, common});
    for (const auto& [rank, hash] : point->hashes) {
      if (hash != common) beat->odd.push_back({rank, {point->seq, hash}});
    }
  }
  std::erase_if(comm->points, [&](const Point& point) { return point.seq <= done; });
}

std::vector<CommBeat> HostProgress::Take(int64_t now, const Lateness& lateness, bool everything) {
  std::vector<CommBeat> beats;
  for (const uint64_t id : std::exchange(gone_, {})) {
    if (comms_.contains(id)) continue;  // the communicator was created again
    CommBeat beat;
    beat.comm = id;
    beat.gone = true;
    beats.push_back(std::move(beat));
  }
  for (auto& [id, comm] : comms_) {
    if ((!comm.moved && !everything) || comm.members.empty()) continue;
    comm.moved = false;
    CommBeat beat;
    beat.comm = id;
    beat.size = comm.size;
    beat.issued_min = UINT64_MAX;
    int64_t reached = 0, moved = 0;
    for (const auto& [rank, member] : comm.members) {
      beat.issued_min = std::min(beat.issued_min, member.issued);
      beat.total_max = std::max(beat.total_max, member.total);
      moved = std::max(moved, member.issued_ns);
      if (reached == 0 || member.issued > beat.issued_max) {
        beat.issued_max = std::max(beat.issued_max, member.issued);
        reached = member.collective_ns;
      } else if (member.issued == beat.issued_max && member.collective_ns > 0) {
        reached = std::min(reached, member.collective_ns);
      }
    }
    beat.issue_age_ns = reached > 0 ? std::max<int64_t>(0, now - reached) : 0;
    beat.moved_age_ns = moved > 0 ? std::max<int64_t>(1, now - moved) : 0;
    const bool tell = everything || !comm.members_told;
    if (tell || beat.issued_min < beat.issued_max) {
      std::vector<int32_t> all, low;
      for (const auto& [rank, member] : comm.members) {
        all.push_back(rank);
        if (member.issued == beat.issued_min) low.push_back(rank);
      }
      if (beat.issued_min < beat.issued_max) beat.at_min = Ranks::Of(std::move(low));
      if (tell) {
        beat.members = Ranks::Of(std::move(all));
        beat.name = comm.name;
        comm.members_told = true;
      }
    }
    if (const GapMeter* meter = lateness.MeterOf(id); meter != nullptr) {
      beat.p99_gap_ns = meter->gaps().P99();
      beat.gaps = static_cast<uint32_t>(meter->gaps().size());
    }
    TakePoints(&comm, &beat);
    beats.push_back(std::move(beat));
  }
  return beats;
}

}  // namespace lockstep
