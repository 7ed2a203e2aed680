#include "collector/detect/progress.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr size_t kFewParts = 16;  // up to this number, a linear search is used
constexpr int64_t kScanEvery = 1'000'000'000;
constexpr size_t kMostPoints = 64;
constexpr size_t kMostOdd = 4096;

}  // namespace

MergedProgress::Part* MergedProgress::PartOf(Comm* comm, uint32_t child, bool add) {
  if (comm->parts.size() <= kFewParts) {
    for (Part& part : comm->parts) {
      if (part.child == child) return &part;
    }
  } else if (const auto found = comm->part_of.find(child); found != comm->part_of.end()) {
    return &comm->parts[found->second];
  }
  if (!add) return nullptr;
  comm->parts.emplace_back();
  comm->parts.back().child = child;
  if (comm->parts.size() == kFewParts + 1) {
    for (uint32_t i = 0; i < comm->parts.size(); ++i) comm->part_of[comm->parts[i].child] = i;
  } else if (comm->parts.size() > kFewParts) {
    comm->part_of[child] = static_cast<uint32_t>(comm->parts.size() - 1);
  }
  comms_of_[child].insert(comm->merged.id);
  return &comm->parts.back();
}

void MergedProgress::MarkDirty(uint64_t id, Comm* comm) {
  if (comm->dirty) return;
  comm->dirty = true;
  dirty_.push_back(id);
}

void MergedProgress::MarkMoved(uint64_t id, Comm* comm) {
  if (!relay_ || comm->moved) return;
  comm->moved = true;
  moved_.push_back(id);
}

void MergedProgress::Apply(uint32_t child, int64_t now, const CommBeat& beat) {
  if (beat.comm == 0) return;
  if (beat.gone) {
    RemovePart(beat.comm, child);
    if (const auto of = comms_of_.find(child); of != comms_of_.end()) of->second.erase(beat.comm);
    return;
  }
  Comm& comm = comms_[beat.comm];
  MergedComm& merged = comm.merged;
  merged.id = beat.comm;
  if (merged.met_ns == 0) merged.met_ns = now;
  merged.size = std::max(merged.size, beat.size);
  if (!beat.name.empty() && merged.name != beat.name) {
    merged.name = beat.name;
    comm.members_changed = true;
  }
  Part* part = PartOf(&comm, child, true);
  const bool changed =
      part->min != beat.issued_min || part->max != beat.issued_max || merged.total_max < beat.total_max;
  part->min = beat.issued_min;
  part->max = beat.issued_max;
  part->at_min = beat.at_min;
  if (!beat.members.empty() && part->members != beat.members) {
    merged.known += static_cast<uint32_t>(beat.members.size());
    merged.known -= static_cast<uint32_t>(part->members.size());
    part->members = beat.members;
    comm.members_changed = true;
  }
  merged.total_max = std::max(merged.total_max, beat.total_max);
  const int64_t reached = now - std::max<int64_t>(0, beat.issue_age_ns);
  if (beat.issued_max > merged.issued_max || merged.reached_ns == 0) {
    merged.issued_max = std::max(merged.issued_max, beat.issued_max);
    merged.reached_ns = reached;
  } else if (beat.issued_max == merged.issued_max) {
    merged.reached_ns = std::min(merged.reached_ns, reached);
  }
  if (beat.p99_gap_ns >= merged.p99_gap_ns || comm.p99_child == child) {
    merged.p99_gap_ns = beat.p99_gap_ns;
    merged.gaps = beat.gaps;
    comm.p99_child = child;
  }
  // moved_age_ns also covers sends and receives; `reached` covers only collectives.
  const int64_t moved = beat.moved_age_ns > 0 ? now - beat.moved_age_ns : reached;
  if (changed || merged.moved_ns == 0) merged.moved_ns = std::max(merged.moved_ns, moved);
  if (relay_) ApplyHashes(child, beat, *part, &comm);
  MarkDirty(beat.comm, &comm);
  MarkMoved(beat.comm, &comm);
}

