#include "tests/corpus/simulator.h"

#include <algorithm>

#include "tests/corpus/simulator_gpu.h"

namespace lockstep::corpus {

Simulator::Simulator(const Job& job, SimOptions options) : job_(job), options_(std::move(options)) {
  const auto n = static_cast<size_t>(job.ranks);
  ranks_.resize(n);
  gpus_.resize(n);
  comms_.resize(job.comms.size());
  for (RankRun& rank : ranks_) rank.ring.resize(options_.ring_depth);
  if (options_.cut_step < 0) ApplyCuts(0);
}

Simulator::~Simulator() = default;

void Simulator::ApplyCuts(int64_t from) {
  for (const Cut& cut : options_.cuts) {
    for (int32_t comm : cut.comms) {
      CommRun& run = comms_[static_cast<size_t>(comm)];
      run.broken_at = std::min(run.broken_at, from + cut.at);
    }
  }
  for (SimOptions::PairCut& cut : options_.pair_cuts) cut.at += from;
  if (!options_.cuts.empty() || !options_.pair_cuts.empty()) struck_[0] = true;
}

void Simulator::BeginStep(int32_t r, int32_t step) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  rank.step = static_cast<uint32_t>(step);
  if (r != 0) return;
  if (step == options_.live_step && options_.horizon == kNever) options_.horizon = rank.now + options_.live_after;
  if (step == options_.cut_step) ApplyCuts(rank.now);
}

bool Simulator::PairIsCut(int32_t a, int32_t b, int64_t at) const {
  for (const SimOptions::PairCut& cut : options_.pair_cuts) {
    if (cut.at >= at || (options_.cut_step >= 0 && !struck_[0])) continue;
    if (cut.peer >= 0) {
      if ((cut.rank == a && cut.peer == b) || (cut.rank == b && cut.peer == a)) return true;
    } else if ((cut.rank == a || cut.rank == b) && job_.HostOf(a) != job_.HostOf(b)) {
      return true;
    }
  }
  return false;
}

bool Simulator::finished() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const RankRun& r) { return r.status == HostStatus::kFinished; });
}

int64_t Simulator::Jitter(int32_t r, int64_t low, int64_t high) {
  return gpus_[static_cast<size_t>(r)].random.Between(low, high);
}

void Simulator::Run() {
  for (int32_t r = 0; r < job_.ranks; ++r) {
    gpus_[static_cast<size_t>(r)].random = Random(Mix(job_.seed, 1000 + static_cast<uint64_t>(r)));
    queue_.push({Jitter(r, 0, 800 * kMilli), kHostEvent, static_cast<uint32_t>(r), 0, 0});
  }
  while (!queue_.empty()) {
    const Event event = queue_.top();
    queue_.pop();
    if (event.at > options_.horizon) break;
    stop_time_ = std::max(stop_time_, event.at);
    clock_ = event.at;
    switch (event.type) {
      case kHostEvent: {
        RankRun& rank = ranks_[event.a];
        rank.now = std::max(rank.now, event.at);
        rank.status = HostStatus::kRunning;
        Host(static_cast<int32_t>(event.a));
        break;
      }
      case kErrorEvent: LeaveOnError(static_cast<int32_t>(event.a)); break;
      case kCollectiveEvent: FinishCollective(event); break;
      case kPartlyEvent: FinishPartly(event); break;
      case kPairEvent: FinishPair(event); break;
    }
  }
}

// Runs the CPU thread until it has to wait.
void Simulator::Host(int32_t r) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  const Program& program = *job_.programs[static_cast<size_t>(r)];
  while (true) {
    if (rank.now > options_.horizon) {
      rank.status = HostStatus::kHorizon;
      break;
    }
    if (rank.pc >= program.size()) {
      rank.status = HostStatus::kFinished;
      rank.status_since = rank.now;
      break;
    }
    const Instr& in = program[rank.pc];
    if (rank.gpu_error != 0 && rank.now >= rank.gpu_dead_at && rank.group_depth == 0 && in.act == Act::kCall) {
      LeaveOnError(r);
      break;
    }
    if (in.fault != 0) {
      const size_t fault = in.fault - 1u;
      if ((options_.without >> fault & 1) != 0) {
        ++rank.pc;
        continue;
      }
      if (!struck_[fault]) struck_at_[fault] = rank.pc;
      struck_[fault] = true;
    }
    if (!Step(r, in)) break;
    ++rank.pc;
  }
  stop_time_ = std::max(stop_time_, std::min(rank.now, options_.horizon));
}

