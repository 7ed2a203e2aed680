#include "analyzer/formats/lsd/convert.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "analyzer/evidence/process_evidence.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::CommSnapshot;

constexpr size_t kMaxStackLines = 512;
constexpr size_t kMaxPeers = 65536, kMaxCheckpoints = 1024;

template <typename Enum>
Enum Bounded(uint32_t value, Enum last) {
  return value <= static_cast<uint32_t>(last) ? static_cast<Enum>(value) : Enum{};
}

// A single list of fields defines both conversions between a message and its struct. FIELD is a number or an enum with
// any value, TEXT a string with its maximum length, ENUM an enum with its last value.
#define LOCKSTEP_PUT(field) out->set_##field(static_cast<decltype(out->field())>(from.field));
#define LOCKSTEP_PUT_TEXT(field, most) out->set_##field(CleanUtf8(from.field, most));
#define LOCKSTEP_PUT_ENUM(field, last) LOCKSTEP_PUT(field)
#define LOCKSTEP_GET(field) out->field = static_cast<decltype(out->field)>(from.field());
#define LOCKSTEP_GET_TEXT(field, most) out->field = from.field();
#define LOCKSTEP_GET_ENUM(field, last) out->field = Bounded(from.field(), last);
#define LOCKSTEP_ENCODE(LIST) LIST(LOCKSTEP_PUT, LOCKSTEP_PUT_TEXT, LOCKSTEP_PUT_ENUM)
#define LOCKSTEP_DECODE(LIST) LIST(LOCKSTEP_GET, LOCKSTEP_GET_TEXT, LOCKSTEP_GET_ENUM)

// clang-format off
#define LOCKSTEP_PROCESS(FIELD, TEXT, ENUM)                                                 \
  FIELD(exit_code) FIELD(signal) TEXT(state, 8) FIELD(ended_mono_ns)                        \
  FIELD(cpu_ns_between_samples) FIELD(io_bytes_between_samples) FIELD(sample_gap_ns)        \
  TEXT(wchan, 256) TEXT(stack_refused, 1024) FIELD(consequence) FIELD(threads_in_d)

#define LOCKSTEP_THREAD(FIELD, TEXT, ENUM)                                                  \
  FIELD(index) FIELD(tid) TEXT(name, 64) FIELD(call) FIELD(seq) FIELD(since_ns)             \
  FIELD(group_depth) FIELD(group_since_ns) FIELD(wait) FIELD(wait_stream)                   \
  FIELD(wait_ticket) FIELD(wait_since_ns) FIELD(last_call_ns) FIELD(calls)                  \
  FIELD(overwritten) FIELD(waits_elsewhere)

#define LOCKSTEP_GRAPH(FIELD, TEXT, ENUM)                                                   \
  FIELD(index) FIELD(id) ENUM(state, ring::GraphState::kSpoilt) FIELD(exec)                 \
  FIELD(operations) FIELD(operations_lost) FIELD(launches) FIELD(completed) FIELD(stream)   \
  FIELD(ticket) FIELD(captured_ns) FIELD(last_launch_ns) FIELD(ended_ns)

#define LOCKSTEP_STREAM(FIELD, TEXT, ENUM)                                                  \
  FIELD(index) FIELD(handle) FIELD(device) FIELD(marked) FIELD(issued) FIELD(started)       \
  FIELD(completed) FIELD(first_error) FIELD(late_started) FIELD(late_completed)             \
  FIELD(timed_every) FIELD(starts_marked)

#define LOCKSTEP_NETWORK(FIELD, TEXT, ENUM)                                                 \
  FIELD(kind) FIELD(seq) FIELD(peer) FIELD(channel) FIELD(send) FIELD(steps) FIELD(done)    \
  FIELD(step) ENUM(state, ring::ProxyState::kRecvGpuWait) FIELD(since_ns)

// The fields of a communicator, as the ring records them.
#define LOCKSTEP_RECORDED(FIELD, TEXT, ENUM)                                                \
  TEXT(name, 1024) FIELD(member_rank) FIELD(size) FIELD(ordinal) FIELD(color) FIELD(key)    \
  FIELD(origin) ENUM(state, ring::CommState::kNotMember) FIELD(generation) FIELD(device)    \
  FIELD(created_ns) FIELD(ready_ns) FIELD(ended_ns) FIELD(issued_ns) FIELD(signature_hash)  \
  FIELD(peers_lost) FIELD(lost_records) FIELD(async_error) FIELD(async_error_ns)            \
  FIELD(excluded_total) FIELD(blocking)

