#include "collector/detect/digest_view.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

class Mixer {
 public:
  void Add(uint64_t value) {
    state_ ^= value + 0x9e3779b97f4a7c15 + (state_ << 6) + (state_ >> 2);
    state_ *= 0xff51afd7ed558ccd;
    state_ ^= state_ >> 33;
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 1;
};

bool Active(ring::CommState state) {
  return state == ring::CommState::kInitializing || state == ring::CommState::kReady ||
         state == ring::CommState::kFinalizing;
}

// Finds the communicator of each stream's oldest unfinished operation, if that is among the communicators' recent
// operations.
void AttributeStreams(const ring::Snapshot& digest, const absl::flat_hash_map<uint32_t, uint64_t>& ids,
                      DigestView* view) {
  if (!view->gpu_in_flight) return;
  // Indexed by stream: the stream's lowest unfinished ticket.
  absl::flat_hash_map<uint32_t, std::pair<DigestStream*, uint64_t>> oldest;
  for (DigestStream& stream : view->streams) {
    if (stream.issued > stream.completed) oldest[stream.index] = {&stream, UINT64_MAX};
  }
  for (const ring::OpSnapshot& op : digest.recent) {
    const auto found = oldest.find(op.stream);
    const auto comm = ids.find(op.comm);
    if (found == oldest.end() || comm == ids.end() || op.stage == ring::OpStage::kFailed) continue;
    auto& [stream, ticket] = found->second;
    if (op.ticket <= stream->completed || op.ticket >= ticket) continue;
    ticket = op.ticket;
    stream->comm = comm->second;
    stream->seq = ring::IsCollective(op.kind) ? op.seq : 0;
  }
}

}  // namespace

DigestView ViewOf(const ring::Snapshot& digest) {
  DigestView view;
  Mixer mark;
  // The ring is no longer written although the process may continue. So its open operations mean nothing, and missing
  // progress proves nothing.
  if (digest.process.state == ring::RecorderState::kStopped || digest.process.state == ring::RecorderState::kReplaced) {
    return view;
  }
  absl::flat_hash_map<uint32_t, uint64_t> ids;
  for (const ring::CommSnapshot& comm : digest.comms) {
    ids[comm.index] = comm.id;
    DigestComm entry;
    entry.id = comm.id;
    entry.name = comm.name;
    entry.member = comm.member_rank;
    entry.size = comm.size;
    entry.active = Active(comm.state);
    entry.collectives = comm.issued_seq;
    entry.total = comm.issued_seq;
    entry.issued_ns = comm.issued_ns;
    for (const ring::PeerProgress& peer : comm.peers) {
      entry.total += peer.sends + peer.recvs;
      entry.issued_ns = std::max({entry.issued_ns, peer.last_send_ns, peer.last_recv_ns});
    }
    mark.Add(comm.id);
    mark.Add(static_cast<uint64_t>(comm.state));
    mark.Add(entry.total);
    mark.Add(comm.launched_seq);
    mark.Add(static_cast<uint64_t>(comm.async_error));
    view.comms.push_back(entry);
  }
  for (const ring::StreamSnapshot& stream : digest.streams) {
    mark.Add(stream.started);
    mark.Add(stream.completed);
    if (!stream.marked) continue;
    // Tickets that the driver did not accept will never complete.
    const uint64_t issued = std::min(stream.issued, stream.given);
    if (issued > stream.completed) view.gpu_in_flight = true;
    view.streams.push_back({stream.index, issued, stream.completed, 0, 0});
  }
  AttributeStreams(digest, ids, &view);
  view.progress_mark = mark.value();
  const auto earliest = [&view](int64_t since, std::string doing) {
    if (since <= 0 || (view.blocked_since_ns != 0 && since >= view.blocked_since_ns)) return;
    view.blocked_since_ns = since;
    view.doing = std::move(doing);
  };
  for (const ring::ThreadSnapshot& thread : digest.threads) {
    view.activity_ns = std::max({view.activity_ns, thread.since_ns, thread.wait_since_ns, thread.last_call_ns});
    if (thread.call != ring::CallKind::kNone) {
      const auto comm = ids.find(thread.comm);
      view.waits.push_back(
          {thread.call, comm == ids.end() ? 0 : comm->second, thread.seq, UINT32_MAX, thread.since_ns});
      const char* call = ring::CallName(thread.call);
      earliest(thread.since_ns, thread.seq == 0 ? call : absl::StrCat(call, " #", thread.seq));
      if (ring::IsCommInit(thread.call)) view.in_init = true;
    }
    if (thread.wait != ring::CallKind::kNone) {
      view.waits.push_back({thread.wait, 0, 0, thread.wait_stream, thread.wait_since_ns});
      earliest(thread.wait_since_ns, ring::CallName(thread.wait));
    }
  }
  return view;
}

}  // namespace lockstep
