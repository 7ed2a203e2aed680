#include "collector/desync_watch.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr size_t kMostHashes = 1024;

struct Present {
  std::vector<size_t> members;
  std::string name;
  int32_t size = 0;
  uint64_t differs_at = 0;
};

}  // namespace

bool DesyncWatch::Settled(size_t digest, const ring::CommSnapshot& comm) {
  const auto pair = std::make_pair(comm.issued_seq, comm.signature_hash);
  auto& before = newest_[{digest, comm.index}];
  const bool same = before == pair;
  before = pair;
  return same;
}

std::vector<Desync> DesyncWatch::Look(const std::vector<const ring::Snapshot*>& digests) {
  std::map<uint64_t, Present> present;
  for (size_t i = 0; i < digests.size(); ++i) {
    for (const ring::CommSnapshot& comm : digests[i]->comms) {
      if (comm.id == 0 || comm.issued_seq == 0) continue;
      Comm& known = comms_[comm.id];
      if (known.stage == Stage::kConfirmed) continue;
      Present& now = present[comm.id];
      if (now.members.empty() || now.members.back() != i) now.members.push_back(i);
      if (now.name.empty()) now.name = comm.name;
      now.size = std::max(now.size, comm.size);
      const auto compare = [&](uint64_t seq, uint64_t hash) {
        if (seq == 0 || hash == 0) return;
        const auto [entry, added] = known.hashes.emplace(seq, hash);
        if (added || entry->second == hash) return;
        if (now.differs_at == 0 || seq < now.differs_at) now.differs_at = seq;
      };
      for (const ring::HashCheckpoint& checkpoint : comm.checkpoints) compare(checkpoint.seq, checkpoint.hash);
      if (Settled(i, comm)) compare(comm.issued_seq, comm.signature_hash);
    }
  }
  std::vector<Desync> found;
  for (const auto& [id, now] : present) {
    Comm& known = comms_[id];
    while (known.hashes.size() > kMostHashes) known.hashes.erase(known.hashes.begin());
    if (now.differs_at == 0) continue;
    known.stage = known.stage == Stage::kEqual ? Stage::kSeen : Stage::kConfirmed;
    found.push_back({id, now.name, now.size, now.differs_at, known.stage == Stage::kConfirmed, now.members});
  }
  return found;
}

}  // namespace lockstep
