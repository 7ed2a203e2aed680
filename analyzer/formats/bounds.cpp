#include "analyzer/formats/bounds.h"

#include <initializer_list>

namespace lockstep {
namespace {

constexpr int64_t kFarNs = int64_t{1} << 61;  // the year 2043, for a clock that counts from 1970
constexpr int64_t kMost = int64_t{1} << 60;

void BoundTimes(std::initializer_list<int64_t*> times) {
  for (int64_t* ns : times) {
    if (*ns < 0 || *ns > kFarNs) *ns = 0;
  }
}

// Replaces counts outside kUnknown..kMost with `unknown`.
void BoundCounts(int64_t unknown, std::initializer_list<int64_t*> counts) {
  for (int64_t* count : counts) {
    if (*count < kUnknown || *count > kMost) *count = unknown;
  }
}

}  // namespace

void BoundNumbers(Rank* rank) {
  Process& process = rank->process;
  BoundTimes({&rank->captured_ns, &rank->stopped_ns, &rank->time_uncertainty_ns, &process.ended_mono_ns,
              &process.sample_gap_ns});
  BoundCounts(-1, {&process.cpu_ns_between_samples, &process.io_bytes_between_samples});
  if (rank->real_minus_mono_ns < -kFarNs || rank->real_minus_mono_ns > kFarNs) rank->real_minus_mono_ns = 0;
  for (Membership& m : rank->memberships) {
    BoundTimes({&m.issued_ns, &m.created_ns, &m.ready_ns, &m.ended_ns});
    BoundCounts(kUnknown,
                {&m.issued, &m.launched, &m.started, &m.completed, &m.p2p_issued, &m.p2p_started, &m.p2p_completed});
    BoundCounts(1, {&m.first_seq});
    BoundCounts(0, {&m.lost_records, &m.not_loaded, &m.unrecorded});
    for (PeerCount& peer : m.peers) BoundCounts(0, {&peer.sends, &peer.recvs});
    for (HashCheckpoint& checkpoint : m.checkpoints) BoundCounts(kNone, {&checkpoint.seq});
  }
  for (ring::ThreadSnapshot& t : rank->threads)
    BoundTimes({&t.since_ns, &t.group_since_ns, &t.wait_since_ns, &t.last_call_ns});
  for (ring::StreamSnapshot& s : rank->streams) {
    for (uint64_t* tickets : {&s.issued, &s.started, &s.completed, &s.late_started, &s.late_completed}) {
      if (*tickets > uint64_t{kMost}) *tickets = 0;
    }
  }
  for (ring::GraphSnapshot& graph : rank->graphs)
    BoundTimes({&graph.captured_ns, &graph.last_launch_ns, &graph.ended_ns});
  for (NetworkOp& op : rank->network) {
    BoundTimes({&op.since_ns});
    BoundCounts(kUnknown, {&op.seq});
  }
  for (Op& op : rank->ops) {
    BoundTimes({&op.enter_ns, &op.return_ns, &op.started_ns, &op.completed_ns});
    BoundCounts(kUnknown, {&op.seq, &op.record_id});
    BoundCounts(-1, {&op.count, &op.input_elements, &op.output_elements});
    BoundCounts(0, {&op.index, &op.ticket});
  }
}

}  // namespace lockstep
