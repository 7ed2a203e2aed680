#include "analyzer/formats/lsd/convert.h"

#include <algorithm>
#include <memory>
#include <utility>

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

void EncodeProcess(const Process& process, ProcessState* out) {
  out->set_life(static_cast<ProcessState::Life>(process.life));
  out->set_exit_code(process.exit_code);
  out->set_signal(process.signal);
  out->set_state(CleanUtf8(process.state, 8));
  out->set_ended_mono_ns(process.ended_mono_ns);
  out->set_cpu_ns_between_samples(process.cpu_ns_between_samples);
  out->set_io_bytes_between_samples(process.io_bytes_between_samples);
  out->set_sample_gap_ns(process.sample_gap_ns);
  out->set_wchan(CleanUtf8(process.wchan, 256));
  for (size_t i = 0; i < process.stack.size() && i < kMaxStackLines; ++i)
    out->add_stack(CleanUtf8(process.stack[i], 1024));
  out->set_stack_refused(CleanUtf8(process.stack_refused, 1024));
  out->set_consequence(process.consequence);
  for (size_t i = 0; i < process.python_stack.size() && i < kMaxStackLines; ++i)
    out->add_python_stack(CleanUtf8(process.python_stack[i], 1024));
  for (size_t i = 0; i < process.stack_later.size() && i < kMaxStackLines; ++i)
    out->add_stack_later(CleanUtf8(process.stack_later[i], 1024));
  for (size_t i = 0; i < process.written_files.size() && i < kMaxStackLines; ++i)
    out->add_written_files(CleanUtf8(process.written_files[i], 4096));
  out->set_threads_in_d(process.threads_in_d);
  if (process.evidence) *out->mutable_evidence() = *process.evidence;
}

Process DecodeProcess(const ProcessState& message) {
  Process process;
  process.life = Bounded(static_cast<uint32_t>(message.life()), Life::kGone);
  process.exit_code = message.exit_code();
  process.signal = message.signal();
  process.state = message.state();
  process.ended_mono_ns = message.ended_mono_ns();
  process.cpu_ns_between_samples = message.cpu_ns_between_samples();
  process.io_bytes_between_samples = message.io_bytes_between_samples();
  process.sample_gap_ns = message.sample_gap_ns();
  process.wchan = message.wchan();
  process.stack.assign(message.stack().begin(), message.stack().end());
  process.stack_refused = message.stack_refused();
  process.consequence = message.consequence();
  process.python_stack.assign(message.python_stack().begin(), message.python_stack().end());
  process.stack_later.assign(message.stack_later().begin(), message.stack_later().end());
  process.written_files.assign(message.written_files().begin(), message.written_files().end());
  process.threads_in_d = message.threads_in_d();
  if (message.has_evidence()) {
    auto evidence = std::make_shared<ProcessEvidence>(message.evidence());
    BoundEvidence(evidence.get());
    process.evidence = std::move(evidence);
  }
  return process;
}

void EncodeThread(const ring::ThreadSnapshot& thread, Thread* out) {
  out->set_index(thread.index);
  out->set_tid(thread.tid);
  out->set_name(CleanUtf8(thread.name, 64));
  out->set_call(static_cast<uint32_t>(thread.call));
  out->set_communicator(static_cast<int32_t>(thread.comm));
  out->set_seq(static_cast<int64_t>(thread.seq));
  out->set_since_ns(thread.since_ns);
  out->set_group_depth(thread.group_depth);
  out->set_group_since_ns(thread.group_since_ns);
  out->set_wait(static_cast<uint32_t>(thread.wait));
  out->set_wait_stream(static_cast<int32_t>(thread.wait_stream));
  out->set_wait_ticket(static_cast<int64_t>(thread.wait_ticket));
  out->set_wait_since_ns(thread.wait_since_ns);
  out->set_last_call_ns(thread.last_call_ns);
  out->set_calls(thread.calls);
  out->set_overwritten(thread.overwritten);
  out->set_waits_elsewhere(thread.waits_elsewhere);
}

