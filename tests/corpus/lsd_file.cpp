// The .lsd writer, based only on docs/dump-file.md.
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "proto/dump.pb.h"
#include "recorder/ring/snapshot.h"
#include "tests/corpus/dump.h"
#include "tests/corpus/program.h"

namespace lockstep::corpus {
namespace {

constexpr uint32_t kCallerObject = 0x5ca1ab1e;
constexpr uint64_t kCallerBase = 0x1c4000;

uint32_t Castagnoli(const std::string& bytes) {
  static const auto kTable = [] {
    std::array<std::array<uint32_t, 256>, 8> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t v = i;
      for (int bit = 0; bit < 8; ++bit) v = v & 1 ? v >> 1 ^ 0x82f63b78u : v >> 1;
      t[0][i] = v;
    }
    for (size_t k = 1; k < 8; ++k) {
      for (size_t i = 0; i < 256; ++i) t[k][i] = t[k - 1][i] >> 8 ^ t[0][t[k - 1][i] & 0xff];
    }
    return t;
  }();
  uint32_t crc = 0xffffffffu;
  size_t i = 0;
  auto byte = [&](size_t k) { return static_cast<uint32_t>(static_cast<uint8_t>(bytes[k])); };
  for (; i + 8 <= bytes.size(); i += 8) {
    const uint32_t low = crc ^ (byte(i) | byte(i + 1) << 8 | byte(i + 2) << 16 | byte(i + 3) << 24);
    crc = kTable[7][low & 0xff] ^ kTable[6][low >> 8 & 0xff] ^ kTable[5][low >> 16 & 0xff] ^ kTable[4][low >> 24] ^
          kTable[3][byte(i + 4)] ^ kTable[2][byte(i + 5)] ^ kTable[1][byte(i + 6)] ^ kTable[0][byte(i + 7)];
  }
  for (; i < bytes.size(); ++i) crc = crc >> 8 ^ kTable[0][(crc ^ byte(i)) & 0xff];
  return ~crc;
}

std::string Hex16(uint64_t id) {
  char text[24];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(id));
  return text;
}

