// Writes PyTorch Flight Recorder dumps like torch's own pickler: protocol 2, memoized strings, shared frames.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <unordered_map>

#include "tests/corpus/dump.h"
#include "tests/corpus/program.h"

namespace lockstep::corpus {
namespace {

constexpr int64_t kWatchdogTick = 100 * kMilli;

class Pickle {
 public:
  Pickle() { out_ = "\x80\x02"; }
  std::string Take() {
    out_ += '.';
    return std::move(out_);
  }
  void None() { out_ += 'N'; }
  void Bool(bool value) { out_ += value ? '\x88' : '\x89'; }
  void Int(int64_t value) {
    if (value >= 0 && value < 256) {
      out_ += 'K';
      Bytes(static_cast<uint64_t>(value), 1);
    } else if (value >= 0 && value < 65536) {
      out_ += 'M';
      Bytes(static_cast<uint64_t>(value), 2);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      out_ += 'J';
      Bytes(static_cast<uint64_t>(value), 4);
    } else {
      out_ += "\x8a\x08";
      Bytes(static_cast<uint64_t>(value), 8);
    }
  }
  void Double(double value) {
    uint64_t bits = 0;
    static_assert(sizeof(bits) == sizeof(value));
    __builtin_memcpy(&bits, &value, sizeof(bits));
    out_ += 'G';
    for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(bits >> shift);
  }
  void Text(const std::string& text) {
    auto [it, fresh] = texts_.try_emplace(text, puts_);
    if (!fresh) return Get(it->second);
    out_ += 'X';
    Bytes(text.size(), 4);
    out_ += text;
    Put();
  }
  void BeginDict() { out_ += "}("; }
  void EndDict() { out_ += 'u'; }
  void BeginList() { out_ += "]("; }
  void EndList() { out_ += 'e'; }
  void EmptyDict() { out_ += '}'; }
  void EmptyList() { out_ += ']'; }
  void Tuple2() { out_ += '\x86'; }
  // Begins a dictionary that the file contains once and refers to later. Returns true if the dictionary is new: the
  // caller then writes its contents and calls EndDict.
  bool BeginFrame(uint32_t key) {
    auto it = frames_.find(key);
    if (it != frames_.end()) {
      Get(it->second);
      return false;
    }
    out_ += '}';
    frames_[key] = puts_;
    Put();
    out_ += '(';
    return true;
  }

 private:
  void Bytes(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) out_ += static_cast<char>(value >> (8 * i));
  }
  void Put() {
    out_ += puts_ < 256 ? 'q' : 'r';
    Bytes(puts_, puts_ < 256 ? 1 : 4);
    ++puts_;
  }
  void Get(uint32_t index) {
    out_ += index < 256 ? 'h' : 'j';
    Bytes(index, index < 256 ? 1 : 4);
  }
  std::string out_;
  uint32_t puts_ = 0;
  std::unordered_map<std::string, uint32_t> texts_;
  std::unordered_map<uint32_t, uint32_t> frames_;
};

const char* ScalarType(uint8_t datatype) {
  static constexpr const char* kNames[] = {"Char",   "Byte", "Int",   "UInt32", "Long",
                                           "UInt64", "Half", "Float", "Double", "BFloat16"};
  return datatype < 10 ? kNames[datatype] : "Byte";
}

// Returns the name without the backend's name.
std::string OpName(const OpView& op, int32_t me) {
  switch (op.kind) {
    case CallKind::kAllReduce: return "all_reduce";
    case CallKind::kBroadcast: return "broadcast";
    case CallKind::kReduce: return "reduce";
    case CallKind::kAllGather: return "_all_gather_base";
    case CallKind::kReduceScatter: return "_reduce_scatter_base";
    case CallKind::kAlltoAll: return "all_to_all";
    case CallKind::kSend: return "send " + std::to_string(me) + "->" + std::to_string(op.root_or_peer);
    case CallKind::kRecv: return "recv " + std::to_string(me) + "<-" + std::to_string(op.root_or_peer);
    default: return "coalesced";
  }
}

const char* Wrapper(CallKind kind) {
  switch (kind) {
    case CallKind::kAllReduce: return "all_reduce";
    case CallKind::kBroadcast: return "broadcast";
    case CallKind::kAllGather: return "all_gather_into_tensor";
    case CallKind::kReduceScatter: return "reduce_scatter_tensor";
    case CallKind::kAlltoAll: return "all_to_all_single";
    case CallKind::kSend: return "isend";
    case CallKind::kRecv: return "irecv";
    default: return "batch_isend_irecv";
  }
}

struct Entry {
  OpView op;
  int32_t comm = -1;  // index into Job::comms
  int64_t view_comm = -1;
  bool end = false;  // the record of an entire batch
  bool in_batch = false;
  int64_t collective_seq = 0, p2p_seq = 0, op_id = 0;
};

class FrFile {
 public:
  FrFile(const Simulator& run, const DumpOptions& options) : run_(run), job_(run.job()), options_(options) {
    version_ = Mix(job_.seed, 31) % 2 == 0 ? "2.9" : "2.10";
    ranks_text_.resize(job_.comms.size());
  }

