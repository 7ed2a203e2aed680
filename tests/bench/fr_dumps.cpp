// Writes the Flight Recorder dumps of one large job as PyTorch's pickler does: protocol 2, strings and shared frames
// through the memo, one file per rank. The job has a world group and tensor, pipeline and data parallel groups. Its
// rings are full and were overwritten many times. One rank skips the world's last all_reduce.
//   fr_dumps [--ranks N] [--entries N] [--frames N] [--missing RANK] [--no-timing] [--p2p] [--json] FOLDER
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tests/jobmodel/layout.h"

namespace {

namespace jobmodel = lockstep::jobmodel;

struct Options {
  int32_t ranks = 1024;
  int64_t entries = 2000;
  int frames = 14;
  int32_t missing = 9;  // rank that skips the last all_reduce; -1 if there is none
  bool timing = true;   // TORCH_NCCL_ENABLE_TIMING: started times and durations
  bool p2p = false, json = false;
  std::string folder;
};

constexpr int32_t kTensor = 8, kPipeline = 8;
constexpr int kVariants = 7, kSharedFrames = 8;  // a step's calls come from this many code locations in turn
constexpr int64_t kFirstRecord = 90'000;
constexpr int64_t kBirth = 1'758'610'505'932'198'356;

struct Group {
  std::string name, desc;
  std::vector<int32_t> members;
  int64_t collectives = 0, p2ps = 0, op_id = 0;
};

struct Frame {
  std::string name, file;
  int line;
};

// One record of a dump; each rank adds its own times and numbers.
struct Entry {
  int group;
  const char* op;
  std::string p2p_name;
  int64_t in, out;
  int site;
  bool p2p = false;
};

std::vector<Group> GroupsOf(int32_t rank, int32_t ranks) {
  using jobmodel::Family;
  jobmodel::Layout layout;
  layout.tp = std::min(kTensor, ranks);
  layout.pp = std::max(1, std::min(kPipeline, ranks / layout.tp));
  layout.dp = std::max(1, ranks / (layout.tp * layout.pp));
  std::vector<Group> groups;
  int32_t made = 0;  // number of groups in earlier families, because PyTorch numbers groups in order of creation
  for (const auto& [family, desc] :
       {std::pair(Family::kWorld, "default_pg"), std::pair(Family::kTp, "TENSOR_MODEL_PARALLEL_GROUP"),
        std::pair(Family::kPp, "PIPELINE_MODEL_PARALLEL_GROUP"),
        std::pair(Family::kDp, "DATA_PARALLEL_GROUP_WITH_CP")}) {
    const jobmodel::Group group = jobmodel::GroupOf(layout, family, rank);
    groups.push_back({std::to_string(made + group.number), desc, group.Members()});
    made += layout.Ranks() / group.size;
  }
  return groups;
}

// Returns `frames` frames, innermost first: PyTorch's wrappers, code locations that depend on the site, and the
// training loop, which all stacks share.
std::vector<Frame> StackOf(int site, int frames) {
  static const char* const kWrappers[] = {"all_reduce", "wrapper", "_reduce"};
  static const char* const kOuter[] = {"forward", "forward_step",  "train_step", "train",
                                       "main",    "_run_function", "launch",     "<module>"};
  std::vector<Frame> stack;
  const int own = std::max(0, frames - kSharedFrames);
  for (int i = 0; i < own && i < 2; i++) {
    stack.push_back(
        {kWrappers[i], "/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", 2700 + i});
  }
  for (int i = 2; i < own; i++) {
    stack.push_back({"block_" + std::to_string(site) + "_" + std::to_string(i),
                     "/workspace/megatron/core/transformer/layer_" + std::to_string(site % 7) + ".py",
                     100 + site * 8 + i});
  }
  for (int i = 0; i < kSharedFrames && static_cast<int>(stack.size()) < frames; i++) {
    stack.push_back({kOuter[i], "/workspace/megatron/training/training.py", 1800 + 37 * i});
  }
  return stack;
}

std::vector<Entry> StepOf(const std::vector<Group>& groups, bool p2p, int32_t rank) {
  std::vector<Entry> step;
  int site = 0;
  for (int layer = 0; layer < 3; layer++) {
    step.push_back(
        {1, "nccl:_all_gather_base", "", 4096, 4096 * static_cast<int64_t>(groups[1].members.size()), site++});
    step.push_back(
        {1, "nccl:_reduce_scatter_base", "", 4096 * static_cast<int64_t>(groups[1].members.size()), 4096, site++});
  }
  if (p2p && groups[2].members.size() > 1) {
    const auto place = std::find(groups[2].members.begin(), groups[2].members.end(), rank) - groups[2].members.begin();
    const auto size = static_cast<int64_t>(groups[2].members.size());
    const std::string own = std::to_string(place);
    step.push_back({2, "", "nccl:send " + own + "->" + std::to_string((place + 1) % size), 65536, 65536, site, true});
    step.push_back(
        {2, "", "nccl:recv " + own + "<-" + std::to_string((place + size - 1) % size), 65536, 65536, site, true});
    step.push_back({2, "nccl:coalesced", "", 0, 0, site++, true});
  } else {
    step.push_back({2, "nccl:broadcast", "", 65536, 65536, site++});
  }
  step.push_back({3, "nccl:all_reduce", "", 1'048'576, 1'048'576, site++});
  step.push_back({0, "nccl:all_reduce", "", 1, 1, site});
  return step;
}

class Pickle {
 public:
  std::string out = "\x80\x02";

