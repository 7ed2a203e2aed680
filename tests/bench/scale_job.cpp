#include "scale_job.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep {
namespace {

using ring::CallKind;

constexpr int kLayers = 3, kMicrobatches = 16, kBuckets = 4;
constexpr int64_t kSteps = 1000;  // completed before the last one
constexpr int kAhead = 6;         // calls a host issues beyond what its GPU is in
constexpr int64_t kNow = 86'400'000'000'000, kCallNs = 41'000, kStallNs = 600'000'000'000;

enum Lane { kTpLane, kDpLane, kEmbLane, kWorldLane, kSendNext, kSendPrev, kRecvNext, kRecvPrev, kLanes };

struct Call {
  Lane lane;
  CallKind kind;
  int64_t count;
  uint8_t reduction;
};

constexpr int kTp = ScaleOptions::kTp;

// One step of a pipeline stage.
std::vector<Call> Step(int stage, int stages) {
  std::vector<Call> calls;
  auto layers = [&] {
    for (int i = 0; i < 2 * kLayers; ++i) {
      calls.push_back({kTpLane, CallKind::kAllGather, 4'194'304, ring::kNoReduction});
      calls.push_back({kTpLane, CallKind::kReduceScatter, 4'194'304, 0});
    }
  };
  auto forward = [&] {
    if (stage > 0) calls.push_back({kRecvPrev, CallKind::kRecv, 8'388'608, ring::kNoReduction});
    layers();
    if (stage + 1 < stages) calls.push_back({kSendNext, CallKind::kSend, 8'388'608, ring::kNoReduction});
  };
  auto backward = [&] {
    if (stage + 1 < stages) calls.push_back({kRecvNext, CallKind::kRecv, 8'388'608, ring::kNoReduction});
    layers();
    if (stage > 0) calls.push_back({kSendPrev, CallKind::kSend, 8'388'608, ring::kNoReduction});
  };
  const int warm = std::min(stages - stage - 1, kMicrobatches);
  for (int i = 0; i < warm; ++i) forward();
  for (int i = warm; i < kMicrobatches; ++i) forward(), backward();
  for (int i = 0; i < warm; ++i) backward();
  for (int i = 0; i < kBuckets; ++i) calls.push_back({kDpLane, CallKind::kReduceScatter, 41'943'040, 0});
  if (stages > 1 && (stage == 0 || stage + 1 == stages))
    calls.push_back({kEmbLane, CallKind::kAllReduce, 67'108'864, 0});
  calls.push_back({kWorldLane, CallKind::kAllReduce, 1, 0});
  for (int i = 0; i < kBuckets; ++i) calls.push_back({kDpLane, CallKind::kAllGather, 41'943'040, ring::kNoReduction});
  return calls;
}

uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

struct ScaleJob::Impl {
  explicit Impl(const ScaleOptions& options) : options_(options), dp_(options.ranks / kTp / options.pp) {
    for (int p = 0; p < options.pp; ++p) {
      programs_.push_back(Step(p, options.pp));
      std::vector<int64_t> counts(kLanes);
      std::vector<int64_t> nth;
      for (const Call& c : programs_.back()) nth.push_back(++counts[c.lane]);
      nth_.push_back(std::move(nth));
      per_step_.push_back(std::move(counts));
    }
    Play();
  }

  bool Stalls() const { return options_.fault == ScaleOptions::kStall || options_.fault == ScaleOptions::kBoth; }
  bool Differs() const { return options_.fault == ScaleOptions::kMismatch || options_.fault == ScaleOptions::kBoth; }
  // Megatron's order: tensor, then data, then pipeline parallel.
  int Replica(int rank) const { return rank / kTp % dp_; }
  int Stage(int rank) const { return rank / kTp / dp_; }
  int CulpritStage() const { return options_.pp / 2; }
  int Culprit() const { return (CulpritStage() * dp_ + dp_ / 3) * kTp + 5; }
  int Odd() const { return (options_.pp / 4 * dp_ + dp_ / 2) * kTp + 2; }

