#include "collector/rings/snapshot_merge.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace lockstep {
namespace {

// A group and its members may have the same index.
auto Identity(const ring::OpSnapshot& op) {
  return std::make_tuple(op.thread, op.index, op.comm, op.kind, op.root_or_peer, op.seq);
}

}  // namespace

size_t SnapshotBytes(const ring::Snapshot& snapshot) {
  const auto of = [](const auto& list) { return list.size() * sizeof(list[0]); };
  size_t bytes = sizeof(snapshot) + of(snapshot.comms) + of(snapshot.ops) + of(snapshot.recent) + of(snapshot.threads) +
                 of(snapshot.streams) + of(snapshot.graphs) + of(snapshot.kernels) + of(snapshot.proxies);
  for (const ring::CommSnapshot& comm : snapshot.comms) bytes += of(comm.peers) + of(comm.checkpoints);
  return bytes;
}

void MergeEarlierOps(const ring::Snapshot& earlier, ring::Snapshot* into) {
  std::set<decltype(Identity(std::declval<ring::OpSnapshot>()))> known;
  for (const ring::OpSnapshot& op : into->ops) known.insert(Identity(op));
  const size_t before = into->ops.size();
  for (const ring::OpSnapshot& op : earlier.ops) {
    if (known.insert(Identity(op)).second) into->ops.push_back(op);
  }
  if (into->ops.size() == before) return;
  std::stable_sort(into->ops.begin(), into->ops.end(), [](const ring::OpSnapshot& a, const ring::OpSnapshot& b) {
    return std::make_pair(a.thread, a.index) < std::make_pair(b.thread, b.index);
  });
}

void AddLateMarks(const ring::Snapshot& later, ring::Snapshot* last) {
  for (ring::StreamSnapshot& stream : last->streams) {
    for (const ring::StreamSnapshot& now : later.streams) {
      if (now.index != stream.index || now.handle != stream.handle || now.device != stream.device) continue;
      if (now.started > stream.started) {
        stream.late_started += now.started - stream.started;
        stream.started = now.started;
      }
      if (now.completed > stream.completed) {
        stream.late_completed += now.completed - stream.completed;
        stream.completed = now.completed;
      }
      break;
    }
  }
}

}  // namespace lockstep
