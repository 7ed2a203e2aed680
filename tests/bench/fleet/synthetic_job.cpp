#include "tests/bench/fleet/synthetic_job.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::fleet {
namespace {

using namespace jobmodel;
using ring::CallKind;

constexpr int kMicrobatches = 8;
constexpr int64_t kAhead = 6;  // calls that a CPU thread is ahead of its GPU
constexpr Family kFamilies[] = {Family::kTp, Family::kDp, Family::kPp, Family::kWorld, Family::kEmb};
constexpr int kGroups = 5;
constexpr uint64_t kCheckpointEvery = 64;
constexpr size_t kCheckpoints = 8, kRecent = 2;
constexpr int64_t kCreated = 30'000'000'000;  // nanoseconds before the first step, on the machine's clock

uint64_t IdOf(uint64_t id, const std::string& name) {
  for (const char c : name) id = Mix(id * 131 + static_cast<unsigned char>(c));
  return id | 1;
}

}  // namespace

SyntheticJob::SyntheticJob(int ranks, int stages, int64_t step_ns)
    : ranks_(ranks), stages_(stages), step_ns_(step_ns), programs_(jobmodel::LargeJobPrograms(stages, kMicrobatches)) {
  layout_.tp = kRanksPerHost, layout_.pp = stages, layout_.dp = ranks / kRanksPerHost / stages;
}

void SyntheticJob::Restart(uint32_t restart_count, int64_t t0, int fault_rank, int64_t fault_step) {
  restart_count_ = restart_count;
  t0_ = t0;
  fault_rank_ = fault_rank;
  fault_step_ = fault_step;
  if (fault_step < 0) return;
  const jobmodel::StageProgram& own = ProgramOf(Stage(fault_rank));
  size_t stop = own.calls.size() * 6 / 10;
  while (own.lanes[stop] != jobmodel::kTpLane) stop--;
  stalled_ = jobmodel::PlayStall(programs_, Stage(fault_rank), static_cast<int64_t>(stop));
}

int64_t SyntheticJob::fault_ns() const {
  return fault_step_ < 0 ? std::numeric_limits<int64_t>::max() - kSettleNs : t0_ + fault_step_ * step_ns_;
}

std::string SyntheticJob::HostOf(int host) const { return absl::StrFormat("node%05d", host); }

int64_t SyntheticJob::TimeOf(int stage, int64_t position) const {
  const int64_t length = ProgramOf(stage).length();
  const int64_t step = position / length;
  // After the fault, all work that can still complete does so within kSettleNs.
  if (fault_step_ >= 0 && step >= fault_step_) return fault_ns() + position % length * kSettleNs / length;
  return t0_ + step * step_ns_ + position % length * step_ns_ / length;
}