// Returns false if the CPU thread pauses or stops here. If a wait or a creation pauses the thread, the program counter
// is already past the instruction. A paused abort runs again.
bool Simulator::Step(int32_t r, const Instr& in) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  auto stop = [&](HostStatus status) {
    rank.status = status;
    rank.status_since = rank.now;
    return false;
  };
  switch (in.act) {
    case Act::kCall:
    case Act::kAllToAllV: Issue(r, in); return true;
    case Act::kGroupBegin:
      if (rank.group_depth++ > 0) return true;
      rank.group = ++rank.groups;
      rank.group_since = rank.now;
      gpus_[static_cast<size_t>(r)].group_record = 0;
      return true;
    case Act::kGroupEnd:
      if (rank.group_depth > 0 && --rank.group_depth == 0) EndGroup(r);
      return true;
    case Act::kCompute: {
      rank.now += Jitter(r, 15 * kMicro, 40 * kMicro);
      if (gpus_[static_cast<size_t>(r)].capturing) return true;
      const auto ns = static_cast<double>(in.ns) * job_.compute_factor[static_cast<size_t>(r)] *
                      (1 + options_.compute_jitter * (2 * gpus_[static_cast<size_t>(r)].random.Unit() - 1));
      int64_t extra = 0;
      if (options_.noise_chance > 0 && gpus_[static_cast<size_t>(r)].random.Chance(options_.noise_chance))
        extra = Jitter(r, options_.noise_ns / 2, options_.noise_ns * 3 / 2);
      Compute(r, static_cast<int64_t>(ns) + extra);
      return true;
    }
    case Act::kJoin: Join(r, in); return true;
    case Act::kHostWait: return WaitForGpu(r, in);
    case Act::kHostWork: rank.now += in.ns + Jitter(r, 0, in.ns / 8); return true;
    case Act::kInit:
    case Act::kSplit: Rendezvous(r, in); return false;
    case Act::kAbort:
      // The GPU's work up to that time must be simulated first.
      if (clock_ < rank.now) {
        Resume(r, rank.now);
        return false;
      }
      Abort(r, in.slot);
      return true;
    case Act::kFinalize: {
      Progress& progress = rank.progress[in.slot];
      progress.finalizing = true;
      Record* record = AddRecord(r, rank.pc, 0, 30 * kMicro);
      progress.ended = record->enter;
      return true;
    }
    case Act::kStep: BeginStep(r, static_cast<int32_t>(in.count)); return true;
    case Act::kGraphBegin: gpus_[static_cast<size_t>(r)].capturing = true; return true;
    case Act::kGraphEnd:
      gpus_[static_cast<size_t>(r)].capturing = false;
      rank.captured_at = rank.now;
      return true;
    case Act::kGraphLaunch: LaunchGraph(r, in); return true;
    case Act::kStall: return stop(HostStatus::kStalled);
    case Act::kLeave: return stop(HostStatus::kLeft);
    case Act::kDie:
      rank.signal = static_cast<int32_t>(in.count);
      rank.gpu_dead_at = std::min(rank.gpu_dead_at, rank.now);
      BreakComms(r, rank.now, false);
      return stop(HostStatus::kDead);
    case Act::kExit:
      rank.exit_code = static_cast<int32_t>(in.count);
      rank.gpu_dead_at = std::min(rank.gpu_dead_at, rank.now);
      BreakComms(r, rank.now, false);
      return stop(HostStatus::kExited);
    case Act::kFreeze:
      // The process's kernels continue, but NCCL's network threads stop with the process.
      BreakComms(r, rank.now, true);
      return stop(HostStatus::kFrozen);
    case Act::kGpuHang: Compute(r, kNever); return true;
    case Act::kGpuError:
      rank.gpu_error = static_cast<int32_t>(in.count);
      rank.gpu_dead_at = rank.now + in.ns;
      BreakComms(r, rank.gpu_dead_at, false);
      queue_.push({rank.gpu_dead_at + 2 * kMilli, kErrorEvent, static_cast<uint32_t>(r), 0, 0});
      return true;
  }
  return true;
}