#define LOCKSTEP_MEMBERSHIP(FIELD, TEXT, ENUM)                                              \
  FIELD(member_rank) ENUM(state, ring::CommState::kNotMember) FIELD(first_seq)              \
  FIELD(issued_ns) FIELD(created_ns) FIELD(ready_ns) FIELD(ended_ns) FIELD(origin)          \
  FIELD(signature_hash) FIELD(lost_records) FIELD(async_error) FIELD(color) FIELD(key)      \
  TEXT(local_name, 1024)

#define LOCKSTEP_COMMUNICATOR(FIELD, TEXT, ENUM)                                            \
  TEXT(id, 1024) TEXT(name, 1024) FIELD(size) TEXT(parent_id, 1024) FIELD(ordinal)          \
  FIELD(color) FIELD(origin)

#define LOCKSTEP_RANK(FIELD, TEXT, ENUM)                                                    \
  FIELD(rank) FIELD(local_rank) TEXT(host, 256) FIELD(pid) FIELD(gpu_index)                 \
  TEXT(gpu_uuid, 64) TEXT(gpu_pci, 64) FIELD(nccl_version) FIELD(newest_nccl)               \
  FIELD(unwrapped) TEXT(unwrapped_names, 512) FIELD(cuda_version)                           \
  ENUM(recorder_state, ring::RecorderState::kReplaced) TEXT(stop_reason, 1024)              \
  ENUM(gpu_marks, ring::GpuMarks::kProfiler) FIELD(host_waits) FIELD(ring_bytes)            \
  FIELD(wanted_ring_bytes) ENUM(ring_place, ring::RingPlace::kMemory)                       \
  FIELD(real_minus_mono_ns) FIELD(records_lost) TEXT(boot_id, 64) FIELD(restart_count)      \
  TEXT(job, 256) FIELD(damaged) FIELD(only_active) FIELD(start_recorded)                    \
  ENUM(time_source, TimeSource::kFrameworkDurations) FIELD(profiler_version)
// clang-format on

template <typename Lines>
void AddLines(const std::vector<std::string>& lines, size_t most, Lines* out) {
  for (size_t i = 0; i < lines.size() && i < kMaxStackLines; ++i) *out->Add() = CleanUtf8(lines[i], most);
}

void Encode(const Process& from, ProcessState* out) {
  LOCKSTEP_ENCODE(LOCKSTEP_PROCESS)
  out->set_life(static_cast<ProcessState::Life>(from.life));
  AddLines(from.stack, 1024, out->mutable_stack());
  AddLines(from.python_stack, 1024, out->mutable_python_stack());
  AddLines(from.stack_later, 1024, out->mutable_stack_later());
  AddLines(from.written_files, 4096, out->mutable_written_files());
  AddLines(from.written_mounts, 512, out->mutable_written_mounts());
  if (from.evidence) *out->mutable_evidence() = *from.evidence;
}

void Decode(const ProcessState& from, Process* out) {
  LOCKSTEP_DECODE(LOCKSTEP_PROCESS)
  out->life = Bounded(static_cast<uint32_t>(from.life()), Life::kGone);
  out->stack.assign(from.stack().begin(), from.stack().end());
  out->python_stack.assign(from.python_stack().begin(), from.python_stack().end());
  out->stack_later.assign(from.stack_later().begin(), from.stack_later().end());
  out->written_files.assign(from.written_files().begin(), from.written_files().end());
  out->written_mounts.assign(from.written_mounts().begin(), from.written_mounts().end());
  if (from.has_evidence()) {
    auto evidence = std::make_shared<ProcessEvidence>(from.evidence());
    BoundEvidence(evidence.get());
    out->evidence = std::move(evidence);
  }
}

void Encode(const ring::ThreadSnapshot& from, Thread* out) {
  LOCKSTEP_ENCODE(LOCKSTEP_THREAD)
  out->set_communicator(static_cast<int32_t>(from.comm));
}

void Decode(const Thread& from, ring::ThreadSnapshot* out) {
  LOCKSTEP_DECODE(LOCKSTEP_THREAD)
  out->comm = static_cast<uint32_t>(from.communicator());
}

void Encode(const ring::GraphSnapshot& from, Graph* out) { LOCKSTEP_ENCODE(LOCKSTEP_GRAPH) }

void Decode(const Graph& from, ring::GraphSnapshot* out) { LOCKSTEP_DECODE(LOCKSTEP_GRAPH) }