  std::string Rank(int32_t rank) {
    CaptureOptions capture = options_.capture;
    capture.marks = Marks::kFull;  // kFull shows the order of launches; the written marks are separate
    capture.expand = false;
    RankView view = Capture(run_, capture, rank);
    host_ = &job_.hosts[static_cast<size_t>(job_.HostOf(rank))];
    view_ = &view;
    MakeEntries();
    if (options_.shuffle) {
      Random random(Mix(job_.seed, 7000 + static_cast<uint64_t>(rank)));
      for (size_t i = entries_.size(); i > 1; --i) {
        const auto j = static_cast<size_t>(random.Below(static_cast<int64_t>(i)));
        std::swap(entries_[i - 1], entries_[j]);
        std::swap(record_ids_[i - 1], record_ids_[j]);
      }
    }
    Pickle p;
    p.BeginDict();
    p.Text("version");
    p.Text(version_);
    Config(&p);
    if (!options_.gloo) {
      p.Text(version_ == "2.10" ? "comm_lib_version" : "nccl_version");
      p.Text("2.27.3");
    }
    Status(&p);
    p.Text("entries");
    if (entries_.empty() || options_.empty.count(rank) > 0) {
      p.EmptyList();
    } else {
      p.BeginList();
      for (size_t i = 0; i < entries_.size(); ++i) OneEntry(entries_[i], record_ids_[i], &p);
      p.EndList();
    }
    p.EndDict();
    return p.Take();
  }

 private:
  void MakeEntries() {
    entries_.clear();
    record_ids_.clear();
    std::vector<int64_t> op_ids;
    for (const CommView& c : view_->comms) op_ids.push_back(c.called + c.all_to_alls + c.p2p);
    std::vector<Entry> newest_first;
    const std::vector<OpView>& ops = view_->ops;
    for (size_t i = ops.size(); i-- > 0;) {
      const OpView& op = ops[i];
      // The framework counts its calls, captured or not, but sees nothing of a graph's launches.
      if (op.recent_only || op.comm < 0 || op.stage == Stage::kFailed || op.replay != 0) continue;
      if (op.instr->act != Act::kCall && op.instr->act != Act::kAllToAllV) continue;
      const auto at = static_cast<size_t>(op.comm);
      const CommView& c = view_->comms[at];
      Entry entry;
      entry.op = op;
      entry.view_comm = op.comm;
      entry.comm = c.comm;
      entry.op_id = op_ids[at]--;
      const bool p2p = ring::IsPointToPoint(op.kind);
      // A group that is used for sends and receives counts all its launches together.
      const int64_t launches = op.stream >= 0 ? c.launches : 0;
      entry.p2p_seq = p2p ? (op.launch > 0 ? op.launch : launches + 1) : c.p2p > 0 ? launches : 0;
      entry.collective_seq = p2p ? c.called + c.all_to_alls : op.instr->act == Act::kAllToAllV ? op.seq : op.called;
      entry.in_batch = p2p && op.group != 0;
      if (entry.in_batch && op.stage != Stage::kQueued &&
          (newest_first.empty() || !newest_first.back().in_batch || newest_first.back().op.group != op.group)) {
        Entry end = entry;
        end.end = true;
        end.op.kind = CallKind::kGroup;
        newest_first.push_back(end);
      }
      newest_first.push_back(entry);
      if (newest_first.size() >= options_.capture.depth) break;
    }
    entries_.assign(newest_first.rbegin(), newest_first.rend());
    const auto first = static_cast<int64_t>(run_.ranks()[static_cast<size_t>(view_->rank)].records);
    for (size_t i = 0; i < entries_.size(); ++i)
      record_ids_.push_back(std::max<int64_t>(0, first - static_cast<int64_t>(entries_.size())) +
                            static_cast<int64_t>(i));
  }

  const std::string& RanksText(int32_t comm) {
    std::string& text = ranks_text_[static_cast<size_t>(comm)];
    if (text.empty()) {
      text = "[";
      for (int32_t r : job_.comms[static_cast<size_t>(comm)].members)
        text += (text.size() > 1 ? ", " : "") + std::to_string(r);
      text += "]";
    }
    return text;
  }

