#include "scale_job.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep {
namespace {

using namespace jobmodel;
using ring::CallKind;

constexpr int kMicrobatches = 16;
constexpr int64_t kSteps = 1000;  // steps completed before the last step
constexpr int kAhead = 6;         // calls that a CPU thread is ahead of its GPU
constexpr int64_t kNow = 86'400'000'000'000, kCallNs = 41'000, kStallNs = 600'000'000'000;

constexpr int kTp = ScaleOptions::kTp;

}  // namespace

struct ScaleJob::Impl {
  explicit Impl(const ScaleOptions& options)
      : options_(options),
        dp_(options.ranks / kTp / options.pp),
        programs_(LargeJobPrograms(options.pp, kMicrobatches)) {
    layout_.tp = kTp, layout_.pp = options.pp, layout_.dp = dp_;
    // Without a stall, the GPUs have completed the entire step.
    if (!Stalls()) {
      for (const StageProgram& program : programs_) stalled_.here.push_back(program.length());
      stalled_.elsewhere = stalled_.here;
      return;
    }
    const StageProgram& own = programs_[CulpritStage()];
    int64_t stop = own.length() * 6 / 10;
    while (own.lanes[stop] != kTpLane) ++stop;
    stalled_ = PlayStall(programs_, CulpritStage(), stop);
  }

  bool Stalls() const { return options_.fault == ScaleOptions::kStall || options_.fault == ScaleOptions::kBoth; }
  bool Differs() const { return options_.fault == ScaleOptions::kMismatch || options_.fault == ScaleOptions::kBoth; }
  int Replica(int rank) const { return layout_.PlaceOf(rank).dp; }
  int Stage(int rank) const { return layout_.PlaceOf(rank).pp; }
  int CulpritStage() const { return options_.pp / 2; }
  int Culprit() const { return (CulpritStage() * dp_ + dp_ / 3) * kTp + 5; }
  int Odd() const { return (options_.pp / 4 * dp_ + dp_ / 2) * kTp + 2; }

  void AddComm(Bundle* bundle, Family family, int rank) const {
    Group group = GroupOf(layout_, family, rank);
    // The bundle has an embedding group for each rank, even if the rank's stage is in no embedding group.
    if (family == Family::kEmb) group = GroupOf(layout_, family, Replica(rank) * kTp + rank % kTp);
    Communicator comm;
    comm.name = family == Family::kEmb ? absl::StrCat("embd_", group.number) : group.Name();
    comm.id = absl::StrFormat("%016x", Mix(std::hash<std::string>()(comm.name)) | 1);
    comm.size = group.size;
    comm.origin = CallKind::kCommInitRankConfig;
    comm.members = group.Members();
    bundle->comms.push_back(std::move(comm));
  }

  Bundle Node(int node, int records) const {
    Bundle bundle;
    bundle.job = "scale";
    bundle.ranks_expected = options_.ranks;
    const int first = node * kTp;
    AddComm(&bundle, Family::kWorld, first);
    AddComm(&bundle, Family::kTp, first);
    for (int t = 0; t < kTp; ++t) {
      for (Family family : {Family::kPp, Family::kDp, Family::kEmb}) AddComm(&bundle, family, first + t);
    }
    for (int t = 0; t < kTp; ++t) bundle.ranks.push_back(MakeRank(first + t, records));
    return bundle;
  }