  void Bytes(uint64_t number, int count) {
    out.append(reinterpret_cast<const char*>(&number), static_cast<size_t>(count));
  }
  uint32_t Put() {
    if (puts_ < 256) {
      out += 'q';
      Bytes(puts_, 1);
    } else {
      out += 'r';
      Bytes(puts_, 4);
    }
    return puts_++;
  }
  void Get(uint32_t index) {
    out += index < 256 ? 'h' : 'j';
    Bytes(index, index < 256 ? 1 : 4);
  }
  void Text(std::string_view text) {
    const auto [at, added] = texts_.try_emplace(std::string(text), puts_);
    if (!added) return Get(at->second);
    out += 'X';
    Bytes(text.size(), 4);
    out += text;
    Put();
  }
  void Int(int64_t number) {
    const auto bits = static_cast<uint64_t>(number);
    if (number >= 0 && number < 256) {
      out += 'K';
      Bytes(bits, 1);
    } else if (number >= 0 && number < 65536) {
      out += 'M';
      Bytes(bits, 2);
    } else if (number >= INT32_MIN && number <= INT32_MAX) {
      out += 'J';
      Bytes(bits, 4);
    } else {
      out += "\x8a\x08";
      Bytes(bits, 8);
    }
  }
  void Double(double number) {
    uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof(bits));
    out += 'G';
    Bytes(__builtin_bswap64(bits), 8);
  }
  void Open(char container) {
    out += container;
    out += '(';
  }
  void Close(char container) { out += container == '}' ? 'u' : 'e'; }
  void Key(std::string_view text) { Text(text); }
  void None() { out += 'N'; }
  void Bool(bool value) { out += value ? '\x88' : '\x89'; }
  void BeginPair() {}
  void EndPair() { out += '\x86'; }
  void Frames(int site, int frames) {
    Key("frames");
    Open(']');
    int place = 0;
    for (const Frame& frame : StackOf(site, frames)) {
      const bool own = place >= 2 && place < frames - kSharedFrames;
      const auto [at, added] = frames_.try_emplace((own ? (site + 1) * 100 : 0) + place, 0);
      place++;
      if (!added) {
        Get(at->second);
        continue;
      }
      Open('}');
      Key("name");
      Text(frame.name);
      Key("filename");
      Text(frame.file);
      Key("line");
      Int(frame.line);
      Close('}');
      at->second = Put();
    }
    Close(']');
  }
  void End() {
    Put();
    out += '.';
  }

 private:
  uint32_t puts_ = 0;
  std::unordered_map<std::string, uint32_t> texts_;
  std::unordered_map<int, uint32_t> frames_;
};

class Json {
 public:
  std::string out;