// The next call of the CUDA runtime returns the error, and the exception takes the CPU thread out of its loop.
void Simulator::LeaveOnError(int32_t r) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  if (rank.status != HostStatus::kInWait && rank.status != HostStatus::kRunning) return;
  const int64_t at = std::max(rank.now, rank.gpu_dead_at) + Jitter(r, kMilli, 5 * kMilli);
  if (rank.status == HostStatus::kInWait) rank.waits[(rank.wait_count - 1) % 4].until = at;
  gpus_[static_cast<size_t>(r)].host_waits = CallKind::kNone;
  rank.status = HostStatus::kLeft;
  rank.now = rank.status_since = at;
  for (Slot slot : {kTp, kShard, kWorld}) {
    Progress& progress = rank.progress[slot];
    if (progress.issued == 0) continue;
    progress.async_error = 1;  // ncclUnhandledCudaError, seen by the framework's watchdog
    progress.async_error_at = at;
    break;
  }
}

void Simulator::BreakComms(int32_t r, int64_t at, bool network_only) {
  for (int32_t comm : job_.comm_of[static_cast<size_t>(r)]) {
    if (comm < 0 || (network_only && !job_.comms[static_cast<size_t>(comm)].inter_host)) continue;
    CommRun& run = comms_[static_cast<size_t>(comm)];
    run.broken_at = std::min(run.broken_at, at);
  }
}

void Simulator::Resume(int32_t r, int64_t at) { queue_.push({at, kHostEvent, static_cast<uint32_t>(r), 0, 0}); }

void Simulator::Rendezvous(int32_t r, const Instr& in) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  const int32_t own = job_.comm_of[static_cast<size_t>(r)][in.slot];
  const bool split = in.act == Act::kSplit;
  const int32_t at = split ? job_.comm_of[static_cast<size_t>(r)][in.root_or_peer] : own;
  Record* record = AddRecord(r, rank.pc, 0, 0);
  record->ret = kNever;
  Progress& progress = rank.progress[in.slot];
  if (own >= 0) {
    progress.made_by = in.kind;
    progress.created = record->enter;
  }
  rank.status = HostStatus::kInCall;
  rank.status_since = record->enter;
  gpus_[static_cast<size_t>(r)].init_record = rank.records;
  ++rank.pc;
  Meeting& meeting = meetings_[{at, split ? 1u + in.slot : static_cast<uint32_t>(in.count) * 100}];
  meeting.hosts.push_back(r);
  meeting.last = std::max(meeting.last, rank.now);
  const size_t needed = job_.comms[static_cast<size_t>(at)].members.size();
  if (meeting.hosts.size() < needed) return;
  const int64_t size = static_cast<int64_t>(needed);
  const int64_t end = meeting.last + (split ? 4 * kMilli + size * 2 * kMicro : 60 * kMilli + size * 20 * kMicro);
  for (int32_t host : meeting.hosts) {
    RankRun& other = ranks_[static_cast<size_t>(host)];
    const int64_t ret = end + Jitter(host, 0, 500 * kMicro);
    const uint64_t number = gpus_[static_cast<size_t>(host)].init_record;
    other.ring[(number - 1) % other.ring.size()].ret = ret;
    if (job_.comm_of[static_cast<size_t>(host)][in.slot] >= 0) other.progress[in.slot].ready = ret;
    other.last_call[0] = ret;
    Resume(host, ret);
  }
  meeting.hosts.clear();
  meeting.hosts.shrink_to_fit();
}