class LsdFile {
 public:
  LsdFile(const Simulator& run, const DumpOptions& options)
      : run_(run), job_(run.job()), options_(options), zstd_(ZSTD_createCCtx()) {
    ZSTD_CCtx_setParameter(zstd_, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(zstd_, ZSTD_c_compressionLevel, 1);
  }
  ~LsdFile() { ZSTD_freeCCtx(zstd_); }
  LsdFile(const LsdFile&) = delete;
  LsdFile& operator=(const LsdFile&) = delete;

  std::string Node(int32_t host, std::vector<int32_t> ranks) {
    host_ = &job_.hosts[static_cast<size_t>(host)];
    out_ = "LSDUMP1\n";
    other_run_ = std::any_of(ranks.begin(), ranks.end(), [&](int32_t r) { return options_.other_run.count(r) > 0; });
    Random order(Mix(job_.seed, 4000 + static_cast<uint64_t>(host)));
    if (options_.shuffle) Shuffle(&ranks, &order);
    DumpRecord record;
    DumpHeader& header = *record.mutable_header();
    header.set_format_version(1);
    header.set_min_reader_version(1);
    header.set_tool_version("0.1.0");
    header.set_host(host_->name);
    header.set_boot_id(host_->boot_id);
    header.set_job(job_.name);
    header.set_restart_count(Restart());
    header.set_captured_real_ns(host_->Real(options_.capture.at));
    header.set_ranks_expected(job_.ranks);
    if (options_.places) {
      header.set_rack(host_->rack);
      header.set_leaf_switch(host_->leaf_switch);
    }
    Append(record);
    std::vector<RankView> views;
    for (int32_t r : ranks) views.push_back(Capture(run_, options_.capture, r));
    std::set<int32_t> comms;
    for (const RankView& view : views) {
      for (const CommView& c : view.comms) comms.insert(c.comm);
    }
    std::vector<int32_t> listed(comms.begin(), comms.end());
    if (options_.shuffle) Shuffle(&listed, &order);
    for (int32_t c : listed) Info(job_.comms[static_cast<size_t>(c)]);
    uint64_t operations = 0;
    for (RankView& view : views) {
      operations += view.ops.size();
      OneRank(&view, &order);
    }
    DumpRecord end;
    end.mutable_end()->set_ranks(static_cast<uint32_t>(views.size()));
    end.mutable_end()->set_records(operations);
    Append(end);
    return std::move(out_);
  }

 private:
  template <typename T>
  static void Shuffle(std::vector<T>* list, Random* random) {
    for (size_t i = list->size(); i > 1; --i)
      std::swap((*list)[i - 1], (*list)[static_cast<size_t>(random->Below(static_cast<int64_t>(i)))]);
  }
  uint32_t Restart() const { return job_.restart_count - (other_run_ ? 1 : 0); }
  int64_t Mono(int64_t t) const { return t == 0 || t == kNever ? 0 : host_->Mono(t); }

  void Append(const DumpRecord& record) {
    std::string bytes = record.SerializeAsString();
    const uint32_t crc = Castagnoli(bytes);
    bytes += '\x7d';
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(crc >> shift);
    size_t length = bytes.size();
    while (length >= 128) {
      out_ += static_cast<char>(length | 128);
      length >>= 7;
    }
    out_ += static_cast<char>(length);
    out_ += bytes;
  }

  void Info(const Comm& comm) {
    DumpRecord record;
    CommunicatorInfo& info = *record.mutable_communicator_info();
    info.set_id(Hex16(comm.id));
    info.set_name(comm.name);
    info.set_size(static_cast<int32_t>(comm.members.size()));
    const std::vector<int32_t>& m = comm.members;
    for (size_t i = 0; i < m.size();) {
      const int32_t stride = i + 1 < m.size() ? m[i + 1] - m[i] : 0;
      size_t end = i + 1;
      while (end < m.size() && m[end] - m[end - 1] == stride) ++end;
      MemberRun* run = info.add_members();
      run->set_first_member(static_cast<uint32_t>(i));
      run->set_first_rank(m[i]);
      run->set_stride(stride);
      run->set_count(static_cast<uint32_t>(end - i));
      i = end;
    }
    if (comm.parent_id != 0) info.set_parent_id(Hex16(comm.parent_id));
    info.set_ordinal(comm.ordinal);
    info.set_color(comm.color);
    info.set_origin(static_cast<uint32_t>(comm.origin));
    Append(record);
  }

  void OneRank(RankView* view, Random* order) {
    const Marks marks = options_.capture.marks;
    const int32_t r = view->rank;
    if (options_.shuffle) Shuffle(&view->ops, order);
    DumpRecord record;
    RankHeader& h = *record.mutable_rank();
    h.set_rank(r);
    h.set_world_size(job_.ranks);
    h.set_local_rank(r % job_.gpus_per_host);
    h.set_host(host_->name);
    h.set_pid(PidOf(job_, r));
    h.set_gpu_index(r % job_.gpus_per_host);
    h.set_gpu_uuid("GPU-" + Hex16(Mix(job_.seed, static_cast<uint64_t>(r))));
    char pci[24];
    std::snprintf(pci, sizeof(pci), "0000:%02x:00.0", 0x18 + 0x11 * (r % job_.gpus_per_host));
    h.set_gpu_pci(pci);
    h.set_nccl_version(22703);
    h.set_cuda_version(12090);
    h.set_recorder_state(static_cast<uint32_t>(view->status == HostStatus::kExited ? ring::RecorderState::kCleanExit
                                                                                   : ring::RecorderState::kRecording));
    h.set_gpu_marks(marks == Marks::kOff ? 0 : marks == Marks::kDone ? 1 : 2);
    h.set_host_waits(true);
    h.set_captured_mono_ns(Mono(view->captured));
    // The clock offset at the ring's creation. A later step of the wall clock does not change it.
    h.set_real_minus_mono_ns(host_->real_offset - host_->mono_offset);
    h.set_boot_id(host_->boot_id);
    h.set_restart_count(Restart());
    h.set_job(job_.name);
    h.set_operations(view->ops.size());
    h.set_communicators(static_cast<uint32_t>(view->comms.size()));
    h.set_start_recorded(marks == Marks::kFull || marks == Marks::kTimed);
    Process(*view, h.mutable_process());
    for (size_t t = 0; t < view->threads.size(); ++t) ThreadOut(*view, t, h.add_threads());
    for (size_t s = 0; s < view->streams.size(); ++s) StreamOut(*view, s, h.add_streams());
    if (view->graph.operations > 0) GraphOut(*view, &h);
    Append(record);
    std::vector<size_t> comm_order(view->comms.size());
    for (size_t i = 0; i < comm_order.size(); ++i) comm_order[i] = i;
    if (options_.shuffle) Shuffle(&comm_order, order);
    for (size_t i : comm_order) CommOut(*view, i);
    for (size_t first = 0; first < view->ops.size(); first += 4096)
      Ops(*view, first, std::min<size_t>(4096, view->ops.size() - first));
  }

  void Process(const RankView& view, ProcessState* p) {
    p->set_cpu_ns_between_samples(-1);
    p->set_io_bytes_between_samples(-1);
    if (!options_.processes) return;
    const RankRun& run = run_.ranks()[static_cast<size_t>(view.rank)];
    if (view.status == HostStatus::kDead || view.status == HostStatus::kExited) {
      p->set_life(view.status == HostStatus::kDead ? ProcessState::KILLED : ProcessState::EXITED);
      p->set_signal(run.signal);
      p->set_exit_code(run.exit_code);
      p->set_ended_mono_ns(Mono(view.ended));
      if (options_.facts) p->set_consequence(options_.facts(view.rank, view.status).consequence);
      return;
    }
    if (auto it = options_.later_deaths.find(view.rank); it != options_.later_deaths.end()) {
      p->set_life(ProcessState::KILLED);
      p->set_signal(it->second.signal);
      p->set_ended_mono_ns(Mono(run_.stop_time() + it->second.after));
      p->set_consequence(it->second.consequence);
      return;
    }
    p->set_life(ProcessState::RUNNING);
    const ProcessFacts facts = options_.facts ? options_.facts(view.rank, view.status) : ProcessFacts();
    p->set_state(facts.state);
    p->set_cpu_ns_between_samples(facts.cpu_ns);
    p->set_io_bytes_between_samples(facts.io_bytes);
    p->set_sample_gap_ns(facts.cpu_ns >= 0 ? 2 * kSecond : 0);
    p->set_wchan(facts.wchan);
    for (const std::string& line : facts.stack) p->add_stack(line);
    for (const std::string& line : facts.stack_later) p->add_stack_later(line);
    for (const std::string& line : facts.python_stack) p->add_python_stack(line);
    for (const std::string& line : facts.written_files) p->add_written_files(line);
    for (const std::string& line : facts.written_mounts) p->add_written_mounts(line);
    p->set_threads_in_d(facts.threads_in_d);
  }

  void ThreadOut(const RankView& view, size_t index, Thread* out) {
    const ThreadView& t = view.threads[index];
    out->set_index(static_cast<uint32_t>(index));
    out->set_tid(PidOf(job_, view.rank) + static_cast<int32_t>(index) * 37);
    out->set_name(t.name);
    out->set_call(static_cast<uint32_t>(t.call));
    out->set_communicator(t.call_comm);
    out->set_since_ns(Mono(t.since));
    out->set_group_depth(t.group_depth);
    out->set_group_since_ns(Mono(t.group_since));
    out->set_wait(static_cast<uint32_t>(t.wait));
    if (t.wait != CallKind::kNone) {
      out->set_wait_stream(t.wait == CallKind::kStreamSynchronize && !view.streams.empty()
                               ? static_cast<int32_t>(view.streams.size()) - 1
                               : -1);
      out->set_wait_since_ns(Mono(t.wait_since));
    }
    out->set_last_call_ns(Mono(t.last_call));
    out->set_calls(t.calls);
    out->set_overwritten(t.overwritten);
  }

  void StreamOut(const RankView& view, size_t index, Stream* out) {
    const StreamView& s = view.streams[index];
    out->set_index(static_cast<uint32_t>(index));
    out->set_handle(0x5592a0000000u + Mix(static_cast<uint64_t>(view.rank), s.stream) % 0x10000000u * 16);
    out->set_device(view.rank % job_.gpus_per_host);
    out->set_marked(options_.capture.marks != Marks::kOff);
    out->set_issued(s.issued);
    out->set_started(s.started);
    out->set_completed(s.completed);
    out->set_first_error(s.first_error);
    for (const StreamView::Wait& wait : s.depends) {
      const bool marked = options_.capture.marks != Marks::kOff;
      out->add_depends_stream(wait.stream);
      out->add_depends_ticket(marked ? wait.ticket : 0);
      out->add_depends_after(marked ? wait.after : -1);
    }
  }

  void GraphOut(const RankView& view, RankHeader* h) {
    const GraphView& g = view.graph;
    const bool marked = options_.capture.marks != Marks::kOff;
    Graph* out = h->add_graphs();
    out->set_index(0);
    out->set_id(1);
    out->set_state(static_cast<uint32_t>(ring::GraphState::kCaptured));
    out->set_exec(0x5592b0000000u + static_cast<uint64_t>(view.rank) * 256);
    out->set_operations(g.operations);
    out->set_launches(g.launches);
    out->set_completed(marked ? g.completed : 0);
    out->set_stream(g.launches > 0 ? g.stream : -1);
    out->set_ticket(marked ? g.launches : 0);
    out->set_captured_ns(Mono(g.captured_at));
    out->set_last_launch_ns(Mono(g.last_launch));
    // Replayed operations refer to their launch by its index here: number - 1.
    for (uint32_t number = 1; number <= g.launches; ++number) {
      h->add_replay_graph(0);
      h->add_replay_number(number);
    }
  }

  void CommOut(const RankView& view, size_t index) {
    const CommView& c = view.comms[index];
    const Comm& comm = job_.comms[static_cast<size_t>(c.comm)];
    const Marks marks = options_.capture.marks;
    DumpRecord record;
    RankCommunicator& out = *record.mutable_communicator();
    out.set_rank(view.rank);
    out.set_index(static_cast<uint32_t>(index));
    out.set_id(Hex16(comm.id));
    out.set_name(comm.name);
    out.set_member_rank(c.member_rank);
    out.set_size(static_cast<int32_t>(comm.members.size()));
    if (comm.parent_id != 0) out.set_parent_id(Hex16(comm.parent_id));
    out.set_ordinal(comm.ordinal);
    out.set_color(comm.color);
    out.set_origin(static_cast<uint32_t>(c.made_by));
    out.set_state(c.state);
    out.set_device(view.rank % job_.gpus_per_host);
    out.set_created_ns(Mono(c.created));
    out.set_ready_ns(Mono(c.ready));
    out.set_ended_ns(Mono(c.ended));
    auto number = [](int64_t n) { return n <= 0 ? int64_t{-1} : n; };
    out.set_issued(number(c.issued));
    out.set_issued_ns(Mono(c.issued_at));
    out.set_launched(number(c.launched));
    // A sequence number is known if the records reach back to it.
    const bool marked = marks != Marks::kOff;
    auto reached = [&](int64_t n) {
      if (c.issued == 0) return int64_t{-1};
      return c.oldest_retained != 0 && c.oldest_retained <= n + 1 ? number(n) : int64_t{-2};
    };
    out.set_completed(marked ? reached(c.done) : -2);
    out.set_started(marks == Marks::kFull || marks == Marks::kTimed ? reached(c.started) : -2);
    out.set_signature_hash(c.issued > 0 ? c.hash + comm.id : 0);
    for (const auto& [seq, hash] : c.checkpoints) {
      out.add_checkpoint_seq(seq);
      out.add_checkpoint_hash(hash + comm.id);
    }
    for (const PeerProgress& peer : c.peers) {
      out.add_peer(peer.peer);
      out.add_peer_sends(peer.sends);
      out.add_peer_recvs(peer.recvs);
      out.add_peer_last_send_ns(Mono(peer.last_send));
      out.add_peer_last_recv_ns(Mono(peer.last_recv));
    }
    out.set_lost_records(c.operations - std::min(c.operations, c.retained));
    out.set_async_error(c.async_error);
    out.set_async_error_ns(Mono(c.async_error_at));
    out.set_blocking(true);
    out.set_first_seq(1);
    out.set_ring_index(static_cast<uint32_t>(index));
    Append(record);
  }

  void Ops(const RankView& view, size_t first, size_t count) {
    OpColumns c;
    c.set_count(static_cast<uint32_t>(count));
    int64_t seq = 0, at_index = 0, ticket = 0, enter = 0, caller = 0;
    const bool timed = options_.capture.marks == Marks::kTimed;
    for (size_t i = first; i < first + count; ++i) {
      const OpView& op = view.ops[i];
      const bool operation = ring::IsCollective(op.kind) || ring::IsPointToPoint(op.kind);
      c.add_communicator(op.comm);
      c.add_kind(static_cast<uint32_t>(op.kind));
      c.add_stage(static_cast<uint32_t>(op.stage));
      c.add_datatype(operation ? op.instr->datatype : ring::kNoDatatype);
      c.add_reduction(operation ? op.instr->reduction : ring::kNoReduction);
      c.add_root_or_peer(op.root_or_peer);
      c.add_elements(op.count);
      const int64_t number = op.stage == Stage::kCaptured ? int64_t{-2} : int64_t{op.seq};
      c.add_seq_delta(number - seq);
      seq = number;
      c.add_thread(op.recent_only ? UINT32_MAX : op.thread);
      c.add_index_delta(static_cast<int64_t>(op.recent_only ? 0 : op.index) - at_index);
      at_index = static_cast<int64_t>(op.recent_only ? 0 : op.index);
      c.add_group(op.group);
      c.add_stream(op.stream);
      c.add_ticket_delta(static_cast<int64_t>(op.ticket) - ticket);
      ticket = op.ticket;
      const int64_t entered = Mono(op.enter);
      c.add_enter_ns_delta(entered - enter);
      enter = entered;
      c.add_duration_ns(op.ret == kNever ? -1 : op.ret - op.enter);
      const auto site = static_cast<int64_t>(kCallerBase + op.instr->site * 0x240 + static_cast<uint64_t>(op.kind) * 8);
      c.add_caller_delta(site - caller);
      caller = site;
      c.add_caller_object(kCallerObject);
      c.add_graph(op.replay != 0 ? uint64_t{op.place} << 32 | (op.replay - 1) : op.graph);
      uint32_t flags = (op.recent_only ? 8 : 0) | (op.replay != 0 ? 64 : 0);
      if (timed && op.start != kNever) flags |= 16;
      if (timed && op.finish != kNever) flags |= 32;
      c.add_flags(flags);
      c.add_started_ns_delta(flags & 16 ? Mono(op.start) - entered : 0);
      c.add_completed_ns_delta(flags & 32 ? Mono(op.finish) - entered : 0);
      const uint64_t address = operation ? 0x7f2000000000u + op.instr->site * 0x1000000u : 0;
      c.add_send_address_delta(static_cast<int64_t>(address - address_));
      address_ = address;
    }
    address_ = 0;
    Sparse(&c, timed);
    const std::string raw = c.SerializeAsString();
    DumpRecord record;
    OpChunk& chunk = *record.mutable_ops();
    chunk.set_rank(view.rank);
    chunk.set_count(static_cast<uint32_t>(count));
    chunk.set_raw_bytes(static_cast<uint32_t>(raw.size()));
    std::string* packed = chunk.mutable_zstd();
    packed->resize(ZSTD_compressBound(raw.size()));
    packed->resize(ZSTD_compress2(zstd_, packed->data(), packed->size(), raw.data(), raw.size()));
    Append(record);
  }

  // Omits a list that is 0 everywhere.
  static void Sparse(OpColumns* c, bool timed) {
    auto zero = [](const auto& list) { return std::all_of(list.begin(), list.end(), [](auto v) { return v == 0; }); };
    if (zero(c->group())) c->clear_group();
    if (zero(c->ticket_delta())) c->clear_ticket_delta();
    if (zero(c->graph())) c->clear_graph();
    if (zero(c->flags())) c->clear_flags();
    if (!timed) {
      c->clear_started_ns_delta();
      c->clear_completed_ns_delta();
    }
  }

  const Simulator& run_;
  const Job& job_;
  const DumpOptions& options_;
  ZSTD_CCtx* zstd_;
  const Host* host_ = nullptr;
  bool other_run_ = false;
  std::string out_;
  uint64_t address_ = 0;
};

}  // namespace

