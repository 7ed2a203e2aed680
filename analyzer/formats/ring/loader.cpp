#include "analyzer/formats/ring/loader.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/formats/ring/profiler.h"
#include "analyzer/formats/ring/states.h"
#include "proto/process.pb.h"

namespace lockstep {
namespace {

constexpr size_t kMaxProblemsPerRing = 5;
constexpr uint64_t kMaxNumber = uint64_t{1} << 62;

int64_t Number(uint64_t seq) { return seq == 0 ? kNone : static_cast<int64_t>(std::min(seq, kMaxNumber)); }
int64_t Total(uint64_t count) { return static_cast<int64_t>(std::min(count, kMaxNumber)); }

std::string CommId(const RingInput& input, const ring::CommSnapshot& comm) {
  if (comm.id != 0) return absl::StrFormat("%016x", comm.id);
  // The identity is still unknown, so no other entry is certainly the same communicator.
  const ring::ProcessInfo& process = input.snapshot.process;
  return CleanUtf8(absl::StrCat("unknown/", process.host, ".", process.pid, ".", comm.index), 256);
}

// Sorts the entries by table index, and replaces the indexes by positions. Returns the position of each table index.
template <typename T>
absl::flat_hash_map<uint32_t, uint32_t> SortByIndex(std::vector<T>* entries) {
  std::stable_sort(entries->begin(), entries->end(), [](const T& a, const T& b) { return a.index < b.index; });
  absl::flat_hash_map<uint32_t, uint32_t> position;
  for (size_t i = 0; i < entries->size(); ++i) {
    position.try_emplace((*entries)[i].index, static_cast<uint32_t>(i));
    (*entries)[i].index = static_cast<uint32_t>(i);
  }
  return position;
}

uint32_t Find(const absl::flat_hash_map<uint32_t, uint32_t>& position, uint32_t index) {
  auto it = position.find(index);
  return it == position.end() ? kNoIndex : it->second;
}

Membership MakeMembership(const ring::CommSnapshot& comm) {
  Membership m;
  m.member_rank = comm.member_rank < 0 ? -1 : comm.member_rank;
  m.state = comm.state;
  m.issued = Number(comm.issued_seq);
  m.launched = Number(comm.launched_seq);
  m.issued_ns = comm.issued_ns;
  m.created_ns = comm.created_ns;
  m.ready_ns = comm.ready_ns;
  m.ended_ns = comm.ended_ns;
  m.origin = comm.origin;
  m.signature_hash = comm.signature_hash;
  for (const ring::HashCheckpoint& point : comm.checkpoints) m.checkpoints.push_back({Number(point.seq), point.hash});
  for (const ring::PeerProgress& peer : comm.peers)
    m.peers.push_back({peer.peer, Total(peer.sends), Total(peer.recvs)});
  m.lost_records = Total(comm.lost_records);
  m.async_error = comm.async_error;
  m.color = comm.color;
  m.key = comm.key;
  m.ring_index = comm.index;
  m.recorded = comm;
  m.recorded.Mutable().name = CleanUtf8(comm.name, 256);
  return m;
}

CommFacts MakeFacts(const RingInput& input, const ring::CommSnapshot& comm) {
  CommFacts facts;
  facts.id = CommId(input, comm);
  facts.name = CleanUtf8(comm.name, 256);
  facts.size = comm.state == ring::CommState::kNotMember ? 0 : comm.size;
  if (comm.parent_id != 0) facts.parent_id = absl::StrFormat("%016x", comm.parent_id);
  facts.ordinal = comm.ordinal;
  facts.color = comm.color;
  facts.origin = comm.origin;
  return facts;
}

Op MakeOp(const ring::OpSnapshot& from, uint32_t membership, uint32_t thread, uint32_t stream) {
  Op op;
  op.membership = membership;
  op.kind = from.kind;
  op.datatype = from.datatype;
  op.reduction = from.reduction;
  op.root_or_peer = from.root_or_peer;
  // One-sided operations have no number; their signals are counted in the peers.
  op.seq = ring::IsOneSided(from.kind) ? kUnknown : Total(from.seq);
  op.count = Total(from.count);
  op.thread = thread;
  op.index = Total(from.index);
  op.group = GroupNumber(from.group);
  op.stream = stream;
  op.ticket = Total(from.ticket);
  op.enter_ns = from.enter_ns;
  op.return_ns = from.return_ns;
  op.result = static_cast<int16_t>(std::clamp<int32_t>(from.result, INT16_MIN, INT16_MAX));
  op.caller = from.caller;
  op.caller_object = from.caller_object;
  op.graph = from.graph;
  // A captured operation does not run itself; the operations that its graph's launches replay have the numbers.
  if (from.stage == ring::OpStage::kCaptured && from.seq == 0) op.seq = kUnknown;
  op.started_ns = from.started_ns;
  op.completed_ns = from.completed_ns;
  return op;
}

// A process's communicators on one device. The process has a single part if it is one rank.
struct Part {
  int32_t device = -1;
  std::vector<size_t> comms;  // indexes into Snapshot::comms
};

std::vector<Part> SplitByDevice(const ring::Snapshot& snapshot) {
  // If one process has several members of one communicator, it drives several devices.
  std::map<uint64_t, std::set<int32_t>> members, devices;
  for (const ring::CommSnapshot& comm : snapshot.comms) {
    if (comm.id == 0 || comm.member_rank < 0) continue;
    members[comm.id].insert(comm.member_rank);
    devices[comm.id].insert(comm.device);
  }
  bool several = false;
  for (const auto& [id, ranks] : members)
    several |= ranks.size() > 1 && devices[id].size() == ranks.size() && !devices[id].count(-1);
  std::vector<Part> parts;
  if (!several) {
    parts.emplace_back();
    for (size_t i = 0; i < snapshot.comms.size(); ++i) parts[0].comms.push_back(i);
    return parts;
  }
  std::map<int32_t, Part> by_device;
  for (size_t i = 0; i < snapshot.comms.size(); ++i) {
    if (snapshot.comms[i].device >= 0) by_device[snapshot.comms[i].device].comms.push_back(i);
  }
  for (size_t i = 0; i < snapshot.comms.size(); ++i) {
    if (snapshot.comms[i].device < 0) by_device.begin()->second.comms.push_back(i);
  }
  for (auto& [device, part] : by_device) {
    part.device = device;
    parts.push_back(std::move(part));
  }
  return parts;
}

// A rank to be numbered.
struct Draft {
  size_t input = 0;
  Part part;
  bool split = false;
  int32_t rank = -1;
};

// Numbers drafts without a number from the launcher, and drafts of processes that drive several devices. The number is
// the member rank in the world (the largest communicator), or the next free number.
void NumberRanks(const std::vector<RingInput>& inputs, std::vector<Draft>* drafts, BundleBuilder* builder) {
  bool all_numbered = true, any_split = false;
  for (Draft& draft : *drafts) {
    const ring::ProcessInfo& process = inputs[draft.input].snapshot.process;
    if (process.rank >= kMaxRanks) {
      builder->AddProblem(
          {.path = inputs[draft.input].path,
           .text = absl::StrCat("claims to be rank ", process.rank, ", which is implausible; the number is ignored"),
           .like = "rank not plausible"});
    } else if (!draft.split) {
      draft.rank = process.rank < 0 ? -1 : process.rank;
    }
    all_numbered &= draft.rank >= 0;
    any_split |= draft.split;
  }
  if (all_numbered) return;

  // Maps a communicator and member rank to the drafts.
  std::map<uint64_t, std::map<int32_t, std::vector<Draft*>>> worlds;
  std::map<uint64_t, int32_t> sizes;
  for (Draft& draft : *drafts) {
    const ring::Snapshot& snapshot = inputs[draft.input].snapshot;
    for (size_t i : draft.part.comms) {
      const ring::CommSnapshot& comm = snapshot.comms[i];
      if (comm.id == 0 || comm.member_rank < 0 || comm.size <= comm.member_rank || comm.size > kMaxMembers) continue;
      std::vector<Draft*>& who = worlds[comm.id][comm.member_rank];
      if (std::find(who.begin(), who.end(), &draft) == who.end()) who.push_back(&draft);
      sizes[comm.id] = std::max(sizes[comm.id], comm.size);
    }
  }
  uint64_t world = 0;
  std::tuple<int32_t, size_t> best{0, 0};
  for (const auto& [id, members] : worlds) {
    const std::tuple<int32_t, size_t> weight{sizes[id], members.size()};
    if (weight <= best) continue;
    // A communicator is not the world if it contradicts the launcher's numbers. If any process drives several devices,
    // there is no such check.
    bool consistent = true;
    for (const auto& [member, who] : members) {
      for (const Draft* draft : who) consistent &= any_split || draft->rank < 0 || draft->rank == member;
    }
    if (!consistent) continue;
    best = weight;
    world = id;
  }
  std::set<int32_t> taken;
  if (world != 0) {
    for (auto& [member, who] : worlds[world]) {
      for (Draft* draft : who) draft->rank = member;
      taken.insert(member);
    }
  }
  for (const Draft& draft : *drafts) taken.insert(draft.rank);
  int32_t next = taken.empty() ? 0 : std::max(0, *taken.rbegin() + 1);
  for (Draft& draft : *drafts) {
    const RingInput& input = inputs[draft.input];
    if (draft.rank >= 0) continue;
    if (draft.part.comms.empty()) continue;  // the caller reports the problem
    if (next >= kMaxRanks) return;
    draft.rank = next++;
    builder->AddProblem(
        {.path = input.path,
         .text = absl::StrCat(
             "pid ", input.snapshot.process.pid,
             " has no rank from a launcher and shares no communicator with the others; it appears as rank ",
             draft.rank),
         .rank = draft.rank,
         .like = "number made up"});
  }
}

class RankMaker {
 public:
  RankMaker(const RingInput& input, const Draft& draft, BundleBuilder* builder)
      : input_(input), draft_(draft), builder_(builder) {}

