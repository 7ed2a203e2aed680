#include "collector/desync_watch.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep {
namespace {

struct Seen {
  // Per sequence number the first hash met, and whether another one was met too.
  std::map<uint64_t, std::pair<uint64_t, bool>> at;
  std::vector<size_t> members;
  std::string name;
  int32_t size = 0;

  void Add(uint64_t seq, uint64_t hash) {
    if (seq == 0 || hash == 0) return;
    const auto [entry, added] = at.emplace(seq, std::make_pair(hash, false));
    if (!added && entry->second.first != hash) entry->second.second = true;
  }
};

}  // namespace

std::vector<Desync> DesyncWatch::Look(const std::vector<const ring::Snapshot*>& digests) {
  std::map<uint64_t, Seen> comms;
  for (size_t i = 0; i < digests.size(); ++i) {
    for (const ring::CommSnapshot& comm : digests[i]->comms) {
      if (comm.id == 0 || comm.issued_seq == 0) continue;
      Seen& seen = comms[comm.id];
      if (seen.members.empty() || seen.members.back() != i) seen.members.push_back(i);
      if (seen.name.empty()) seen.name = comm.name;
      seen.size = std::max(seen.size, comm.size);
      for (const ring::HashCheckpoint& checkpoint : comm.checkpoints) seen.Add(checkpoint.seq, checkpoint.hash);
      // Hashes at checkpoints and at the present number are of the same kind: one member may be just past a checkpoint.
      seen.Add(comm.issued_seq, comm.signature_hash);
    }
  }
  std::vector<Desync> found;
  std::set<std::pair<uint64_t, uint64_t>> pending;
  for (const auto& [id, seen] : comms) {
    if (reported_.count(id) != 0) continue;
    for (const auto& [seq, entry] : seen.at) {
      if (!entry.second) continue;
      const auto key = std::make_pair(id, seq);
      if (pending_.count(key) == 0) {
        pending.insert(key);
        continue;
      }
      reported_.insert(id);
      found.push_back({id, seen.name, seen.size, seq, seen.members});
      break;
    }
  }
  pending_ = std::move(pending);
  return found;
}

}  // namespace lockstep