  // Where each stage's GPU stands in the last step, in the replica of the culprit and in the others.
  void Play() {
    const int stages = options_.pp;
    here_.assign(static_cast<size_t>(stages), 0);
    elsewhere_.assign(static_cast<size_t>(stages), 0);
    for (int p = 0; p < stages; ++p) {
      const auto& program = programs_[p];
      const auto end = static_cast<int>(program.size());
      elsewhere_[p] = !Stalls() ? end
                                : static_cast<int>(std::find_if(program.begin(), program.end(),
                                                                [](const Call& c) { return c.lane == kDpLane; }) -
                                                   program.begin());
    }
    if (!Stalls()) {
      here_ = elsewhere_;
      return;
    }
    const auto& own = programs_[CulpritStage()];
    stop_ = static_cast<int>(own.size()) * 6 / 10;
    while (own[stop_].lane != kTpLane) ++stop_;
    std::vector<std::vector<int64_t>> done(static_cast<size_t>(stages), std::vector<int64_t>(kLanes));
    for (bool moved = true; moved;) {
      moved = false;
      for (int p = 0; p < stages; ++p) {
        for (;;) {
          int& at = here_[p];
          const Call& c = programs_[p][at];
          if (c.lane == kDpLane || (p == CulpritStage() && at == stop_)) break;
          if (c.lane == kRecvPrev && done[p - 1][kSendNext] <= done[p][kRecvPrev]) break;
          if (c.lane == kRecvNext && done[p + 1][kSendPrev] <= done[p][kRecvNext]) break;
          ++done[p][c.lane];
          ++at;
          moved = true;
        }
      }
    }
  }

  static bool Collective(Lane lane) { return lane <= kWorldLane; }

  void AddComm(Bundle* bundle, std::string name, int first, int stride, int size) const {
    Communicator comm;
    comm.id = absl::StrFormat("%016x", Mix(std::hash<std::string>()(name)) | 1);
    comm.name = std::move(name);
    comm.size = size;
    comm.origin = CallKind::kCommInitRankConfig;
    for (int i = 0; i < size; ++i) comm.members.push_back(first + i * stride);
    bundle->comms.push_back(std::move(comm));
  }

  Bundle Node(int node, int records) const {
    Bundle bundle;
    bundle.job = "scale";
    bundle.ranks_expected = options_.ranks;
    const int first = node * kTp, replica = Replica(first), stage = Stage(first);
    AddComm(&bundle, "world", 0, 1, options_.ranks);
    AddComm(&bundle, absl::StrCat("tp_", node), first, 1, kTp);
    for (int t = 0; t < kTp; ++t) {
      AddComm(&bundle, absl::StrCat("pp_", replica * kTp + t), replica * kTp + t, kTp * dp_, options_.pp);
      AddComm(&bundle, absl::StrCat("dp_", stage * kTp + t), stage * dp_ * kTp + t, kTp, dp_);
      AddComm(&bundle, absl::StrCat("embd_", replica * kTp + t), replica * kTp + t, kTp * dp_ * (options_.pp - 1), 2);
    }
    for (int t = 0; t < kTp; ++t) bundle.ranks.push_back(MakeRank(first + t, records));
    return bundle;
  }