  Rank MakeRank(int number, int records) const {
    const int stage = Stage(number), t = number % kTp;
    const auto& program = programs_[stage];
    const int64_t length = program.length();
    const bool culprit = Stalls() && number == Culprit();
    const int64_t gpu =
        kSteps * length + (Replica(number) == Replica(Culprit()) ? stalled_.here : stalled_.elsewhere)[stage];
    int64_t issued = std::min(gpu + kAhead, (kSteps + 1) * length);
    if (!Stalls()) issued = gpu;
    if (culprit) issued = gpu;
    const int64_t oldest = std::max<int64_t>(0, issued - options_.records);
    const int64_t first = std::max(oldest, issued - records);  // oldest stored operation
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
    // The member rank in the tensor, pipeline, data, embedding and world group.
    const int place[] = {t, stage, Replica(number), stage == 0 ? 0 : 1, number};
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
    const uint32_t membership_of[] = {0, 2, 3, has_embedding ? 4u : 3u, 1, 1, 1, 1};  // index of the membership for
                                                                                      // each lane

    std::vector<int64_t> total(kLanes), gone(kLanes);
    int64_t tickets[kLaneStreams] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
      total[lane] = program.Count(issued, lane);
      gone[lane] = program.Count(oldest, lane);
      tickets[LaneStream(lane)] += total[lane];
      Membership& m = rank.memberships[membership_of[lane]];
      if (total[lane] > 0) m.lost_records += gone[lane];
      if (!Collective(lane) || total[lane] == 0) continue;
      m.issued = m.launched = total[lane];
      m.completed = program.Count(std::min(gpu, issued), lane);
      m.started = std::min(m.issued, m.completed + (gpu < issued && program.lanes[gpu % length] == lane ? 1 : 0));
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
    for (int lane = 0; lane < kLanes; ++lane) stream_seen[LaneStream(lane)] += gone[lane];
    uint64_t random = Mix(static_cast<uint64_t>(number) + 1);
    rank.ops.reserve(static_cast<size_t>(issued - first));
    rank.addresses.reserve(static_cast<size_t>(issued - first));
    int64_t started[3] = {}, completed[3] = {};
    for (int64_t at = oldest; at < issued; ++at) {
      const auto k = static_cast<size_t>(at % length);
      const Call& call = program.calls[k];
      const Lane lane = program.lanes[k];
      random = Mix(random + 0x9e3779b97f4a7c15ull);
      Op op;
      op.membership = membership_of[lane];
      op.kind = call.kind;
      op.datatype = call.datatype;
      op.reduction = call.reduction;
      op.count = call.count;
      if (Differs() && number == Odd() && at == OddAt(issued)) op.count = call.count / 2;
      op.seq = program.Count(at, lane) + 1;
      op.root_or_peer = call.root_or_peer;
      op.thread = 0;
      op.index = at;
      if (!Collective(lane)) op.group = GroupNumber(static_cast<uint64_t>(at));
      const int stream = LaneStream(lane);
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

  static void AddPeer(Membership* m, int peer, int64_t sends, int64_t recvs) {
    if (sends > 0 || recvs > 0) m->peers.push_back({peer, sends, recvs});
  }

  // Returns the position of the call that differs: the tensor-parallel call that is `depth` records old, otherwise the
  // next older one.
  int64_t OddAt(int64_t issued) const {
    const auto& program = programs_[Stage(Odd())];
    int64_t at = std::max<int64_t>(0, issued - options_.depth);
    while (program.lanes[at % program.length()] != kTpLane) --at;
    return at;
  }

  uint64_t Hash(int number, int lane, int64_t seq, int64_t issued) const {
    uint64_t hash = Mix(static_cast<uint64_t>(lane) << 56 ^ static_cast<uint64_t>(seq));
    if (Differs() && number == Odd() && lane == kTpLane) {
      if (seq > programs_[Stage(number)].Count(OddAt(issued), lane)) hash = Mix(hash ^ 1);
    }
    return hash;
  }

  const ScaleOptions options_;
  const int dp_;
  Layout layout_;
  const std::vector<StageProgram> programs_;  // program of each stage
  Stalled stalled_;
};

ScaleJob::ScaleJob(const ScaleOptions& options) : impl_(std::make_unique<Impl>(options)) {}
ScaleJob::~ScaleJob() = default;
int ScaleJob::nodes() const { return impl_->options_.ranks / kTp; }
Bundle ScaleJob::Node(int node, int records) const { return impl_->Node(node, records); }

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