ring::ThreadSnapshot DecodeThread(const Thread& message) {
  ring::ThreadSnapshot thread;
  thread.index = message.index();
  thread.tid = message.tid();
  thread.name = message.name();
  thread.call = static_cast<CallKind>(message.call());
  thread.comm = static_cast<uint32_t>(message.communicator());
  thread.seq = static_cast<uint64_t>(message.seq());
  thread.since_ns = message.since_ns();
  thread.group_depth = message.group_depth();
  thread.group_since_ns = message.group_since_ns();
  thread.wait = static_cast<CallKind>(message.wait());
  thread.wait_stream = static_cast<uint32_t>(message.wait_stream());
  thread.wait_ticket = static_cast<uint64_t>(message.wait_ticket());
  thread.wait_since_ns = message.wait_since_ns();
  thread.last_call_ns = message.last_call_ns();
  thread.calls = message.calls();
  thread.overwritten = message.overwritten();
  thread.waits_elsewhere = message.waits_elsewhere();
  return thread;
}

void EncodeGraph(const ring::GraphSnapshot& graph, Graph* out) {
  out->set_index(graph.index);
  out->set_id(graph.id);
  out->set_state(static_cast<uint32_t>(graph.state));
  out->set_exec(graph.exec);
  out->set_operations(graph.operations);
  out->set_operations_lost(graph.operations_lost);
  out->set_launches(graph.launches);
  out->set_completed(graph.completed);
  out->set_stream(static_cast<int32_t>(graph.stream));
  out->set_ticket(graph.ticket);
  out->set_captured_ns(graph.captured_ns);
  out->set_last_launch_ns(graph.last_launch_ns);
  out->set_ended_ns(graph.ended_ns);
}

ring::GraphSnapshot DecodeGraph(const Graph& graph) {
  ring::GraphSnapshot out;
  out.index = graph.index();
  out.id = graph.id();
  out.state = Bounded(graph.state(), ring::GraphState::kSpoilt);
  out.exec = graph.exec();
  out.operations = graph.operations();
  out.operations_lost = graph.operations_lost();
  out.launches = graph.launches();
  out.completed = graph.completed();
  out.stream = static_cast<uint32_t>(graph.stream());
  out.ticket = graph.ticket();
  out.captured_ns = graph.captured_ns();
  out.last_launch_ns = graph.last_launch_ns();
  out.ended_ns = graph.ended_ns();
  return out;
}

void EncodeStream(const ring::StreamSnapshot& stream, Stream* out) {
  out->set_index(stream.index);
  out->set_handle(stream.handle);
  out->set_device(stream.device);
  out->set_marked(stream.marked);
  out->set_issued(static_cast<int64_t>(stream.issued));
  out->set_started(static_cast<int64_t>(stream.started));
  out->set_completed(static_cast<int64_t>(stream.completed));
  out->set_first_error(stream.first_error);
  out->set_late_started(static_cast<int64_t>(stream.late_started));
  out->set_late_completed(static_cast<int64_t>(stream.late_completed));
  if (stream.given != UINT64_MAX) out->set_given(static_cast<int64_t>(stream.given));
  out->set_timed_every(stream.timed_every);
  out->set_starts_marked(stream.starts_marked);
  for (const auto& dependency : stream.depends_on) {
    out->add_depends_stream(dependency.stream);
    out->add_depends_ticket(static_cast<int64_t>(dependency.ticket));
    out->add_depends_after(static_cast<int64_t>(dependency.after));  // kAfterUnknown is -1
  }
}