  Rank MakeRank(int number, int records) const {
    const int stage = Stage(number), t = number % kTp;
    const auto& program = programs_[stage];
    const auto length = static_cast<int64_t>(program.size());
    const bool culprit = Stalls() && number == Culprit();
    const int64_t gpu = kSteps * length + (Replica(number) == Replica(Culprit()) ? here_ : elsewhere_)[stage];
    int64_t issued = std::min(gpu + kAhead, (kSteps + 1) * length);
    if (!Stalls()) issued = gpu;
    if (culprit) issued = gpu;
    const int64_t oldest = std::max<int64_t>(0, issued - options_.records);
    const int64_t first = std::max(oldest, issued - records);  // of those that are given
    const uint64_t skew = Mix(static_cast<uint64_t>(number / kTp)) % 4'000'000'000;
    const auto now = kNow + static_cast<int64_t>(skew);

    Rank rank;
    rank.rank = number;
    rank.world_size = options_.ranks;
    rank.local_rank = t;
    rank.host = absl::StrFormat("node%05d", number / kTp);
    rank.boot_id = absl::StrFormat("%08x-0000-4000-8000-000000000000", number / kTp);
    rank.job = "scale";
    rank.pid = 10000 + t;
    rank.gpu_index = t;
    rank.gpu_uuid = absl::StrFormat("GPU-%08x-0000-0000-0000-000000000000", number);
    rank.gpu_pci = absl::StrFormat("0000:%02x:00.0", 16 + t);
    rank.nccl_version = 22809;
    rank.cuda_version = 13000;
    rank.recorder_state = ring::RecorderState::kRecording;
    rank.gpu_marks = options_.marks ? ring::GpuMarks::kFull : ring::GpuMarks::kOff;
    rank.host_waits = true;
    rank.captured_ns = now;
    rank.real_minus_mono_ns = -static_cast<int64_t>(skew);
    rank.start_recorded = options_.marks;
    rank.process.life = Life::kRunning;
    rank.process.state = "S";
    rank.records_lost = static_cast<uint64_t>(oldest);

    const bool has_embedding = options_.pp > 1 && (stage == 0 || stage + 1 == options_.pp);
    const uint32_t comm_of[] = {1, static_cast<uint32_t>(2 + 3 * t), static_cast<uint32_t>(3 + 3 * t),
                                static_cast<uint32_t>(4 + 3 * t), 0};
    const int place[] = {t, stage, Replica(number), stage == 0 ? 0 : 1, number};  // in TP, PP, DP, embedding, world
    for (int i = 0; i < 5; ++i) {
      Membership m;
      m.comm = comm_of[i];
      m.member_rank = place[i];
      m.state = ring::CommState::kReady;
      m.origin = CallKind::kCommInitRankConfig;
      m.created_ns = 1'000'000'000 + 250'000'000 * i;
      m.ready_ns =
          m.created_ns + 200'000'000 + static_cast<int64_t>(Mix(static_cast<uint64_t>(number * 8 + i)) % 50'000'000);
      m.issued = m.launched = m.started = m.completed = kNone;
      if (i != 3 || has_embedding) rank.memberships.push_back(std::move(m));
    }
    const uint32_t membership_of[] = {0, 2, 3, has_embedding ? 4u : 3u, 1, 1, 1, 1};  // by lane

    std::vector<int64_t> total(kLanes), gone(kLanes);
    int64_t tickets[3] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
      auto until = [&](int64_t position) {
        int64_t n = position / length * per_step_[stage][lane];
        for (int64_t k = 0; k < position % length; ++k) n += program[k].lane == lane;
        return n;
      };
      total[lane] = until(issued);
      gone[lane] = until(oldest);
      tickets[StreamOf(static_cast<Lane>(lane))] += total[lane];
      Membership& m = rank.memberships[membership_of[lane]];
      if (total[lane] > 0) m.lost_records += gone[lane];
      if (!Collective(static_cast<Lane>(lane)) || total[lane] == 0) continue;
      m.issued = m.launched = total[lane];
      m.completed = until(std::min(gpu, issued));
      m.started = std::min(m.issued, m.completed + (gpu < issued && program[gpu % length].lane == lane ? 1 : 0));
      m.issued_ns = now - kStallNs;
      if (!options_.marks) m.completed = m.started = kUnknown;
      m.recorded.Mutable().device = t;
      for (int64_t seq = std::max<int64_t>(0, m.issued / 64 - 8) * 64; seq <= m.issued && seq > 0; seq += 64) {
        if (seq > m.issued - 64 * 8) m.checkpoints.push_back({seq, Hash(number, lane, seq, issued)});
      }
      m.signature_hash = Hash(number, lane, m.issued, issued);
    }
    AddPeer(&rank.memberships[1], stage + 1, total[kSendNext], total[kRecvNext]);
    AddPeer(&rank.memberships[1], stage - 1, total[kSendPrev], total[kRecvPrev]);