bool WriteLsdFolder(const Simulator& run, const DumpOptions& options, const std::string& folder, std::string* error) {
  const Job& job = run.job();
  LsdFile file(run, options);
  nlohmann::json nodes = nlohmann::json::array();
  const auto hosts = static_cast<int32_t>(job.hosts.size());
  for (int32_t host = 0; host < hosts; ++host) {
    std::vector<int32_t> ranks;
    bool cut = false;
    for (int32_t r = host * job.gpus_per_host; r < std::min(job.ranks, (host + 1) * job.gpus_per_host); ++r) {
      cut |= options.cut.count(r) > 0;
      if (options.missing.count(r) == 0) ranks.push_back(r);
    }
    if (ranks.empty()) continue;
    std::string bytes = file.Node(host, ranks);
    if (cut) Damage(&bytes, Mix(job.seed, 6000 + static_cast<uint64_t>(host)));
    std::string name = job.hosts[static_cast<size_t>(host)].name + ".lsd";
    if (options.shuffle) {
      char text[32];
      std::snprintf(text, sizeof(text), "%016llx.lsd",
                    static_cast<unsigned long long>(Mix(job.seed, 8000 + static_cast<uint64_t>(host))));
      name = text;
    }
    if (!WriteFile(folder + "/" + name, bytes, error)) return false;
    nodes.push_back({{"host", job.hosts[static_cast<size_t>(host)].name}, {"file", name}});
  }
  nlohmann::json manifest = {{"format", 1},
                             {"tool_version", "0.1.0"},
                             {"job", job.name},
                             {"ranks_expected", job.ranks},
                             {"known_stalled", options.known_stalled},
                             {"stalled_ns", options.known_stalled ? options.capture.at - run.stop_time() : 0},
                             {"captured_real_ns", job.hosts[0].Real(options.capture.at)},
                             {"nodes", nodes}};
  return WriteFile(folder + "/manifest.json", manifest.dump(1) + "\n", error);
}

}  // namespace lockstep::corpus