  LooseRank Make() {
    FillProcess();
    FillComms();
    loose_.rank.streams = input_.snapshot.streams;
    stream_at_ = SortByIndex(&loose_.rank.streams);
    for (ring::StreamSnapshot& stream : loose_.rank.streams) {
      for (auto& dependency : stream.depends_on) dependency.stream = Find(stream_at_, dependency.stream);
      std::erase_if(stream.depends_on, [](const auto& dependency) { return dependency.stream == kNoIndex; });
    }
    loose_.rank.graphs = input_.snapshot.graphs;
    for (ring::GraphSnapshot& graph : loose_.rank.graphs) {
      graph.stream = Find(stream_at_, graph.stream);
      graph_at_.try_emplace(graph.id, graph.index);
    }
    loose_.rank.threads = input_.snapshot.threads;
    thread_at_ = SortByIndex(&loose_.rank.threads);
    FillOps();
    FillThreads();
    if (draft_.split) TakeOwnStack();
    ApplyProfiler(input_.snapshot, comm_at_, &loose_.rank);
    SayWhatTimesAreWorth();
    DeriveProgress(&loose_.rank);
    return std::move(loose_);
  }

 private:
  void FillProcess() {
    const ring::ProcessInfo& process = input_.snapshot.process;
    Rank& rank = loose_.rank;
    rank.rank = draft_.rank;
    rank.world_size = process.world_size > kMaxRanks ? -1 : process.world_size;
    rank.local_rank = draft_.split ? draft_.part.device : process.local_rank;
    rank.host = CleanUtf8(process.host, 256);
    rank.boot_id = CleanUtf8(process.boot_id, 64);
    rank.job = CleanUtf8(process.job, 256);
    rank.step = CleanUtf8(process.step, 64);
    rank.restart_count = process.restart_count;
    rank.pid = process.pid;
    rank.gpu_index = draft_.split ? draft_.part.device : process.gpu_index;
    if (!draft_.split || draft_.part.device == process.gpu_index) {
      rank.gpu_uuid = CleanUtf8(process.gpu_uuid, 64);
      rank.gpu_pci = CleanUtf8(process.gpu_pci, 64);
    }
    rank.nccl_version = process.nccl_version;
    rank.newest_nccl = process.newest_nccl;
    rank.unwrapped = process.unwrapped;
    rank.unwrapped_names = CleanUtf8(process.unwrapped_names, 512);
    rank.cuda_version = process.cuda_version;
    rank.recorder_state = process.state;
    rank.stop_reason = CleanUtf8(process.stop_reason, 1024);
    if (process.state == ring::RecorderState::kStopped || process.state == ring::RecorderState::kReplaced) {
      rank.stopped_ns = process.stopped_ns;
    }
    rank.gpu_marks = process.gpu_marks;
    rank.start_recorded = process.gpu_marks == ring::GpuMarks::kFull;
    for (const ring::StreamSnapshot& stream : input_.snapshot.streams)
      rank.start_recorded |= StartsAreMarked(stream, process.gpu_marks);
    rank.host_waits = process.host_waits;
    rank.ring_bytes = process.ring_bytes;
    rank.wanted_ring_bytes = process.wanted_bytes;
    rank.ring_place = process.place;
    rank.process = input_.process;
    rank.captured_ns = input_.snapshot.read_mono_ns;
    rank.real_minus_mono_ns = process.created_real_ns == 0 ? 0 : process.created_real_ns - process.created_mono_ns;
    rank.records_lost = input_.snapshot.records_lost;
    rank.source = Source::kRing;
    rank.path = input_.path;
    rank.damaged = !input_.snapshot.problems.empty();
  }

