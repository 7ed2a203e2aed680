#include "tests/bench/fleet/synthetic_job.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::fleet {
namespace {

using ring::CallKind;

constexpr int kLayers = 3, kMicrobatches = 8, kBuckets = 4;
constexpr int64_t kAhead = 6;  // calls a host issues beyond what its GPU is in
constexpr int kGroups = 5;     // tp, dp, pp, world, embedding
constexpr uint64_t kCheckpointEvery = 64;
constexpr size_t kCheckpoints = 8, kRecent = 2;
constexpr int64_t kCreated = 30'000'000'000;  // before the first step, on the clock of the machine

uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

SyntheticJob::SyntheticJob(int ranks, int stages, int64_t step_ns)
    : ranks_(ranks), stages_(stages), replicas_(ranks / kRanksPerHost / stages), step_ns_(step_ns) {
  for (int stage = 0; stage < stages; stage++) programs_.push_back(StepOf(stage, stages));
}

SyntheticJob::Program SyntheticJob::StepOf(int stage, int stages) {
  Program program;
  std::vector<Call>& calls = program.calls;
  const auto layers = [&] {
    for (int i = 0; i < 2 * kLayers; i++) {
      calls.push_back({kTp, CallKind::kAllGather, 4'194'304, ring::kNoReduction});
      calls.push_back({kTp, CallKind::kReduceScatter, 4'194'304, 0});
    }
  };
  const auto forward = [&] {
    if (stage > 0) calls.push_back({kRecvPrev, CallKind::kRecv, 8'388'608, ring::kNoReduction});
    layers();
    if (stage + 1 < stages) calls.push_back({kSendNext, CallKind::kSend, 8'388'608, ring::kNoReduction});
  };
  const auto backward = [&] {
    if (stage + 1 < stages) calls.push_back({kRecvNext, CallKind::kRecv, 8'388'608, ring::kNoReduction});
    layers();
    if (stage > 0) calls.push_back({kSendPrev, CallKind::kSend, 8'388'608, ring::kNoReduction});
  };
  const int warm = std::min(stages - stage - 1, kMicrobatches);
  for (int i = 0; i < warm; i++) forward();
  for (int i = warm; i < kMicrobatches; i++) {
    forward();
    backward();
  }
  for (int i = 0; i < warm; i++) backward();
  for (int i = 0; i < kBuckets; i++) calls.push_back({kDp, CallKind::kReduceScatter, 41'943'040, 0});
  if (stages > 1 && (stage == 0 || stage + 1 == stages))
    calls.push_back({kEmbedding, CallKind::kAllReduce, 67'108'864, 0});
  calls.push_back({kWorld, CallKind::kAllReduce, 1, 0});
  for (int i = 0; i < kBuckets; i++) calls.push_back({kDp, CallKind::kAllGather, 41'943'040, ring::kNoReduction});
  std::vector<uint64_t> counts(kLanes);
  program.before.push_back(counts);
  for (const Call& call : calls) {
    counts[call.lane]++;
    program.before.push_back(counts);
  }
  return program;
}

void SyntheticJob::Restart(uint32_t restart_count, int64_t t0, int fault_rank, int64_t fault_step) {
  restart_count_ = restart_count;
  t0_ = t0;
  fault_rank_ = fault_rank;
  fault_step_ = fault_step;
  if (fault_step >= 0) Play();
}

int64_t SyntheticJob::fault_ns() const {
  return fault_step_ < 0 ? std::numeric_limits<int64_t>::max() - kSettleNs : t0_ + fault_step_ * step_ns_;
}

// Where each stage's GPUs stand in the last step: in the replica of the rank that stops, and in the others.
void SyntheticJob::Play() {
  here_.assign(static_cast<size_t>(stages_), 0);
  elsewhere_.assign(static_cast<size_t>(stages_), 0);
  for (int stage = 0; stage < stages_; stage++) {
    const std::vector<Call>& calls = programs_[static_cast<size_t>(stage)].calls;
    while (calls[static_cast<size_t>(elsewhere_[static_cast<size_t>(stage)])].lane != kDp)
      elsewhere_[static_cast<size_t>(stage)]++;
  }
  const int culprit = Stage(fault_rank_);
  const std::vector<Call>& own = programs_[static_cast<size_t>(culprit)].calls;
  size_t stop = own.size() * 6 / 10;
  while (own[stop].lane != kTp) stop--;
  const auto done = [&](int stage, int lane) {
    return programs_[static_cast<size_t>(stage)]
        .before[static_cast<size_t>(here_[static_cast<size_t>(stage)])][static_cast<size_t>(lane)];
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < stages_; stage++) {
      for (;;) {
        int64_t& at = here_[static_cast<size_t>(stage)];
        const Lane lane = programs_[static_cast<size_t>(stage)].calls[static_cast<size_t>(at)].lane;
        if (lane == kDp || (stage == culprit && at == static_cast<int64_t>(stop))) break;
        if (lane == kRecvPrev && done(stage - 1, kSendNext) <= done(stage, kRecvPrev)) break;
        if (lane == kRecvNext && done(stage + 1, kSendPrev) <= done(stage, kRecvNext)) break;
        at++;
        moved = true;
      }
    }
  }
}

std::string SyntheticJob::HostOf(int host) const {
  return absl::StrFormat("node%05d", host);
}

uint64_t SyntheticJob::Count(int stage, int64_t position, int lane) const {
  const Program& program = programs_[static_cast<size_t>(stage)];
  const auto length = static_cast<int64_t>(program.calls.size());
  return static_cast<uint64_t>(position / length) * program.before.back()[static_cast<size_t>(lane)] +
         program.before[static_cast<size_t>(position % length)][static_cast<size_t>(lane)];
}