bool Simulator::WaitForGpu(int32_t r, const Instr& in) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  rank.now += Jitter(r, 2 * kMicro, 6 * kMicro);
  rank.waits[rank.wait_count++ % 4] = {rank.now, kNever, in.kind, in.thread};
  rank.status = HostStatus::kInWait;
  rank.status_since = rank.now;
  gpus_[static_cast<size_t>(r)].host_waits = in.kind;
  ++rank.pc;
  CheckWait(r);
  if (rank.gpu_error != 0 && rank.status == HostStatus::kInWait)
    queue_.push({std::max(rank.now, rank.gpu_dead_at) + kMilli, kErrorEvent, static_cast<uint32_t>(r), 0, 0});
  return false;
}

Record* Simulator::AddRecord(int32_t r, uint32_t instr, uint32_t seq, int64_t ret) {
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  const Instr& in = (*job_.programs[static_cast<size_t>(r)])[instr];
  Record& record = rank.ring[rank.records % rank.ring.size()];
  if (rank.records >= rank.ring.size()) Evict(r, record);
  ++rank.records;
  record = Record();
  record.enter = rank.now;
  record.ret = rank.now + ret;
  record.instr = instr;
  record.seq = seq;
  record.group = rank.group;
  rank.now += ret;
  rank.calls[in.thread] += 1;
  if (in.act == Act::kAllToAllV)
    rank.calls[in.thread] += 2 * static_cast<uint32_t>(job_.CommOf(r, in.slot)->members.size());
  rank.last_call[in.thread] = rank.now;
  return &record;
}

// A record that leaves the ring stays a while longer among its communicator's recent operations.
void Simulator::Evict(int32_t r, const Record& record) {
  const Instr& in = (*job_.programs[static_cast<size_t>(r)])[record.instr];
  if (in.act != Act::kCall || record.captured || record.replay != 0) return;
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  const bool p2p = ring::IsPointToPoint(in.kind);
  std::vector<Record>& list = p2p ? rank.progress[in.slot].recent_p2p : rank.progress[in.slot].recent;
  if (list.size() >= (p2p ? 8u : 16u)) list.erase(list.begin());
  list.push_back(record);
}

Record* Simulator::Find(int32_t r, uint64_t number, Slot slot, uint32_t instr, uint32_t seq) {
  if (number == 0) return nullptr;
  RankRun& rank = ranks_[static_cast<size_t>(r)];
  if (number + rank.ring.size() > rank.records) return &rank.ring[(number - 1) % rank.ring.size()];
  for (std::vector<Record>* list : {&rank.progress[slot].recent, &rank.progress[slot].recent_p2p}) {
    for (Record& record : *list) {
      if (record.instr == instr && record.seq == seq) return &record;
    }
  }
  return nullptr;
}

int64_t Simulator::Duration(const Comm& comm, const Instr& in, int64_t at) {
  const auto n = static_cast<double>(comm.members.size());
  double bytes = static_cast<double>(in.count) * static_cast<double>(DatatypeBytes(in.datatype));
  switch (in.kind) {
    case CallKind::kAllReduce: bytes *= 2 * (n - 1) / n; break;
    case CallKind::kAllGather:
    case CallKind::kReduceScatter:
    case CallKind::kAlltoAll: bytes *= n - 1; break;
    default: break;
  }
  const double bytes_per_ns = comm.inter_host ? 45.0 : 320.0;
  double hops = 1;
  for (double k = n; k > 1; k /= 2) hops += 1;
  double ns = (comm.inter_host ? 9e3 : 4e3) * hops + bytes / bytes_per_ns;
  for (const SimOptions::Slow& slow : options_.slow) {
    if (at < slow.at) continue;
    const auto index = static_cast<int32_t>(&comm - job_.comms.data());
    if (std::find(slow.comms.begin(), slow.comms.end(), index) != slow.comms.end()) ns *= slow.factor;
  }
  const uint64_t h = Mix(comm.id, static_cast<uint64_t>(at));
  return static_cast<int64_t>(ns * (0.96 + 0.08 * static_cast<double>(h >> 11) * 0x1.0p-53));
}

}  // namespace lockstep::corpus