  void Config(Pickle* p) {
    p->Text("pg_config");
    bool any = false;
    for (const CommView& c : view_->comms) any |= c.ready != 0;
    if (!any) return p->EmptyDict();
    p->BeginDict();
    for (const CommView& c : view_->comms) {
      if (c.ready == 0) continue;
      const Comm& comm = job_.comms[static_cast<size_t>(c.comm)];
      p->Text(comm.pg_name);
      p->BeginDict();
      p->Text("name");
      p->Text(comm.pg_name);
      p->Text("desc");
      p->Text(SlotGroup(comm.slot));
      p->Text("ranks");
      p->Text(RanksText(c.comm));
      p->EndDict();
    }
    p->EndDict();
  }

  void Status(Pickle* p) {
    p->Text("pg_status");
    if (view_->comms.empty()) return p->EmptyDict();
    p->BeginDict();
    for (size_t i = 0; i < view_->comms.size(); ++i) {
      const CommView& c = view_->comms[i];
      int64_t enqueued = c.called + c.all_to_alls, started = -1, completed = 0;
      if (c.issued + c.p2p + c.all_to_alls > 0) {
        enqueued = c.launches;  // without captured calls
        completed = c.launches_done;
        started = options_.timing ? int64_t{c.launches_started} : -1;
      }
      p->Text(std::to_string(i));
      p->BeginDict();
      p->Text("last_enqueued_collective");
      p->Int(enqueued > 0 ? enqueued : -1);
      p->Text("last_started_collective");
      p->Int(started > 0 ? started : -1);
      p->Text("last_completed_collective");
      p->Int(completed > 0 ? completed : -1);
      p->EndDict();
    }
    p->EndDict();
  }

  void Frame(Pickle* p, uint32_t key, const char* function, const char* file, int line) {
    if (!p->BeginFrame(key)) return;
    p->Text("name");
    p->Text(function);
    p->Text("filename");
    p->Text(file);
    p->Text("line");
    p->Int(line);
    p->EndDict();
  }

  void Frames(const Entry& entry, Pickle* p) {
    const auto kind = static_cast<uint32_t>(entry.op.kind);
    const uint32_t site = entry.op.instr->site;
    p->Text("frames");
    p->BeginList();
    Frame(p, kind, Wrapper(entry.op.kind), "/opt/torch/distributed/distributed_c10d.py",
          1800 + static_cast<int>(kind) * 97);
    Frame(p, 100, "wrapper", "/opt/torch/distributed/c10d_logger.py", 81);
    const Site& at = SiteAt(site);
    Frame(p, 200 + site, at.function, at.file, at.line);
    if (entry.op.thread == 0) {
      Frame(p, 101, "forward_backward_func", "/opt/train/megatron/core/pipeline_parallel/schedules.py", 1441);
      Frame(p, 102, "train_step", "/opt/train/train.py", 288);
      Frame(p, 103, "train", "/opt/train/train.py", 455);
      Frame(p, 104, "<module>", "/opt/train/train.py", 602);
    } else {
      Frame(p, 105, "apply", "/opt/torch/autograd/function.py", 307);
    }
    p->EndList();
  }

  void Sizes(Pickle* p, const char* key, bool any, uint64_t elements) {
    p->Text(key);
    if (!any) return p->EmptyList();
    p->BeginList();
    p->BeginList();
    if (elements >= 8192 && elements % 4096 == 0) {
      p->Int(static_cast<int64_t>(elements / 4096));
      p->Int(1);
      p->Int(4096);
    } else {
      p->Int(static_cast<int64_t>(elements));
    }
    p->EndList();
    p->EndList();
  }

  void Types(Pickle* p, const char* key, bool any, uint8_t datatype) {
    p->Text(key);
    if (!any) return p->EmptyList();
    p->BeginList();
    p->Text(ScalarType(datatype));
    p->EndList();
  }