void Encode(const ring::StreamSnapshot& from, Stream* out) {
  LOCKSTEP_ENCODE(LOCKSTEP_STREAM)
  if (from.given != UINT64_MAX) out->set_given(static_cast<int64_t>(from.given));
  for (const auto& dependency : from.depends_on) {
    out->add_depends_stream(dependency.stream);
    out->add_depends_ticket(static_cast<int64_t>(dependency.ticket));
    out->add_depends_after(static_cast<int64_t>(dependency.after));  // kAfterUnknown is -1
  }
}

void Decode(const Stream& from, ring::StreamSnapshot* out) {
  LOCKSTEP_DECODE(LOCKSTEP_STREAM)
  out->late_started = std::min(out->late_started, out->started);
  out->late_completed = std::min(out->late_completed, out->completed);
  if (from.has_given()) out->given = static_cast<uint64_t>(std::max<int64_t>(from.given(), 0));
  for (int i = 0; i < from.depends_stream_size() && i < from.depends_ticket_size() && i < 256; ++i) {
    const int64_t after = i < from.depends_after_size() ? from.depends_after(i) : -1;
    out->depends_on.push_back({from.depends_stream(i), static_cast<uint64_t>(from.depends_ticket(i)),
                               after < 0 ? ring::StreamSnapshot::kAfterUnknown : static_cast<uint64_t>(after)});
  }
}

void Encode(const NetworkOp& from, NetworkOperation* out) {
  LOCKSTEP_ENCODE(LOCKSTEP_NETWORK)
  out->set_communicator(from.membership == kNoIndex ? -1 : static_cast<int32_t>(from.membership));
}

// Does not check whether the communicator exists, because its entry may come later.
void Decode(const NetworkOperation& from, NetworkOp* out) {
  LOCKSTEP_DECODE(LOCKSTEP_NETWORK)
  out->membership = from.communicator() < 0 ? kNoIndex : static_cast<uint32_t>(from.communicator());
}

uint64_t Hex(const std::string& id) {
  uint64_t value = 0;
  const bool valid = id.size() == 16 && id.find_first_not_of("0123456789abcdef") == id.npos;
  return valid && absl::SimpleHexAtoi(id, &value) ? value : 0;
}

std::string HexText(uint64_t id) { return id == 0 ? "" : absl::StrFormat("%016x", id); }

void Encode(const CommSnapshot& from, RankCommunicator* out) {
  LOCKSTEP_ENCODE(LOCKSTEP_RECORDED)
  out->set_index(from.index);
  out->set_id(HexText(from.id));
  out->set_parent_id(HexText(from.parent_id));
  out->set_issued(static_cast<int64_t>(from.issued_seq));
  out->set_launched(static_cast<int64_t>(from.launched_seq));
  for (size_t i = 0; i < from.checkpoints.size() && i < kMaxCheckpoints; ++i) {
    out->add_checkpoint_seq(static_cast<int64_t>(from.checkpoints[i].seq));
    out->add_checkpoint_hash(from.checkpoints[i].hash);
  }
  for (size_t i = 0; i < from.peers.size() && i < kMaxPeers; ++i) {
    out->add_peer(from.peers[i].peer);
    out->add_peer_sends(from.peers[i].sends);
    out->add_peer_recvs(from.peers[i].recvs);
    out->add_peer_last_send_ns(from.peers[i].last_send_ns);
    out->add_peer_last_recv_ns(from.peers[i].last_recv_ns);
  }
  const bool one_sided = std::any_of(from.peers.begin(), from.peers.end(), [](const ring::PeerProgress& peer) {
    return peer.signals != 0 || peer.waited != 0;
  });
  for (size_t i = 0; one_sided && i < from.peers.size() && i < kMaxPeers; ++i) {
    out->add_peer_signals(from.peers[i].signals);
    out->add_peer_waited(from.peers[i].waited);
  }
  for (int32_t member : from.excluded) out->add_excluded(member);
}