  void FillComms() {
    for (size_t i : draft_.part.comms) {
      const ring::CommSnapshot& comm = input_.snapshot.comms[i];
      if (!comm_at_.try_emplace(comm.index, static_cast<uint32_t>(loose_.rank.memberships.size())).second) continue;
      loose_.rank.memberships.push_back(MakeMembership(comm));
      loose_.comms.push_back(MakeFacts(input_, comm));
      CommFacts& facts = loose_.comms.back();
      if (facts.size > kMaxMembers || comm.member_rank >= kMaxMembers || comm.issued_seq > kMaxNumber) {
        builder_->AddProblem(
            {.path = input_.path,
             .text = absl::StrCat("communicator entry ", comm.index, " is implausible (size ", comm.size, ", member ",
                                  comm.member_rank, ", ", comm.issued_seq, " issued); its numbers are ignored"),
             .rank = draft_.rank,
             .like = "communicator not plausible"});
        facts.size = 0;
        Membership& m = loose_.rank.memberships.back();
        m.member_rank = -1;
        m.issued = m.launched = kUnknown;
      }
    }
  }

  // Returns whether an operation belongs to this rank. Sets *membership; kNoIndex without a communicator.
  bool Mine(uint32_t comm, uint32_t stream, uint32_t* membership) const {
    *membership = Find(comm_at_, comm);
    if (*membership != kNoIndex || !draft_.split) return true;
    if (comm != UINT32_MAX) return false;
    return stream >= loose_.rank.streams.size() || loose_.rank.streams[stream].device == draft_.part.device;
  }