ring::StreamSnapshot DecodeStream(const Stream& message) {
  ring::StreamSnapshot stream;
  stream.index = message.index();
  stream.handle = message.handle();
  stream.device = message.device();
  stream.marked = message.marked();
  stream.issued = static_cast<uint64_t>(message.issued());
  stream.started = static_cast<uint64_t>(message.started());
  stream.completed = static_cast<uint64_t>(message.completed());
  stream.first_error = message.first_error();
  stream.late_started = std::min(static_cast<uint64_t>(message.late_started()), stream.started);
  stream.late_completed = std::min(static_cast<uint64_t>(message.late_completed()), stream.completed);
  if (message.has_given()) stream.given = static_cast<uint64_t>(std::max<int64_t>(message.given(), 0));
  stream.timed_every = message.timed_every();
  stream.starts_marked = message.starts_marked();
  for (int i = 0; i < message.depends_stream_size() && i < message.depends_ticket_size() && i < 256; ++i) {
    const int64_t after = i < message.depends_after_size() ? message.depends_after(i) : -1;
    stream.depends_on.push_back({message.depends_stream(i), static_cast<uint64_t>(message.depends_ticket(i)),
                                 after < 0 ? ring::StreamSnapshot::kAfterUnknown : static_cast<uint64_t>(after)});
  }
  return stream;
}

uint64_t Hex(const std::string& id) {
  uint64_t value = 0;
  if (id.size() != 16) return 0;
  for (char c : id) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return 0;
    value = value << 4 | static_cast<uint64_t>(digit);
  }
  return value;
}

std::string HexText(uint64_t id) {
  if (id == 0) return "";
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, id >>= 4) text[static_cast<size_t>(i)] = "0123456789abcdef"[id & 15];
  return text;
}

RankCommunicator EncodeRecorded(const CommSnapshot& comm) {
  RankCommunicator out;
  out.set_index(comm.index);
  out.set_id(HexText(comm.id));
  out.set_name(CleanUtf8(comm.name, 1024));
  out.set_member_rank(comm.member_rank);
  out.set_size(comm.size);
  out.set_parent_id(HexText(comm.parent_id));
  out.set_ordinal(comm.ordinal);
  out.set_color(comm.color);
  out.set_key(comm.key);
  out.set_origin(static_cast<uint32_t>(comm.origin));
  out.set_state(static_cast<uint32_t>(comm.state));
  out.set_generation(comm.generation);
  out.set_device(comm.device);
  out.set_created_ns(comm.created_ns);
  out.set_ready_ns(comm.ready_ns);
  out.set_ended_ns(comm.ended_ns);
  out.set_issued(static_cast<int64_t>(comm.issued_seq));
  out.set_issued_ns(comm.issued_ns);
  out.set_launched(static_cast<int64_t>(comm.launched_seq));
  out.set_signature_hash(comm.signature_hash);
  for (size_t i = 0; i < comm.checkpoints.size() && i < kMaxCheckpoints; ++i) {
    out.add_checkpoint_seq(static_cast<int64_t>(comm.checkpoints[i].seq));
    out.add_checkpoint_hash(comm.checkpoints[i].hash);
  }
  for (size_t i = 0; i < comm.peers.size() && i < kMaxPeers; ++i) {
    out.add_peer(comm.peers[i].peer);
    out.add_peer_sends(comm.peers[i].sends);
    out.add_peer_recvs(comm.peers[i].recvs);
    out.add_peer_last_send_ns(comm.peers[i].last_send_ns);
    out.add_peer_last_recv_ns(comm.peers[i].last_recv_ns);
  }
  const bool one_sided = std::any_of(comm.peers.begin(), comm.peers.end(), [](const ring::PeerProgress& peer) {
    return peer.signals != 0 || peer.waited != 0;
  });
  for (size_t i = 0; one_sided && i < comm.peers.size() && i < kMaxPeers; ++i) {
    out.add_peer_signals(comm.peers[i].signals);
    out.add_peer_waited(comm.peers[i].waited);
  }
  out.set_peers_lost(comm.peers_lost);
  out.set_lost_records(comm.lost_records);
  out.set_async_error(comm.async_error);
  out.set_async_error_ns(comm.async_error_ns);
  for (int32_t member : comm.excluded) out.add_excluded(member);
  out.set_excluded_total(comm.excluded_total);
  out.set_blocking(comm.blocking);
  return out;
}