    int64_t stream_seen[3] = {};
    for (int lane = 0; lane < kLanes; ++lane) stream_seen[StreamOf(static_cast<Lane>(lane))] += gone[lane];
    uint64_t random = Mix(static_cast<uint64_t>(number) + 1);
    rank.ops.reserve(static_cast<size_t>(issued - first));
    rank.addresses.reserve(static_cast<size_t>(issued - first));
    int64_t started[3] = {}, completed[3] = {};
    for (int64_t at = oldest; at < issued; ++at) {
      const auto k = static_cast<size_t>(at % length);
      const Call& call = program[k];
      random = Mix(random + 0x9e3779b97f4a7c15ull);
      Op op;
      op.membership = membership_of[call.lane];
      op.kind = call.kind;
      op.datatype = 9;
      op.reduction = call.reduction;
      op.count = call.count;
      if (Differs() && number == Odd() && at == OddAt(issued)) op.count = call.count / 2;
      op.seq = at / length * per_step_[stage][call.lane] + nth_[stage][k];
      if (call.lane == kSendNext || call.lane == kRecvNext) op.root_or_peer = stage + 1;
      if (call.lane == kSendPrev || call.lane == kRecvPrev) op.root_or_peer = stage - 1;
      op.thread = 0;
      op.index = at;
      if (!Collective(call.lane)) op.group = GroupNumber(static_cast<uint64_t>(at));
      const int stream = StreamOf(call.lane);
      op.stream = static_cast<uint32_t>(stream);
      if (options_.marks) op.ticket = ++stream_seen[stream];
      op.enter_ns = now - kStallNs - (issued - at) * kCallNs + static_cast<int64_t>(random % 30'000);
      op.return_ns = op.enter_ns + 4'000 + static_cast<int64_t>(random >> 32 & 8191);
      op.caller = 0x41d200 + k % 97 * 148;
      op.caller_object = 0x5eed1e55;
      if (options_.marks) {
        op.state = at < gpu ? OpState::kCompleted : at == gpu ? OpState::kStarted : OpState::kEnqueued;
        if (at < gpu) completed[stream] = op.ticket;
        if (at <= gpu) started[stream] = op.ticket;
      }
      if (at < first) {
        ++rank.not_loaded;
        ++rank.memberships[op.membership].not_loaded;
        continue;
      }
      op.addresses = static_cast<uint32_t>(rank.addresses.size());
      rank.addresses.push_back(
          {0x7f3a00000000ull + Mix(k % 61) % 4096 * 2'097'152, 0x7f5a00000000ull + Mix(k % 53) % 4096 * 2'097'152});
      rank.ops.push_back(op);
    }
    for (int s = 0; s < 3; ++s) {
      ring::StreamSnapshot stream;
      stream.index = static_cast<uint32_t>(s);
      stream.handle = 0x55550000u + static_cast<uint64_t>(s) * 64;
      stream.device = t;
      stream.marked = options_.marks;
      stream.issued = static_cast<uint64_t>(tickets[s]);
      stream.started = static_cast<uint64_t>(started[s]);
      stream.completed = static_cast<uint64_t>(completed[s]);
      rank.streams.push_back(stream);
    }
    ring::ThreadSnapshot thread;
    thread.tid = rank.pid;
    thread.name = "python3";
    thread.calls = static_cast<uint64_t>(issued);
    thread.overwritten = static_cast<uint64_t>(oldest);
    thread.last_call_ns = now - kStallNs;
    if (Stalls() && !culprit) {
      thread.wait = CallKind::kStreamSynchronize;
      thread.wait_stream = kNoIndex;
      thread.wait_since_ns = now - kStallNs + 100'000;
    }
    rank.threads.push_back(thread);
    return rank;
  }

  static int StreamOf(Lane lane) { return lane == kTpLane ? 0 : lane >= kSendNext ? 1 : 2; }

  static void AddPeer(Membership* m, int peer, int64_t sends, int64_t recvs) {
    if (sends > 0 || recvs > 0) m->peers.push_back({peer, sends, recvs});
  }

  // The call that differs: the tensor-parallel one that is `depth` records old, or the next older.
  int64_t OddAt(int64_t issued) const {
    const auto& program = programs_[Stage(Odd())];
    int64_t at = std::max<int64_t>(0, issued - options_.depth);
    while (program[at % static_cast<int64_t>(program.size())].lane != kTpLane) --at;
    return at;
  }

  uint64_t Hash(int number, int lane, int64_t seq, int64_t issued) const {
    uint64_t hash = Mix(static_cast<uint64_t>(lane) << 56 ^ static_cast<uint64_t>(seq));
    if (Differs() && number == Odd() && lane == kTpLane) {
      const int64_t at = OddAt(issued), length = static_cast<int64_t>(programs_[Stage(number)].size());
      const int64_t odd = at / length * per_step_[Stage(number)][lane] + nth_[Stage(number)][at % length];
      if (seq >= odd) hash = Mix(hash ^ 1);
    }
    return hash;
  }

  const ScaleOptions options_;
  const int dp_;
  std::vector<std::vector<Call>> programs_;     // by stage
  std::vector<std::vector<int64_t>> nth_;       // by stage and place: number in its lane within the step, from 1
  std::vector<std::vector<int64_t>> per_step_;  // by stage and lane
  std::vector<int> here_, elsewhere_;           // by stage
  int stop_ = 0;
};

ScaleJob::ScaleJob(const ScaleOptions& options) : impl_(std::make_unique<Impl>(options)) {}
ScaleJob::~ScaleJob() = default;
int ScaleJob::nodes() const {
  return impl_->options_.ranks / kTp;
}
Bundle ScaleJob::Node(int node, int records) const {
  return impl_->Node(node, records);
}

bool ScaleOptions::Take(std::string_view name, const char* text) {
  const std::string_view value = text;
  const int number = atoi(text);
  if (name == "--ranks")
    ranks = number;
  else if (name == "--records")
    records = number;
  else if (name == "--pp")
    pp = number;
  else if (name == "--depth")
    depth = number;
  else if (name == "--marks")
    marks = value != "off";
  else if (name == "--fault")
    fault = value == "none" ? kNone : value == "mismatch" ? kMismatch : value == "both" ? kBoth : kStall;
  else
    return false;
  return true;
}

}  // namespace lockstep