void MergedProgress::ApplyHashes(uint32_t child, const CommBeat& beat, const Part& part, Comm* comm) {
  for (const HashPoint& point : beat.hashes) {
    auto at = std::lower_bound(comm->points.begin(), comm->points.end(), point.seq,
                               [](const Point& p, uint64_t seq) { return p.point.seq < seq; });
    if (at == comm->points.end() || at->point.seq != point.seq) {
      if (comm->points.size() >= kMostPoints) {
        if (at == comm->points.begin()) continue;
        const auto place = at - comm->points.begin();
        at = comm->points.erase(comm->points.begin()) + (place - 1);
      }
      at = comm->points.insert(at, Point{point, {}, {}});
    }
    if (std::find(at->children.begin(), at->children.end(), child) != at->children.end()) continue;
    at->children.push_back(child);
    std::vector<int32_t> odd_here;
    for (const HashOdd& odd : beat.odd) {
      if (odd.point.seq != point.seq) continue;
      odd_here.push_back(odd.rank);
      if (odd.point.hash != at->point.hash && at->odd.size() < kMostOdd) at->odd.push_back(odd);
    }
    if (point.hash == at->point.hash) continue;
    for (int32_t rank : part.members.List(kMostOdd)) {
      if (at->odd.size() >= kMostOdd) break;
      if (std::find(odd_here.begin(), odd_here.end(), rank) == odd_here.end()) at->odd.push_back({rank, point});
    }
  }
}

void MergedProgress::RemovePart(uint64_t id, uint32_t child) {
  const auto found = comms_.find(id);
  if (found == comms_.end()) return;
  Comm& comm = found->second;
  Part* part = PartOf(&comm, child, false);
  if (part == nullptr) return;
  comm.merged.known -= static_cast<uint32_t>(part->members.size());
  const auto index = static_cast<uint32_t>(part - comm.parts.data());
  if (index + 1 != comm.parts.size()) comm.parts[index] = std::move(comm.parts.back());
  comm.parts.pop_back();
  comm.part_of.clear();
  if (comm.parts.size() > kFewParts) {
    for (uint32_t i = 0; i < comm.parts.size(); ++i) comm.part_of[comm.parts[i].child] = i;
  }
  comm.members_changed = true;
  comm.scanned_ns = 0;
  MarkDirty(id, &comm);
  MarkMoved(id, &comm);
}

// The child's ranks now report through another child, or not at all. Neither is progress.
void MergedProgress::Forget(uint32_t child) {
  const auto of = comms_of_.find(child);
  if (of == comms_of_.end()) return;
  const absl::flat_hash_set<uint64_t> ids = std::move(of->second);
  comms_of_.erase(of);
  for (uint64_t id : ids) RemovePart(id, child);
}

void MergedProgress::Scan(uint64_t id, Comm* comm) {
  MergedComm& merged = comm->merged;
  uint64_t min = UINT64_MAX, max = 0;
  for (const Part& part : comm->parts) {
    min = std::min(min, part.min);
    max = std::max(max, part.max);
  }
  if (comm->parts.empty()) min = max = merged.issued_max;
  merged.issued_max = max;
  const bool was_behind = merged.behind_since_ns != 0;
  if (min >= max) {
    merged.behind_since_ns = 0;
  } else if (!was_behind || min != merged.issued_min) {
    // The missing operation was issued no later than the newest one.
    merged.behind_since_ns = std::max<int64_t>(1, merged.reached_ns);
  }
  merged.issued_min = min;
  if (merged.behind_since_ns != 0 && !comm->behind) {
    comm->behind = true;
    behind_.push_back(id);
  }
}