  void FillOps() {
    using Key = std::tuple<uint32_t, uint16_t, uint64_t, int32_t>;
    absl::flat_hash_set<Key> in_rings;
    auto key = [](const ring::OpSnapshot& op) {
      return Key{op.comm, static_cast<uint16_t>(op.kind), op.seq, ring::IsCollective(op.kind) ? -1 : op.root_or_peer};
    };
    auto add = [&](const ring::OpSnapshot& from, bool recent) {
      const uint32_t stream = Find(stream_at_, from.stream);
      const uint32_t thread = Find(thread_at_, from.thread);
      uint32_t membership = kNoIndex;
      if (!Mine(from.comm, stream, &membership)) {
        if (thread != kNoIndex) others_threads_.insert(thread);
        return;
      }
      if (thread != kNoIndex) my_threads_.insert(thread);
      Op op = MakeOp(from, membership, thread, stream);
      op.state =
          StateOf(from.stage, from.ticket, stream < loose_.rank.streams.size() ? &loose_.rank.streams[stream] : nullptr,
                  loose_.rank.gpu_marks);
      op.recent_only = recent;
      if (from.replay != 0) SetReplay(from, &op);
      if (from.send_address != 0 || from.recv_address != 0) {
        op.addresses = static_cast<uint32_t>(loose_.rank.addresses.size());
        loose_.rank.addresses.push_back({from.send_address, from.recv_address});
      }
      loose_.rank.ops.push_back(op);
    };
    for (const ring::OpSnapshot& op : input_.snapshot.ops) {
      if (op.comm != UINT32_MAX) in_rings.insert(key(op));
    }
    // Operations that are only in the recent table are older than those in the rings.
    for (const ring::OpSnapshot& op : input_.snapshot.recent) {
      if (in_rings.insert(key(op)).second) add(op, true);
    }
    std::stable_sort(loose_.rank.ops.begin(), loose_.rank.ops.end(), [](const Op& a, const Op& b) {
      return std::tie(a.membership, a.enter_ns, a.seq) < std::tie(b.membership, b.enter_ns, b.seq);
    });
    for (const ring::OpSnapshot& op : input_.snapshot.ops) add(op, false);
  }