void SyntheticJob::Fill(int rank, ring::Snapshot* snapshot) const {
  *snapshot = ring::Snapshot();
  const int host = rank / kRanksPerHost, local = rank % kRanksPerHost;
  ring::ProcessInfo& process = snapshot->process;
  process.host = HostOf(host);
  process.boot_id = absl::StrFormat("%08x-0000-4000-8000-000000000000", host);
  process.job = "fleet";
  process.pid = 10000 + local;
  process.restart_count = restart_count_;
  process.rank = rank;
  process.world_size = ranks_;
  process.local_rank = process.gpu_index = local;
  process.gpu_uuid = absl::StrFormat("GPU-%08x-0000-0000-0000-000000000000", rank);
  process.gpu_pci = absl::StrFormat("0000:%02x:00.0", 16 + local);
  process.nccl_version = 22809;
  process.cuda_version = 13000;
  process.state = ring::RecorderState::kRecording;
  process.gpu_marks = ring::GpuMarks::kFull;
  process.host_waits = true;
  process.created_mono_ns = t0_ - kCreated;
  process.created_real_ns = 1'700'000'000'000'000'000 + process.created_mono_ns;
  for (int i = 0; i < kGroups; i++) {
    const jobmodel::Group group = jobmodel::GroupOf(layout_, kFamilies[i], rank);
    if (group.size == 0) continue;
    ring::CommSnapshot comm;
    comm.index = static_cast<uint32_t>(i);
    comm.name = group.family == Family::kEmb ? absl::StrCat("embd_", group.number) : group.Name();
    comm.id = IdOf(restart_count_, comm.name);
    comm.generation = 1;
    comm.state = ring::CommState::kReady;
    comm.origin = CallKind::kCommInitRankConfig;
    comm.member_rank = group.index;
    comm.size = group.size;
    comm.ordinal = static_cast<uint32_t>(i + 1);
    comm.device = local;
    comm.created_ns = process.created_mono_ns + int64_t{1'000'000'000} * (i + 1);
    comm.ready_ns = comm.created_ns + 200'000'000;
    snapshot->comms.push_back(comm);
  }
  for (int i = 0; i < 3; i++) {
    ring::StreamSnapshot stream;
    stream.index = static_cast<uint32_t>(i);
    stream.handle = 0x55550000u + static_cast<uint64_t>(i) * 64;
    stream.device = local;
    stream.marked = true;
    snapshot->streams.push_back(stream);
  }
  ring::ThreadSnapshot thread;
  thread.tid = process.pid;
  thread.name = "python3";
  snapshot->threads.push_back(thread);
}

ring::OpSnapshot SyntheticJob::OpAt(int rank, int64_t position, int64_t gpu) const {
  const int stage = Stage(rank);
  const StageProgram& program = ProgramOf(stage);
  const auto at = static_cast<size_t>(position % program.length());
  const Call& call = program.calls[at];
  const Lane call_lane = program.lanes[at];
  constexpr uint32_t kGroupOf[] = {0, 1, 4, 3, 2, 2, 2, 2};  // group of each lane
  ring::OpSnapshot op;
  op.comm = kGroupOf[call_lane];
  op.kind = call.kind;
  op.stage = ring::OpStage::kLaunched;
  op.datatype = call.datatype;
  op.reduction = call.reduction;
  op.count = static_cast<uint64_t>(call.count);
  op.seq = static_cast<uint64_t>(program.Count(position, call_lane)) + 1;
  op.root_or_peer = call.root_or_peer;
  op.thread = 0;
  op.index = static_cast<uint64_t>(position);
  op.stream = static_cast<uint32_t>(LaneStream(call_lane));
  op.ticket = 1;
  for (int lane = 0; lane < kLanes; lane++) {
    if (LaneStream(lane) == LaneStream(call_lane)) op.ticket += static_cast<uint64_t>(program.Count(position, lane));
  }
  // The CPU thread is ahead of its GPU.
  op.enter_ns = TimeOf(stage, std::max<int64_t>(0, position - kAhead));
  op.return_ns = op.enter_ns + 4'000;
  op.caller = 0x41d200 + op.index % 97 * 148;
  op.caller_object = 0x5eed1e55;
  if (position < gpu) {
    op.started_ns = TimeOf(stage, position);
    op.completed_ns = op.started_ns + 10'000;
  }
  return op;
}

int64_t SyntheticJob::GpuAt(int rank, int64_t now) const {
  const int64_t length = ProgramOf(Stage(rank)).length();
  if (Stalled(now)) {
    return fault_step_ * length + (Replica(rank) == Replica(fault_rank_)
                                       ? stalled_.here
                                       : stalled_.elsewhere)[static_cast<size_t>(Stage(rank))];
  }
  const int64_t begun = std::max<int64_t>(0, std::min(now, fault_ns()) - t0_);
  return begun / step_ns_ * length + begun % step_ns_ * length / step_ns_;
}

int64_t SyntheticJob::IssuedAt(int rank, int64_t now) const {
  if (now < t0_) return 0;
  return GpuAt(rank, now) + (Stalled(now) && rank == fault_rank_ ? 0 : kAhead);
}

SyntheticJob::Motion SyntheticJob::MotionOf(int rank, int64_t now) const {
  Motion motion;
  motion.stage = Stage(rank);
  motion.gpu = GpuAt(rank, now);
  motion.issued = IssuedAt(rank, now);
  motion.stalled = Stalled(now);
  motion.now = now;
  const StageProgram& program = ProgramOf(motion.stage);
  const int64_t length = program.length();
  for (int lane = 0; lane < kLanes; lane++) {
    motion.count[lane] = static_cast<uint64_t>(program.Count(motion.issued, lane));
    motion.stream_issued[LaneStream(lane)] += motion.count[lane];
    motion.stream_completed[LaneStream(lane)] += static_cast<uint64_t>(program.Count(motion.gpu, lane));
  }
  // Only the next operation in the program has begun; the first operations of other streams wait on the GPU.
  if (motion.gpu < motion.issued)
    motion.due_stream = LaneStream(program.lanes[static_cast<size_t>(motion.gpu % length)]);
  // Finds the last call of each lane, searching back from `issued`.
  std::fill(motion.last, motion.last + kLanes, int64_t{-1});
  int found = 0;
  for (int64_t at = motion.issued - 1; at >= 0 && at >= motion.issued - length && found < kLanes; at--) {
    const Lane lane = program.lanes[static_cast<size_t>(at % length)];
    if (motion.last[lane] >= 0) continue;
    motion.last[lane] = at;
    found++;
  }
  return motion;
}

void SyntheticJob::Move(int first, int count, int64_t now, ring::Snapshot* snapshots) const {
  // The ranks of a host make the same calls, except the rank that stops.
  const Motion common = MotionOf(fault_rank_ == first ? first + 1 : first, now);
  for (int i = 0; i < count; i++) Apply(first + i == fault_rank_ ? MotionOf(first + i, now) : common, &snapshots[i]);
}

void SyntheticJob::Apply(const Motion& motion, ring::Snapshot* snapshot) const {
  const int stage = motion.stage;
  const int64_t issued = motion.issued;
  for (ring::StreamSnapshot& stream : snapshot->streams) {
    stream.issued = motion.stream_issued[stream.index];
    stream.completed = motion.stream_completed[stream.index];
    stream.started = std::min(stream.issued, stream.completed);
  }
  if (motion.due_stream >= 0) {
    ring::StreamSnapshot& due = snapshot->streams[static_cast<size_t>(motion.due_stream)];
    due.started = due.completed + 1;
  }
  const auto issue_time = [&](int lane) {
    return motion.last[lane] < 0 ? 0 : TimeOf(stage, std::max<int64_t>(0, motion.last[lane] - kAhead));
  };
  constexpr int kLaneOf[] = {kTpLane, kDpLane, -1, kWorldLane, kEmbLane};
  for (ring::CommSnapshot& comm : snapshot->comms) {
    const int lane = kLaneOf[comm.index];
    if (lane < 0) {
      comm.peers.clear();
      const auto add = [&](int peer, int send, int recv) {
        const uint64_t sends = motion.count[send], recvs = motion.count[recv];
        if (sends + recvs == 0) return;
        ring::PeerProgress progress;
        progress.peer = peer;
        progress.sends = sends;
        progress.recvs = recvs;
        progress.last_send_ns = issue_time(send);
        progress.last_recv_ns = issue_time(recv);
        comm.peers.push_back(progress);
      };
      add(stage + 1, kSendNext, kRecvNext);
      add(stage - 1, kSendPrev, kRecvPrev);
      continue;
    }
    comm.issued_seq = comm.launched_seq = motion.count[lane];
    comm.issued_ns = comm.issued_seq == 0 ? 0 : issue_time(lane);
    comm.signature_hash = Mix(comm.id ^ comm.issued_seq);
    comm.checkpoints.clear();
    for (size_t i = kCheckpoints; i-- > 0;) {
      const uint64_t newest = comm.issued_seq / kCheckpointEvery;
      if (newest <= i) continue;
      const uint64_t seq = (newest - i) * kCheckpointEvery;
      comm.checkpoints.push_back({seq, Mix(comm.id ^ seq)});
    }
  }
  ring::ThreadSnapshot& thread = snapshot->threads[0];
  thread.calls = static_cast<uint64_t>(issued);
  thread.last_call_ns = issued == 0 ? 0 : TimeOf(stage, std::max<int64_t>(0, issued - 1 - kAhead)) + 4'000;
  thread.wait = CallKind::kNone;
  if (motion.stalled && issued > motion.gpu) {
    thread.wait = CallKind::kStreamSynchronize;
    thread.wait_stream = UINT32_MAX;
    thread.wait_since_ns = fault_ns() + kSettleNs;
  }
  snapshot->recent.clear();
  snapshot->ops.clear();
  snapshot->read_mono_ns = motion.now;
}

void SyntheticJob::AddRecent(int rank, ring::Snapshot* snapshot) const {
  const StageProgram& program = ProgramOf(Stage(rank));
  const int64_t length = program.length();
  const int64_t gpu = GpuAt(rank, snapshot->read_mono_ns), issued = IssuedAt(rank, snapshot->read_mono_ns);
  size_t taken[kLanes] = {};
  for (int64_t at = issued - 1; at >= 0 && at >= issued - length; at--) {
    if (++taken[program.lanes[static_cast<size_t>(at % length)]] > kRecent && at < gpu) continue;
    ring::OpSnapshot op = OpAt(rank, at, gpu);
    op.thread = UINT32_MAX;
    snapshot->recent.push_back(op);
  }
  std::reverse(snapshot->recent.begin(), snapshot->recent.end());
}

void SyntheticJob::AddOps(int rank, size_t most, ring::Snapshot* snapshot) const {
  const int64_t gpu = GpuAt(rank, snapshot->read_mono_ns), issued = IssuedAt(rank, snapshot->read_mono_ns);
  const int64_t oldest = std::max<int64_t>(0, issued - static_cast<int64_t>(most));
  snapshot->threads[0].overwritten = static_cast<uint64_t>(oldest);
  snapshot->ops.reserve(static_cast<size_t>(issued - oldest));
  for (int64_t at = oldest; at < issued; at++) snapshot->ops.push_back(OpAt(rank, at, gpu));
}

}  // namespace lockstep::fleet