  void OneEntry(const Entry& entry, int64_t record_id, Pickle* p) {
    const OpView& op = entry.op;
    const Comm& comm = job_.comms[static_cast<size_t>(entry.comm)];
    const auto n = static_cast<uint64_t>(comm.members.size());
    const bool p2p = ring::IsPointToPoint(op.instr->kind), silent = entry.in_batch && !entry.end;
    uint64_t in = op.count, out = op.count;
    if (op.kind == CallKind::kAllGather) out *= n;
    if (op.kind == CallKind::kReduceScatter) in *= n;
    if (op.instr->act == Act::kAllToAllV) {
      in = out = 0;
      const int32_t me = job_.member_of[static_cast<size_t>(view_->rank)][op.slot];
      for (int32_t j = 0; j < static_cast<int32_t>(n); ++j) {
        in += SplitSize(comm.id, op.seq, me, j, op.instr->count);
        out += SplitSize(comm.id, op.seq, j, me, op.instr->count);
        if (op.instr->root_or_peer == j) in += 512 + op.instr->count / 4;
      }
    }
    p->BeginDict();
    if (options_.frames) Frames(entry, p);
    p->Text("record_id");
    p->Int(record_id);
    p->Text("pg_id");
    p->Int(entry.view_comm);
    p->Text("process_group");
    p->Text(comm.pg_name);
    p->Text(SlotGroup(comm.slot));
    p->Tuple2();
    p->Text("thread_name");
    p->Text(op.thread == 0 ? "pt_main_thread" : "pt_autograd_0");
    p->Text("thread_id");
    p->Text(std::to_string(140'000'000'000'000 + int64_t{PidOf(job_, view_->rank)} * 4096 + op.thread * 1024));
    p->Text("collective_seq_id");
    p->Int(entry.collective_seq);
    p->Text("p2p_seq_id");
    p->Int(entry.p2p_seq);
    p->Text("op_id");
    p->Int(entry.op_id);
    p->Text("profiling_name");
    p->Text((options_.gloo ? "gloo:" : "nccl:") +
            OpName(op, job_.member_of[static_cast<size_t>(view_->rank)][op.slot]));
    p->Text("time_created_ns");
    p->Int(host_->Real(op.enter));
    const int64_t ticked = Tick(op.finish);
    const bool completed = op.finish != kNever && !silent;
    if (options_.timing && !options_.gloo && completed && ticked <= view_->captured) {
      p->Text("duration_ms");
      p->Double(static_cast<double>(op.finish - op.start) / 1e6);
    }
    Sizes(p, "input_sizes", !entry.end, in);
    Types(p, "input_dtypes", !entry.end, op.instr->datatype);
    Sizes(p, "output_sizes", !entry.end, out);
    Types(p, "output_dtypes", !entry.end, op.instr->datatype);
    p->Text("state");
    const bool started = options_.timing && !options_.gloo && op.start != kNever && !silent;
    p->Text(completed && !options_.gloo ? "completed" : started ? "started" : "scheduled");
    p->Text("time_discovered_started_ns");
    if (started) {
      p->Int(host_->Real(std::min(Tick(op.start), view_->captured)));
    } else {
      p->None();
    }
    p->Text("time_discovered_completed_ns");
    if (completed && !options_.gloo) {
      p->Int(host_->Real(std::min(ticked, view_->captured)));
    } else {
      p->None();
    }
    p->Text("retired");
    p->Bool(completed && ticked <= view_->captured);
    p->Text("timeout_ms");
    p->Int(600'000);
    p->Text("is_p2p");
    p->Bool(p2p);
    p->EndDict();
  }

  // Returns when the rank's watchdog, which looks ten times a second, notices the event.
  int64_t Tick(int64_t t) const {
    if (t == kNever) return kNever;
    const auto phase = static_cast<int64_t>(Mix(job_.seed + 17, static_cast<uint64_t>(view_->rank)) %
                                            static_cast<uint64_t>(kWatchdogTick));
    return (t - phase + kWatchdogTick) / kWatchdogTick * kWatchdogTick + phase;
  }

  const Simulator& run_;
  const Job& job_;
  const DumpOptions& options_;
  std::string version_;
  std::vector<std::string> ranks_text_;
  const Host* host_ = nullptr;
  const RankView* view_ = nullptr;
  std::vector<Entry> entries_;
  std::vector<int64_t> record_ids_;
};

}  // namespace

bool WriteFlightRecorderFolder(const Simulator& run, const DumpOptions& options, const std::string& folder,
                               std::string* error) {
  const Job& job = run.job();
  FrFile file(run, options);
  for (int32_t r = 0; r < job.ranks; ++r) {
    // A process that has exited or is stopped writes no dump.
    const HostStatus status = run.ranks()[static_cast<size_t>(r)].status;
    const bool speaks = status != HostStatus::kDead && status != HostStatus::kExited && status != HostStatus::kFrozen;
    if (!speaks || options.missing.count(r) > 0) continue;
    std::string bytes = file.Rank(r);
    if (options.cut.count(r) > 0) Damage(&bytes, Mix(job.seed, 6000 + static_cast<uint64_t>(r)));
    const std::string path = folder + "/nccl_trace_rank_" + std::to_string(r);
    if (!WriteFile(path, bytes, error)) return false;
    // When the dump was written, on that host's clock.
    const int64_t written =
        job.hosts[static_cast<size_t>(job.HostOf(r))].Real(options.capture.at + options.capture.jitter);
    const timespec time{static_cast<time_t>(written / kSecond), static_cast<long>(written % kSecond)};
    const timespec times[2] = {time, time};
    utimensat(AT_FDCWD, path.c_str(), times, 0);
  }
  return true;
}

}  // namespace lockstep::corpus