  void Comma() {
    if (!out.empty() && out.back() != '{' && out.back() != '[' && out.back() != ':') out += ',';
  }
  void Text(std::string_view text) {
    Comma();
    ((out += '"') += text) += '"';
  }
  void Key(std::string_view text) {
    Text(text);
    out += ':';
  }
  void Int(int64_t number) {
    Comma();
    out += std::to_string(number);
  }
  void Double(double number) {
    Comma();
    out += std::to_string(number);
  }
  void Open(char container) {
    Comma();
    out += container == '}' ? '{' : '[';
  }
  void Close(char container) { out += container; }
  void None() { Int(0); }
  void Bool(bool value) {
    Comma();
    out += value ? "true" : "false";
  }
  void BeginPair() { Open(']'); }
  void EndPair() { Close(']'); }
  void Frames(int, int) {}  // this form has no frames
  void End() {}
};

template <typename Writer>
void WriteSizes(const char* key, int64_t elements, Writer* out) {
  out->Key(key);
  out->Open(']');
  if (elements > 0) {
    out->Open(']');
    out->Int(elements);
    out->Close(']');
  }
  out->Close(']');
}

template <typename Writer>
void WriteTypes(const char* key, bool any, Writer* out) {
  out->Key(key);
  out->Open(']');
  if (any) out->Text("BFloat16");
  out->Close(']');
}