// `from` is RankCommunicator.recorded, or a whole RankCommunicator that contains everything from the ring.
void Decode(const RankCommunicator& from, CommSnapshot* out) {
  LOCKSTEP_DECODE(LOCKSTEP_RECORDED)
  out->index = from.has_ring_index() ? from.ring_index() : from.index();
  out->id = Hex(from.id());
  out->parent_id = Hex(from.parent_id());
  out->issued_seq = from.issued() == kNone ? 0 : static_cast<uint64_t>(from.issued());
  out->launched_seq = from.launched() == kNone ? 0 : static_cast<uint64_t>(from.launched());
  out->checkpoints.reserve(static_cast<size_t>(std::min(from.checkpoint_seq_size(), from.checkpoint_hash_size())));
  for (int i = 0; i < from.checkpoint_seq_size() && i < from.checkpoint_hash_size(); ++i) {
    const int64_t seq = from.checkpoint_seq(i);
    out->checkpoints.push_back({seq == kNone ? 0 : static_cast<uint64_t>(seq), from.checkpoint_hash(i)});
  }
  out->peers.reserve(static_cast<size_t>(std::min({from.peer_size(), from.peer_sends_size(), from.peer_recvs_size()})));
  for (int i = 0; i < from.peer_size() && i < from.peer_sends_size() && i < from.peer_recvs_size(); ++i) {
    out->peers.push_back({from.peer(i), from.peer_sends(i), from.peer_recvs(i),
                          i < from.peer_last_send_ns_size() ? from.peer_last_send_ns(i) : 0,
                          i < from.peer_last_recv_ns_size() ? from.peer_last_recv_ns(i) : 0,
                          i < from.peer_signals_size() ? from.peer_signals(i) : 0,
                          i < from.peer_waited_size() ? from.peer_waited(i) : 0});
  }
  out->excluded.assign(from.excluded().begin(), from.excluded().end());
}

template <typename Message>
void EncodeFacts(const Communicator& from, Message* out) {
  LOCKSTEP_ENCODE(LOCKSTEP_COMMUNICATOR)
}

template <typename Message>
CommFacts DecodeFacts(const Message& from) {
  CommFacts facts;
  CommFacts* const out = &facts;
  LOCKSTEP_DECODE(LOCKSTEP_COMMUNICATOR)
  return facts;
}

}  // namespace

RankHeader EncodeRank(const Rank& from) {
  RankHeader header;
  RankHeader* const out = &header;
  LOCKSTEP_ENCODE(LOCKSTEP_RANK)
  out->set_world_size(from.world_size);
  out->set_captured_mono_ns(from.captured_ns);
  out->set_stopped_mono_ns(from.stopped_ns);
  out->set_source_kind(static_cast<uint32_t>(from.source));
  out->set_time_uncertainty_ns(from.time_uncertainty_ns);
  out->set_source(CleanUtf8(from.path, 4096));
  out->set_operations(from.ops.size());
  out->set_communicators(static_cast<uint32_t>(from.memberships.size()));
  Encode(from.process, out->mutable_process());
  for (const ring::ThreadSnapshot& thread : from.threads) Encode(thread, out->add_threads());
  for (const ring::StreamSnapshot& stream : from.streams) Encode(stream, out->add_streams());
  for (const ring::GraphSnapshot& graph : from.graphs) Encode(graph, out->add_graphs());
  for (const NetworkOp& op : from.network) Encode(op, out->add_network());
  for (const Replay& replay : from.replays) {
    out->add_replay_graph(replay.graph);
    out->add_replay_number(replay.number);
  }
  return header;
}

Rank DecodeRank(const RankHeader& from) {
  Rank rank;
  Rank* const out = &rank;
  LOCKSTEP_DECODE(LOCKSTEP_RANK)
  out->world_size = from.world_size() > 0 && from.world_size() <= kMaxRanks ? from.world_size() : -1;
  out->captured_ns = from.captured_mono_ns();
  out->stopped_ns = std::max<int64_t>(from.stopped_mono_ns(), 0);
  out->time_uncertainty_ns = std::max<int64_t>(from.time_uncertainty_ns(), 0);
  // The engine treats Flight Recorder data differently, also in a .lsd file.
  const bool framework = Bounded(from.source_kind(), Source::kFlightRecorder) == Source::kFlightRecorder;
  out->source = framework ? Source::kFlightRecorder : Source::kDump;
  Decode(from.process(), &out->process);
  out->threads.reserve(static_cast<size_t>(from.threads_size()));
  out->streams.reserve(static_cast<size_t>(from.streams_size()));
  for (const Thread& thread : from.threads()) Decode(thread, &out->threads.emplace_back());
  for (const Stream& stream : from.streams()) Decode(stream, &out->streams.emplace_back());
  for (const Graph& graph : from.graphs()) Decode(graph, &out->graphs.emplace_back());
  for (const NetworkOperation& op : from.network()) Decode(op, &out->network.emplace_back());
  for (int i = 0; i < from.replay_graph_size() && i < from.replay_number_size(); ++i) {
    out->replays.push_back({from.replay_graph(i), from.replay_number(i)});
  }
  return rank;
}