// Also used on a whole RankCommunicator, to check whether it already contains everything of the ring.
CommSnapshot DecodeRecorded(const RankCommunicator& message) {
  CommSnapshot comm;
  comm.index = message.has_ring_index() ? message.ring_index() : message.index();
  comm.id = Hex(message.id());
  comm.name = message.name();
  comm.member_rank = message.member_rank();
  comm.size = message.size();
  comm.parent_id = Hex(message.parent_id());
  comm.ordinal = message.ordinal();
  comm.color = message.color();
  comm.key = message.key();
  comm.origin = static_cast<CallKind>(message.origin());
  comm.state = Bounded(message.state(), ring::CommState::kNotMember);
  comm.generation = message.generation();
  comm.device = message.device();
  comm.created_ns = message.created_ns();
  comm.ready_ns = message.ready_ns();
  comm.ended_ns = message.ended_ns();
  comm.issued_seq = message.issued() == kNone ? 0 : static_cast<uint64_t>(message.issued());
  comm.issued_ns = message.issued_ns();
  comm.launched_seq = message.launched() == kNone ? 0 : static_cast<uint64_t>(message.launched());
  comm.signature_hash = message.signature_hash();
  comm.checkpoints.reserve(
      static_cast<size_t>(std::min(message.checkpoint_seq_size(), message.checkpoint_hash_size())));
  for (int i = 0; i < message.checkpoint_seq_size() && i < message.checkpoint_hash_size(); ++i) {
    const int64_t seq = message.checkpoint_seq(i);
    comm.checkpoints.push_back({seq == kNone ? 0 : static_cast<uint64_t>(seq), message.checkpoint_hash(i)});
  }
  comm.peers.reserve(
      static_cast<size_t>(std::min({message.peer_size(), message.peer_sends_size(), message.peer_recvs_size()})));
  for (int i = 0; i < message.peer_size() && i < message.peer_sends_size() && i < message.peer_recvs_size(); ++i) {
    comm.peers.push_back({message.peer(i), message.peer_sends(i), message.peer_recvs(i),
                          i < message.peer_last_send_ns_size() ? message.peer_last_send_ns(i) : 0,
                          i < message.peer_last_recv_ns_size() ? message.peer_last_recv_ns(i) : 0,
                          i < message.peer_signals_size() ? message.peer_signals(i) : 0,
                          i < message.peer_waited_size() ? message.peer_waited(i) : 0});
  }
  comm.peers_lost = message.peers_lost();
  comm.lost_records = message.lost_records();
  comm.async_error = message.async_error();
  comm.async_error_ns = message.async_error_ns();
  comm.excluded.assign(message.excluded().begin(), message.excluded().end());
  comm.excluded_total = message.excluded_total();
  comm.blocking = message.blocking();
  return comm;
}

}  // namespace

namespace {

void EncodeNetwork(const NetworkOp& op, NetworkOperation* out) {
  out->set_communicator(op.membership == kNoIndex ? -1 : static_cast<int32_t>(op.membership));
  out->set_kind(static_cast<uint32_t>(op.kind));
  out->set_seq(op.seq);
  out->set_peer(op.peer);
  out->set_channel(op.channel);
  out->set_send(op.send);
  out->set_steps(op.steps);
  out->set_done(op.done);
  out->set_step(op.step);
  out->set_state(static_cast<uint32_t>(op.state));
  out->set_since_ns(op.since_ns);
}

// Their reader checks whether the communicator exists: it may come later.
NetworkOp DecodeNetwork(const NetworkOperation& message) {
  NetworkOp op;
  op.membership = message.communicator() < 0 ? kNoIndex : static_cast<uint32_t>(message.communicator());
  op.kind = static_cast<CallKind>(message.kind());
  op.seq = message.seq();
  op.peer = message.peer();
  op.channel = message.channel();
  op.send = message.send();
  op.steps = message.steps();
  op.done = message.done();
  op.step = message.step();
  op.state = Bounded(message.state(), ring::ProxyState::kRecvGpuWait);
  op.since_ns = message.since_ns();
  return op;
}

}  // namespace