  // Sets the launch of a replayed operation. Operations of one launch are adjacent.
  void SetReplay(const ring::OpSnapshot& from, Op* op) {
    std::vector<Replay>& replays = loose_.rank.replays;
    const auto graph = graph_at_.find(from.graph);
    const uint32_t index = graph == graph_at_.end() ? 0 : graph->second;
    if (replays.empty() || replays.back().graph != index || replays.back().number != from.replay) {
      replays.push_back({index, from.replay});
    }
    op->replayed = true;
    op->graph = ReplayedAs(static_cast<uint32_t>(replays.size() - 1), from.place);
  }

  // Sets the source and uncertainty of times. At least 95 % of the times are late by at most the reported value; the
  // times of first operations are less accurate.
  void SayWhatTimesAreWorth() {
    Rank& rank = loose_.rank;
    std::vector<int64_t> late;
    // A digest contains only the recent operations of each communicator.
    for (const ring::OpSnapshot& op : input_.snapshot.ops.empty() ? input_.snapshot.recent : input_.snapshot.ops) {
      if (op.completed_ns != 0) late.push_back(op.time_uncertainty_ns);
    }
    if (late.empty()) return;
    const size_t at = (late.size() - 1) * 19 / 20;
    std::nth_element(late.begin(), late.begin() + static_cast<ptrdiff_t>(at), late.end());
    rank.time_uncertainty_ns = late[at];
    rank.time_source = rank.gpu_marks == ring::GpuMarks::kEvents ? TimeSource::kEvents : TimeSource::kSampledMarks;
  }

  void FillThreads() {
    for (ring::ThreadSnapshot& thread : loose_.rank.threads) {
      thread.name = CleanUtf8(thread.name, 64);
      const uint32_t comm = thread.comm;
      thread.comm = Find(comm_at_, comm);
      thread.wait_stream = Find(stream_at_, thread.wait_stream);
      if (!draft_.split) continue;
      // A thread that only drives other devices does not matter for this device's rank.
      const bool elsewhere = comm != UINT32_MAX
                                 ? thread.comm == kNoIndex && !my_threads_.count(thread.index)
                                 : others_threads_.count(thread.index) && !my_threads_.count(thread.index);
      if (elsewhere) {
        thread.call = thread.wait = ring::CallKind::kNone;
        thread.group_depth = 0;
        thread.seq = thread.wait_ticket = 0;
        thread.since_ns = thread.group_since_ns = thread.wait_since_ns = 0;
        thread.wait_stream = kNoIndex;
      } else if (WaitsForAnotherDevice(thread)) {
        thread.waits_elsewhere = true;
        thread.wait = ring::CallKind::kNone;
        thread.wait_ticket = 0;
        thread.wait_since_ns = 0;
        thread.wait_stream = kNoIndex;
      }
    }
  }

  // If the process drives several devices, uses the stack of the thread that drives this device.
  void TakeOwnStack() {
    Process& process = loose_.rank.process;
    if (process.evidence == nullptr) return;
    const ring::ThreadSnapshot* own = nullptr;
    for (const ring::ThreadSnapshot& thread : loose_.rank.threads) {
      if (my_threads_.count(thread.index) != 0 && (own == nullptr || thread.calls > own->calls)) own = &thread;
    }
    if (own == nullptr) return;
    for (const ThreadStack& thread : process.evidence->threads()) {
      if (thread.inner_tid() != own->tid || thread.frames().empty()) continue;
      process.stack = StackTexts(thread, *process.evidence);
      process.python_stack = StackTexts(thread, *process.evidence, true);
      process.stack_later.clear();  // the stack is another thread's
    }
  }