void MergedProgress::Tick(int64_t now) {
  size_t kept = 0;
  for (const uint64_t id : dirty_) {
    const auto found = comms_.find(id);
    if (found == comms_.end()) continue;
    Comm& comm = found->second;
    if (comm.scanned_ns != 0 && now - comm.scanned_ns < kScanEvery) {
      dirty_[kept++] = id;
      continue;
    }
    comm.scanned_ns = now;
    comm.dirty = false;
    Scan(id, &comm);
    if (comm.parts.empty() && !relay_) comms_.erase(found);
  }
  dirty_.resize(kept);
  std::erase_if(behind_, [&](uint64_t id) {
    const auto found = comms_.find(id);
    if (found == comms_.end()) return true;
    if (found->second.merged.behind_since_ns != 0) return false;
    found->second.behind = false;
    return true;
  });
}

const MergedComm* MergedProgress::Find(uint64_t comm) const {
  const auto found = comms_.find(comm);
  return found == comms_.end() ? nullptr : &found->second.merged;
}

Ranks MergedProgress::Missing(uint64_t comm) const {
  std::vector<Ranks::Run> missing;
  const auto found = comms_.find(comm);
  if (found == comms_.end() || found->second.merged.behind_since_ns == 0) return {};
  for (const Part& part : found->second.parts) {
    if (part.min != found->second.merged.issued_min) continue;
    const Ranks& low = part.at_min.empty() ? part.members : part.at_min;
    missing.insert(missing.end(), low.runs().begin(), low.runs().end());
  }
  return Ranks::OfRuns(std::move(missing));
}

Ranks MergedProgress::Members(uint64_t comm) const {
  std::vector<Ranks::Run> members;
  const auto found = comms_.find(comm);
  if (found == comms_.end()) return {};
  for (const Part& part : found->second.parts)
    members.insert(members.end(), part.members.runs().begin(), part.members.runs().end());
  return Ranks::OfRuns(std::move(members));
}

void MergedProgress::ForEachBehind(const std::function<void(const MergedComm&)>& take) const {
  for (const uint64_t id : behind_) {
    if (const auto found = comms_.find(id); found != comms_.end() && found->second.merged.behind_since_ns != 0) {
      take(found->second.merged);
    }
  }
}

void MergedProgress::ForEach(const std::function<void(const MergedComm&)>& take) const {
  for (const auto& [id, comm] : comms_) take(comm.merged);
}

std::vector<CommBeat> MergedProgress::TakeMoved(int64_t now, bool everything) {
  std::vector<CommBeat> beats;
  std::vector<uint64_t> ids;
  if (everything) {
    for (const auto& [id, comm] : comms_) ids.push_back(id);
  } else {
    ids = moved_;
  }
  moved_.clear();
  for (const uint64_t id : ids) {
    const auto found = comms_.find(id);
    if (found == comms_.end()) continue;
    Comm& comm = found->second;
    comm.moved = false;
    Scan(id, &comm);
    const MergedComm& merged = comm.merged;
    CommBeat beat;
    beat.comm = id;
    beat.size = merged.size;
    beat.issued_min = merged.issued_min;
    beat.issued_max = merged.issued_max;
    beat.total_max = merged.total_max;
    beat.issue_age_ns = std::max<int64_t>(0, now - merged.reached_ns);
    beat.moved_age_ns = merged.moved_ns > 0 ? std::max<int64_t>(1, now - merged.moved_ns) : 0;
    beat.at_min = Missing(id);
    beat.p99_gap_ns = merged.p99_gap_ns;
    beat.gaps = merged.gaps;
    if (everything || comm.members_changed) {
      beat.members = Members(id);
      beat.name = merged.name;
      comm.members_changed = false;
    }
    std::erase_if(comm.points, [&](const Point& point) {
      if (point.children.size() < comm.parts.size()) return false;
      beat.hashes.push_back(point.point);
      beat.odd.insert(beat.odd.end(), point.odd.begin(), point.odd.end());
      return true;
    });
    beat.gone = comm.parts.empty();
    beats.push_back(std::move(beat));
    if (comm.parts.empty()) comms_.erase(found);
  }
  return beats;
}

}  // namespace lockstep