RankHeader EncodeRank(const Rank& rank) {
  RankHeader out;
  out.set_rank(rank.rank);
  out.set_world_size(rank.world_size);
  out.set_local_rank(rank.local_rank);
  out.set_host(CleanUtf8(rank.host, 256));
  out.set_pid(rank.pid);
  out.set_gpu_index(rank.gpu_index);
  out.set_gpu_uuid(CleanUtf8(rank.gpu_uuid, 64));
  out.set_gpu_pci(CleanUtf8(rank.gpu_pci, 64));
  out.set_nccl_version(rank.nccl_version);
  out.set_newest_nccl(rank.newest_nccl);
  out.set_unwrapped(rank.unwrapped);
  out.set_unwrapped_names(CleanUtf8(rank.unwrapped_names, 512));
  out.set_cuda_version(rank.cuda_version);
  out.set_recorder_state(static_cast<uint32_t>(rank.recorder_state));
  out.set_stop_reason(CleanUtf8(rank.stop_reason, 1024));
  out.set_gpu_marks(static_cast<uint32_t>(rank.gpu_marks));
  out.set_host_waits(rank.host_waits);
  out.set_ring_bytes(rank.ring_bytes);
  out.set_wanted_ring_bytes(rank.wanted_ring_bytes);
  out.set_ring_place(static_cast<uint32_t>(rank.ring_place));
  out.set_captured_mono_ns(rank.captured_ns);
  out.set_real_minus_mono_ns(rank.real_minus_mono_ns);
  EncodeProcess(rank.process, out.mutable_process());
  for (const ring::ThreadSnapshot& thread : rank.threads) EncodeThread(thread, out.add_threads());
  for (const ring::StreamSnapshot& stream : rank.streams) EncodeStream(stream, out.add_streams());
  for (const ring::GraphSnapshot& graph : rank.graphs) EncodeGraph(graph, out.add_graphs());
  for (const Replay& replay : rank.replays) {
    out.add_replay_graph(replay.graph);
    out.add_replay_number(replay.number);
  }
  out.set_source(CleanUtf8(rank.path, 4096));
  out.set_records_lost(rank.records_lost);
  out.set_boot_id(CleanUtf8(rank.boot_id, 64));
  out.set_restart_count(rank.restart_count);
  out.set_job(CleanUtf8(rank.job, 256));
  out.set_operations(rank.ops.size());
  out.set_communicators(static_cast<uint32_t>(rank.memberships.size()));
  out.set_source_kind(static_cast<uint32_t>(rank.source));
  out.set_damaged(rank.damaged);
  out.set_only_active(rank.only_active);
  out.set_start_recorded(rank.start_recorded);
  out.set_time_source(static_cast<uint32_t>(rank.time_source));
  out.set_time_uncertainty_ns(rank.time_uncertainty_ns);
  out.set_stopped_mono_ns(rank.stopped_ns);
  out.set_profiler_version(rank.profiler_version);
  for (const NetworkOp& op : rank.network) EncodeNetwork(op, out.add_network());
  return out;
}