template <typename Writer>
void WriteEntry(const Entry& entry, int site, Group* group, int64_t record, bool done, const Options& options,
                Writer* out) {
  const bool member = entry.p2p && !entry.p2p_name.empty();
  const bool first_of_batch = member && entry.p2p_name.find("send") != std::string::npos;
  if (entry.p2p) {
    group->p2ps += first_of_batch ? 1 : 0;
  } else {
    group->collectives++;
  }
  group->op_id++;
  out->Open('}');
  if (options.frames > 0) out->Frames(site, options.frames);
  out->Key("record_id");
  out->Int(record);
  out->Key("pg_id");
  out->Int(entry.group);
  out->Key("process_group");
  out->BeginPair();
  out->Text(group->name);
  out->Text(group->desc);
  out->EndPair();
  out->Key("thread_name");
  out->Text("pt_main_thread");
  out->Key("thread_id");
  out->Text("139846101053952");
  out->Key("collective_seq_id");
  out->Int(group->collectives);
  out->Key("p2p_seq_id");
  out->Int(group->p2ps);
  out->Key("op_id");
  out->Int(group->op_id);
  out->Key("profiling_name");
  out->Text(member ? entry.p2p_name : std::string(entry.op));
  const int64_t created = kBirth + record * 1'000'000;
  out->Key("time_created_ns");
  out->Int(created);
  if (options.timing && done && !member) {
    out->Key("duration_ms");
    out->Double(0.25 * static_cast<double>(1 + record % 7));
  }
  WriteSizes("input_sizes", entry.in, out);
  WriteTypes("input_dtypes", entry.in > 0, out);
  WriteSizes("output_sizes", entry.out, out);
  WriteTypes("output_dtypes", entry.out > 0, out);
  out->Key("state");
  out->Text(member ? "scheduled" : done ? "completed" : options.timing ? "started" : "scheduled");
  out->Key("time_discovered_started_ns");
  if (options.timing && !member) {
    out->Int(created + 1'000'000);
  } else {
    out->None();
  }
  out->Key("time_discovered_completed_ns");
  if (done && !member) {
    out->Int(created + 2'000'000);
  } else {
    out->None();
  }
  out->Key("retired");
  out->Bool(done);
  out->Key("timeout_ms");
  out->Int(600'000);
  out->Key("is_p2p");
  out->Bool(entry.p2p);
  out->Close('}');
}

template <typename Writer>
void WriteDump(int32_t rank, const Options& options, Writer* out) {
  std::vector<Group> groups = GroupsOf(rank, options.ranks);
  const std::vector<Entry> step = StepOf(groups, options.p2p, rank);
  // The first stored entry begins a step. All steps are complete, except that `missing` skips the last all_reduce.
  const auto size = static_cast<int64_t>(step.size());
  const int64_t steps = (options.entries + size - 1) / size;
  const int64_t earlier = kFirstRecord / size;
  for (const Entry& entry : step) {
    Group& group = groups[static_cast<size_t>(entry.group)];
    (entry.p2p ? group.p2ps : group.collectives) +=
        entry.p2p && entry.p2p_name.find("send") == std::string::npos ? 0 : earlier;
    group.op_id += earlier;
  }
  std::vector<Group> last = groups;
  for (int64_t i = 0; i < steps; i++) {
    for (const Entry& entry : step) {
      if (rank == options.missing && i + 1 == steps && entry.group == 0) break;
      Group& group = last[static_cast<size_t>(entry.group)];
      if (!entry.p2p) group.collectives++;
      if (entry.p2p && entry.p2p_name.find("send") != std::string::npos) group.p2ps++;
    }
  }
  out->Open('}');
  out->Key("version");
  out->Text("2.10");
  out->Key("pg_config");
  out->Open('}');
  for (const Group& group : groups) {
    out->Key(group.name);
    out->Open('}');
    out->Key("name");
    out->Text(group.name);
    out->Key("desc");
    out->Text(group.desc);
    out->Key("ranks");
    std::string text = "[";
    for (int32_t member : group.members) text += (text.size() > 1 ? ", " : "") + std::to_string(member);
    out->Text(text + "]");
    out->Close('}');
  }
  out->Close('}');
  out->Key("comm_lib_version");
  out->Text("2.27.3");
  out->Key("pg_status");
  out->Open('}');
  for (size_t i = 0; i < groups.size(); i++) {
    const bool batches = options.p2p && i == 2;
    const int64_t enqueued = batches ? last[i].p2ps : last[i].collectives;
    const bool waits = i == 0 && options.missing >= 0 && rank != options.missing;
    out->Key(std::to_string(i));
    out->Open('}');
    out->Key("last_enqueued_collective");
    out->Int(enqueued);
    out->Key("last_started_collective");
    out->Int(options.timing ? enqueued : -1);
    out->Key("last_completed_collective");
    out->Int(enqueued - (waits ? 1 : 0));
    out->Close('}');
  }
  out->Close('}');
  out->Key("entries");
  out->Open(']');
  int64_t record = earlier * size;
  for (int64_t i = 0; i < steps; i++) {
    for (const Entry& entry : step) {
      const bool final = i + 1 == steps && entry.group == 0;
      if (final && rank == options.missing) break;
      const int site = entry.site + static_cast<int>(size) * static_cast<int>(i % kVariants);
      WriteEntry(entry, site, &groups[static_cast<size_t>(entry.group)], record++, !(final && options.missing >= 0),
                 options, out);
    }
  }
  out->Close(']');
  out->Close('}');
  out->End();
}

bool WriteRank(int32_t rank, const Options& options) {
  std::string bytes;
  if (options.json) {
    Json json;
    WriteDump(rank, options, &json);
    bytes = std::move(json.out);
  } else {
    Pickle pickle;
    WriteDump(rank, options, &pickle);
    bytes = std::move(pickle.out);
  }
  const std::string path = options.folder + "/nccl_trace_rank_" + std::to_string(rank) + (options.json ? ".json" : "");
  FILE* file = fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return fclose(file) == 0 && written;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    const std::string_view argument = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::atoi(argv[++i]) : 0; };
    if (argument == "--ranks") {
      options.ranks = number();
    } else if (argument == "--entries") {
      options.entries = number();
    } else if (argument == "--frames") {
      options.frames = number();
    } else if (argument == "--missing") {
      options.missing = number();
    } else if (argument == "--no-timing") {
      options.timing = false;
    } else if (argument == "--p2p") {
      options.p2p = true;
    } else if (argument == "--json") {
      options.json = true;
    } else {
      options.folder = argument;
    }
  }
  if (options.folder.empty() || options.ranks < 1 || options.entries < 1) {
    fprintf(stderr,
            "fr_dumps [--ranks N] [--entries N] [--frames N] [--missing RANK] [--no-timing] [--p2p] [--json] FOLDER\n");
    return 2;
  }
  mkdir(options.folder.c_str(), 0777);
  for (int32_t rank = 0; rank < options.ranks; rank++) {
    if (!WriteRank(rank, options)) {
      perror(options.folder.c_str());
      return 1;
    }
  }
  return 0;
}