RankCommunicator EncodeMembership(const Membership& from, const Communicator& comm, int32_t rank, uint32_t index) {
  RankCommunicator recorded;
  Encode(*from.recorded, &recorded);
  RankCommunicator message = recorded;
  RankCommunicator* const out = &message;
  EncodeFacts(comm, out);
  LOCKSTEP_ENCODE(LOCKSTEP_MEMBERSHIP)
  out->set_rank(rank);
  out->set_index(index);
  out->set_issued(from.issued);
  out->set_launched(from.launched);
  out->set_started(from.started);
  out->set_completed(from.completed);
  out->clear_checkpoint_seq();
  out->clear_checkpoint_hash();
  for (size_t i = 0; i < from.checkpoints.size() && i < kMaxCheckpoints; ++i) {
    out->add_checkpoint_seq(from.checkpoints[i].seq);
    out->add_checkpoint_hash(from.checkpoints[i].hash);
  }
  out->clear_peer();
  out->clear_peer_sends();
  out->clear_peer_recvs();
  for (size_t i = 0; i < from.peers.size() && i < kMaxPeers; ++i) {
    out->add_peer(from.peers[i].peer);
    out->add_peer_sends(static_cast<uint64_t>(from.peers[i].sends));
    out->add_peer_recvs(static_cast<uint64_t>(from.peers[i].recvs));
  }
  if (from.ring_index != kNoIndex) out->set_ring_index(from.ring_index);
  CommSnapshot decoded;
  Decode(message, &decoded);
  RankCommunicator again;
  Encode(decoded, &again);
  if (again.SerializeAsString() != recorded.SerializeAsString()) *out->mutable_recorded() = std::move(recorded);
  return message;
}

Membership DecodeMembership(const RankCommunicator& from) {
  Membership membership;
  Membership* const out = &membership;
  LOCKSTEP_DECODE(LOCKSTEP_MEMBERSHIP)
  out->issued = std::max(from.issued(), kUnknown);
  out->launched = std::max(from.launched(), kUnknown);
  out->started = std::max(from.started(), kUnknown);
  out->completed = std::max(from.completed(), kUnknown);
  out->checkpoints.reserve(static_cast<size_t>(std::min(from.checkpoint_seq_size(), from.checkpoint_hash_size())));
  for (int i = 0; i < from.checkpoint_seq_size() && i < from.checkpoint_hash_size(); ++i) {
    out->checkpoints.push_back({from.checkpoint_seq(i), from.checkpoint_hash(i)});
  }
  out->peers.reserve(static_cast<size_t>(std::min({from.peer_size(), from.peer_sends_size(), from.peer_recvs_size()})));
  for (int i = 0; i < from.peer_size() && i < from.peer_sends_size() && i < from.peer_recvs_size(); ++i) {
    out->peers.push_back(
        {from.peer(i), static_cast<int64_t>(from.peer_sends(i)), static_cast<int64_t>(from.peer_recvs(i))});
  }
  out->ring_index = from.has_ring_index() ? from.ring_index() : kNoIndex;
  CommSnapshot recorded;
  Decode(from.has_recorded() ? from.recorded() : from, &recorded);
  out->recorded = std::move(recorded);
  return membership;
}

CommunicatorInfo EncodeComm(const Communicator& from) {
  CommunicatorInfo message;
  EncodeFacts(from, &message);
  message.set_members_inferred(from.members_inferred);
  for (size_t i = 0; i < from.members.size();) {
    if (from.members[i] < 0) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    int32_t stride = 0;
    if (end < from.members.size() && from.members[end] >= 0) {
      stride = from.members[end] - from.members[i];
      while (end < from.members.size() && from.members[end] >= 0 && from.members[end] - from.members[end - 1] == stride)
        ++end;
    }
    MemberRun* run = message.add_members();
    run->set_first_member(static_cast<uint32_t>(i));
    run->set_first_rank(from.members[i]);
    run->set_stride(stride);
    run->set_count(static_cast<uint32_t>(end - i));
    i = end;
  }
  return message;
}

CommFacts FactsOf(const RankCommunicator& message) { return DecodeFacts(message); }

CommFacts FactsOf(const CommunicatorInfo& message) {
  CommFacts facts = DecodeFacts(message);
  facts.members_inferred = message.members_inferred();
  return facts;
}

std::vector<MemberSpan> MembersOf(const CommunicatorInfo& message) {
  std::vector<MemberSpan> members;
  members.reserve(static_cast<size_t>(message.members_size()));
  for (const MemberRun& run : message.members()) {
    members.push_back({run.first_member(), run.first_rank(), run.stride(), run.count()});
  }
  return members;
}

}  // namespace lockstep