  // Returns whether a thread that drives several devices waits for another device, not for this rank's device.
  bool WaitsForAnotherDevice(const ring::ThreadSnapshot& thread) const {
    if (thread.wait == ring::CallKind::kNone) return false;
    const std::vector<ring::StreamSnapshot>& streams = loose_.rank.streams;
    if (thread.wait_stream < streams.size()) return streams[thread.wait_stream].device != draft_.part.device;
    // The record does not show for which device the thread waits. Assumes a device with unfinished work.
    bool own = false, others = false;
    for (const ring::StreamSnapshot& stream : streams) {
      if (stream.marked && stream.completed < stream.issued)
        (stream.device == draft_.part.device ? own : others) = true;
    }
    return others && !own;
  }

  const RingInput& input_;
  const Draft& draft_;
  BundleBuilder* builder_;
  LooseRank loose_;
  absl::flat_hash_map<uint32_t, uint32_t> comm_at_, thread_at_, stream_at_;
  absl::flat_hash_map<uint64_t, uint32_t> graph_at_;  // indexed by the number of the capture
  std::set<uint32_t> my_threads_, others_threads_;
};

}  // namespace

void AddRings(std::vector<RingInput> rings, BundleBuilder* builder) {
  // Numbers assigned here must not depend on the order of the files.
  std::stable_sort(rings.begin(), rings.end(), [](const RingInput& a, const RingInput& b) {
    const ring::ProcessInfo &x = a.snapshot.process, &y = b.snapshot.process;
    return std::tie(x.host, x.pid, x.start_ticks, a.path) < std::tie(y.host, y.pid, y.start_ticks, b.path);
  });
  // Each job's ranks are numbered separately.
  std::map<std::string, std::vector<Draft>> by_job;
  for (size_t i = 0; i < rings.size(); ++i) {
    std::vector<Part> parts = SplitByDevice(rings[i].snapshot);
    const bool split = parts.size() > 1;
    for (Part& part : parts) by_job[rings[i].snapshot.process.job].push_back({i, std::move(part), split, -1});
  }
  std::vector<Draft> drafts;
  for (auto& [job, of_job] : by_job) {
    NumberRanks(rings, &of_job, builder);
    drafts.insert(drafts.end(), std::make_move_iterator(of_job.begin()), std::make_move_iterator(of_job.end()));
  }
  for (const RingInput& input : rings) {
    const int32_t rank = input.snapshot.process.rank;
    if (!input.snapshot.process.note.empty()) {
      builder->AddProblem({input.path, -1,
                           CleanUtf8(absl::StrCat("the recorder reports: ", input.snapshot.process.note), 256),
                           rank < 0 || rank >= kMaxRanks ? -1 : rank, /*note=*/true});
    }
    const std::vector<std::string>& problems = input.snapshot.problems;
    for (size_t i = 0; i < problems.size(); ++i) {
      // One broken file must not displace the problems of the others.
      const bool last = i + 1 == kMaxProblemsPerRing && problems.size() > kMaxProblemsPerRing;
      const std::string text = last ? absl::StrCat(problems.size() - i, " more damaged parts") : problems[i];
      builder->AddProblem({.path = input.path,
                           .text = CleanUtf8(text, 512),
                           .rank = rank < 0 || rank >= kMaxRanks ? -1 : rank,
                           .like = kDamagedRank});
      if (last) break;
    }
  }
  for (size_t i = 0; i < drafts.size(); ++i) {
    RingInput& input = rings[drafts[i].input];
    if (drafts[i].rank < 0) {
      // A launcher or a helper process that only queried NCCL is not a rank.
      builder->AddProblem(
          {.path = input.path,
           .text = absl::StrCat("pid ", input.snapshot.process.pid,
                                " created no communicator and has no rank, so it does not count as a rank"),
           .note = true,
           .like = "no rank"});
      continue;
    }
    builder->AddRank(RankMaker(input, drafts[i], builder).Make());
    // Thousands of rings are in memory at this point, so each is freed as soon as possible.
    if (i + 1 == drafts.size() || drafts[i + 1].input != drafts[i].input) input.snapshot = ring::Snapshot();
  }
}

Bundle BundleFromRings(std::vector<RingInput> rings) {
  BundleBuilder builder;
  AddRings(std::move(rings), &builder);
  return builder.Finish();
}

}  // namespace lockstep