int64_t SyntheticJob::TimeOf(int stage, int64_t position) const {
  const auto length = static_cast<int64_t>(programs_[static_cast<size_t>(stage)].calls.size());
  const int64_t step = position / length;
  // After the fault the rest of what can go on is done within the settling time.
  if (fault_step_ >= 0 && step >= fault_step_) return fault_ns() + position % length * kSettleNs / length;
  return t0_ + step * step_ns_ + position % length * step_ns_ / length;
}

SyntheticJob::Group SyntheticJob::GroupOf(int rank, int which) const {
  const int tensor = rank % kRanksPerHost, stage = Stage(rank), replica = Replica(rank);
  Group group;
  switch (which) {
    case 0:
      group = {0, absl::StrCat("tp_", rank / kRanksPerHost), tensor, kRanksPerHost};
      break;
    case 1:
      group = {0, absl::StrCat("dp_", stage * kRanksPerHost + tensor), replica, replicas_};
      break;
    case 2:
      group = {0, absl::StrCat("pp_", replica * kRanksPerHost + tensor), stage, stages_};
      break;
    case 3:
      group = {0, "world", rank, ranks_};
      break;
    default:
      group = {0, absl::StrCat("embd_", replica * kRanksPerHost + tensor), stage == 0 ? 0 : 1, 2};
  }
  uint64_t id = restart_count_;
  for (const char c : group.name) id = Mix(id * 131 + static_cast<unsigned char>(c));
  group.id = id | 1;
  return group;
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
  const bool ends = stages_ > 1 && (Stage(rank) == 0 || Stage(rank) + 1 == stages_);
  for (int i = 0; i < kGroups; i++) {
    if (i == 4 && !ends) continue;
    const Group group = GroupOf(rank, i);
    ring::CommSnapshot comm;
    comm.index = static_cast<uint32_t>(i);
    comm.id = group.id;
    comm.generation = 1;
    comm.state = ring::CommState::kReady;
    comm.origin = CallKind::kCommInitRankConfig;
    comm.name = group.name;
    comm.member_rank = group.member;
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
  const Program& program = programs_[static_cast<size_t>(stage)];
  const Call& call = program.calls[static_cast<size_t>(position % static_cast<int64_t>(program.calls.size()))];
  constexpr uint32_t kGroupOf[] = {0, 1, 4, 3, 2, 2, 2, 2};  // by lane
  ring::OpSnapshot op;
  op.comm = kGroupOf[call.lane];
  op.kind = call.kind;
  op.stage = ring::OpStage::kLaunched;
  op.datatype = 9;
  op.reduction = call.reduction;
  op.count = call.count;
  op.seq = Count(stage, position, call.lane) + 1;
  if (call.lane == kSendNext || call.lane == kRecvNext) op.root_or_peer = stage + 1;
  if (call.lane == kSendPrev || call.lane == kRecvPrev) op.root_or_peer = stage - 1;
  op.thread = 0;
  op.index = static_cast<uint64_t>(position);
  op.stream = static_cast<uint32_t>(StreamOf(call.lane));
  op.ticket = 1;
  for (int lane = 0; lane < kLanes; lane++) {
    if (StreamOf(lane) == StreamOf(call.lane)) op.ticket += Count(stage, position, lane);
  }
  // The host runs ahead of its GPU.
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
  const auto length = static_cast<int64_t>(programs_[static_cast<size_t>(Stage(rank))].calls.size());
  if (Stalled(now)) {
    return fault_step_ * length +
           (Replica(rank) == Replica(fault_rank_) ? here_ : elsewhere_)[static_cast<size_t>(Stage(rank))];
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
  const Program& program = programs_[static_cast<size_t>(motion.stage)];
  const auto length = static_cast<int64_t>(program.calls.size());
  for (int lane = 0; lane < kLanes; lane++) {
    motion.count[lane] = Count(motion.stage, motion.issued, lane);
    motion.stream_issued[StreamOf(lane)] += motion.count[lane];
    motion.stream_completed[StreamOf(lane)] += Count(motion.stage, motion.gpu, lane);
  }
  // Every stream's first operation that is not completed waits on its GPU, but only the one that is due has begun.
  if (motion.gpu < motion.issued)
    motion.due_stream = StreamOf(program.calls[static_cast<size_t>(motion.gpu % length)].lane);
  // When the last call of each lane was issued, looking back from `issued`.
  std::fill(motion.last, motion.last + kLanes, int64_t{-1});
  int found = 0;
  for (int64_t at = motion.issued - 1; at >= 0 && at >= motion.issued - length && found < kLanes; at--) {
    const Lane lane = program.calls[static_cast<size_t>(at % length)].lane;
    if (motion.last[lane] >= 0) continue;
    motion.last[lane] = at;
    found++;
  }
  return motion;
}

void SyntheticJob::Move(int first, int count, int64_t now, ring::Snapshot* snapshots) const {
  // The ranks of a host go the same way, but for the one that stops.
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
  constexpr int kLaneOf[] = {kTp, kDp, -1, kWorld, kEmbedding};
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
  const Program& program = programs_[static_cast<size_t>(Stage(rank))];
  const auto length = static_cast<int64_t>(program.calls.size());
  const int64_t gpu = GpuAt(rank, snapshot->read_mono_ns), issued = IssuedAt(rank, snapshot->read_mono_ns);
  size_t taken[kLanes] = {};
  for (int64_t at = issued - 1; at >= 0 && at >= issued - length; at--) {
    if (++taken[program.calls[static_cast<size_t>(at % length)].lane] > kRecent && at < gpu) continue;
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