Rank DecodeRank(const RankHeader& header) {
  Rank rank;
  rank.rank = header.rank();
  rank.world_size = header.world_size() > 0 && header.world_size() <= kMaxRanks ? header.world_size() : -1;
  rank.local_rank = header.local_rank();
  rank.host = header.host();
  rank.pid = header.pid();
  rank.gpu_index = header.gpu_index();
  rank.gpu_uuid = header.gpu_uuid();
  rank.gpu_pci = header.gpu_pci();
  rank.nccl_version = header.nccl_version();
  rank.newest_nccl = header.newest_nccl();
  rank.unwrapped = header.unwrapped();
  rank.unwrapped_names = header.unwrapped_names();
  rank.cuda_version = header.cuda_version();
  rank.recorder_state = Bounded(header.recorder_state(), ring::RecorderState::kReplaced);
  rank.stop_reason = header.stop_reason();
  rank.gpu_marks = Bounded(header.gpu_marks(), ring::GpuMarks::kProfiler);
  rank.host_waits = header.host_waits();
  rank.ring_bytes = header.ring_bytes();
  rank.wanted_ring_bytes = header.wanted_ring_bytes();
  rank.ring_place = Bounded(header.ring_place(), ring::RingPlace::kMemory);
  rank.captured_ns = header.captured_mono_ns();
  rank.real_minus_mono_ns = header.real_minus_mono_ns();
  rank.process = DecodeProcess(header.process());
  rank.threads.reserve(static_cast<size_t>(header.threads_size()));
  rank.streams.reserve(static_cast<size_t>(header.streams_size()));
  for (const Thread& thread : header.threads()) rank.threads.push_back(DecodeThread(thread));
  for (const Stream& stream : header.streams()) rank.streams.push_back(DecodeStream(stream));
  for (const Graph& graph : header.graphs()) rank.graphs.push_back(DecodeGraph(graph));
  for (int i = 0; i < header.replay_graph_size() && i < header.replay_number_size(); ++i) {
    rank.replays.push_back({header.replay_graph(i), header.replay_number(i)});
  }
  rank.records_lost = header.records_lost();
  rank.boot_id = header.boot_id();
  rank.restart_count = header.restart_count();
  rank.job = header.job();
  // The engine has other rules for Flight Recorder data, in any container.
  rank.source = Bounded(header.source_kind(), Source::kFlightRecorder) == Source::kFlightRecorder
                    ? Source::kFlightRecorder
                    : Source::kDump;
  rank.damaged = header.damaged();
  rank.only_active = header.only_active();
  rank.start_recorded = header.start_recorded();
  rank.time_source = Bounded(header.time_source(), TimeSource::kFrameworkDurations);
  rank.time_uncertainty_ns = std::max<int64_t>(header.time_uncertainty_ns(), 0);
  rank.stopped_ns = std::max<int64_t>(header.stopped_mono_ns(), 0);
  rank.profiler_version = header.profiler_version();
  for (const NetworkOperation& op : header.network()) rank.network.push_back(DecodeNetwork(op));
  return rank;
}

RankCommunicator EncodeMembership(const Membership& m, const Communicator& comm, int32_t rank, uint32_t index) {
  const RankCommunicator recorded = EncodeRecorded(*m.recorded);
  RankCommunicator out = recorded;
  out.set_rank(rank);
  out.set_index(index);
  out.set_id(CleanUtf8(comm.id, 1024));
  out.set_name(CleanUtf8(comm.name, 1024));
  out.set_size(comm.size);
  out.set_parent_id(CleanUtf8(comm.parent_id, 1024));
  out.set_ordinal(comm.ordinal);
  out.set_member_rank(m.member_rank);
  out.set_state(static_cast<uint32_t>(m.state));
  out.set_issued(m.issued);
  out.set_launched(m.launched);
  out.set_started(m.started);
  out.set_completed(m.completed);
  out.set_first_seq(m.first_seq);
  out.set_issued_ns(m.issued_ns);
  out.set_created_ns(m.created_ns);
  out.set_ready_ns(m.ready_ns);
  out.set_ended_ns(m.ended_ns);
  out.set_origin(static_cast<uint32_t>(m.origin));
  out.set_signature_hash(m.signature_hash);
  out.clear_checkpoint_seq();
  out.clear_checkpoint_hash();
  for (size_t i = 0; i < m.checkpoints.size() && i < kMaxCheckpoints; ++i) {
    out.add_checkpoint_seq(m.checkpoints[i].seq);
    out.add_checkpoint_hash(m.checkpoints[i].hash);
  }
  out.clear_peer();
  out.clear_peer_sends();
  out.clear_peer_recvs();
  for (size_t i = 0; i < m.peers.size() && i < kMaxPeers; ++i) {
    out.add_peer(m.peers[i].peer);
    out.add_peer_sends(static_cast<uint64_t>(m.peers[i].sends));
    out.add_peer_recvs(static_cast<uint64_t>(m.peers[i].recvs));
  }
  out.set_lost_records(static_cast<uint64_t>(m.lost_records));
  out.set_async_error(m.async_error);
  out.set_color(m.color);
  out.set_key(m.key);
  out.set_local_name(CleanUtf8(m.local_name, 1024));
  if (m.ring_index != kNoIndex) out.set_ring_index(m.ring_index);
  const std::string want = recorded.SerializeAsString();
  if (EncodeRecorded(DecodeRecorded(out)).SerializeAsString() != want) *out.mutable_recorded() = recorded;
  return out;
}

Membership DecodeMembership(const RankCommunicator& message) {
  Membership m;
  m.member_rank = message.member_rank();
  m.state = Bounded(message.state(), ring::CommState::kNotMember);
  m.issued = std::max(message.issued(), kUnknown);
  m.launched = std::max(message.launched(), kUnknown);
  m.started = std::max(message.started(), kUnknown);
  m.completed = std::max(message.completed(), kUnknown);
  m.first_seq = message.first_seq();
  m.issued_ns = message.issued_ns();
  m.created_ns = message.created_ns();
  m.ready_ns = message.ready_ns();
  m.ended_ns = message.ended_ns();
  m.origin = static_cast<CallKind>(message.origin());
  m.signature_hash = message.signature_hash();
  m.checkpoints.reserve(static_cast<size_t>(std::min(message.checkpoint_seq_size(), message.checkpoint_hash_size())));
  for (int i = 0; i < message.checkpoint_seq_size() && i < message.checkpoint_hash_size(); ++i) {
    m.checkpoints.push_back({message.checkpoint_seq(i), message.checkpoint_hash(i)});
  }
  m.peers.reserve(
      static_cast<size_t>(std::min({message.peer_size(), message.peer_sends_size(), message.peer_recvs_size()})));
  for (int i = 0; i < message.peer_size() && i < message.peer_sends_size() && i < message.peer_recvs_size(); ++i) {
    m.peers.push_back(
        {message.peer(i), static_cast<int64_t>(message.peer_sends(i)), static_cast<int64_t>(message.peer_recvs(i))});
  }
  m.lost_records = static_cast<int64_t>(message.lost_records());
  m.async_error = message.async_error();
  m.color = message.color();
  m.key = message.key();
  m.ring_index = message.has_ring_index() ? message.ring_index() : kNoIndex;
  m.local_name = message.local_name();
  m.recorded = DecodeRecorded(message.has_recorded() ? message.recorded() : message);
  return m;
}

CommFacts FactsOf(const RankCommunicator& message) {
  CommFacts facts;
  facts.id = message.id();
  facts.name = message.name();
  facts.size = message.size();
  facts.parent_id = message.parent_id();
  facts.ordinal = message.ordinal();
  facts.color = message.color();
  facts.origin = static_cast<CallKind>(message.origin());
  return facts;
}

CommunicatorInfo EncodeComm(const Communicator& comm) {
  CommunicatorInfo out;
  out.set_id(CleanUtf8(comm.id, 1024));
  out.set_name(CleanUtf8(comm.name, 1024));
  out.set_size(comm.size);
  out.set_members_inferred(comm.members_inferred);
  out.set_parent_id(CleanUtf8(comm.parent_id, 1024));
  out.set_ordinal(comm.ordinal);
  out.set_color(comm.color);
  out.set_origin(static_cast<uint32_t>(comm.origin));
  for (size_t i = 0; i < comm.members.size();) {
    if (comm.members[i] < 0) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    int32_t stride = 0;
    if (end < comm.members.size() && comm.members[end] >= 0) {
      stride = comm.members[end] - comm.members[i];
      while (end < comm.members.size() && comm.members[end] >= 0 && comm.members[end] - comm.members[end - 1] == stride)
        ++end;
    }
    MemberRun* run = out.add_members();
    run->set_first_member(static_cast<uint32_t>(i));
    run->set_first_rank(comm.members[i]);
    run->set_stride(stride);
    run->set_count(static_cast<uint32_t>(end - i));
    i = end;
  }
  return out;
}

CommFacts FactsOf(const CommunicatorInfo& message) {
  CommFacts facts;
  facts.id = message.id();
  facts.name = message.name();
  facts.size = message.size();
  facts.parent_id = message.parent_id();
  facts.ordinal = message.ordinal();
  facts.color = message.color();
  facts.origin = static_cast<CallKind>(message.origin());
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
