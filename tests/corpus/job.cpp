#include "tests/corpus/job.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "tests/corpus/program.h"

namespace lockstep::corpus {
namespace {

using jobmodel::Family;

std::string Format(const char* format, long long a, long long b = 0) {
  char text[96];
  std::snprintf(text, sizeof(text), format, a, b);
  return text;
}

void MakeHosts(Job* job, Random random) {
  const int32_t count = (job->ranks + job->gpus_per_host - 1) / job->gpus_per_host;
  const int32_t per_leaf = count <= 4 ? std::max(1, count / 2) : count <= 16 ? 4 : count <= 256 ? 16 : 32;
  const int64_t epoch = 1'790'000'000 * kSecond + random.Below(30'000'000) * kSecond;
  for (int32_t h = 0; h < count; ++h) {
    Host host;
    host.name = Format(count > 999 ? "node%04lld" : "gpu%03lld", h + 1);
    char boot[40];
    std::snprintf(boot, sizeof(boot), "%08x-%04x-4%03x-a%03x-%012llx", static_cast<unsigned>(random.Next()),
                  static_cast<unsigned>(random.Next() & 0xffff), static_cast<unsigned>(random.Next() & 0xfff),
                  static_cast<unsigned>(random.Next() & 0xfff), static_cast<unsigned long long>(random.Next() >> 16));
    host.boot_id = boot;
    host.rack = Format("rack%02lld", h / 4 + 1);
    host.leaf_switch = Format("leaf%02lld", h / per_leaf + 1);
    host.mono_offset = random.Between(3600, 90 * 86400) * kSecond + random.Below(kSecond);
    host.drift = (random.Unit() - 0.5) * 4e-6;
    host.real_offset = epoch + random.Between(-2 * kMilli, 2 * kMilli);
    job->hosts.push_back(host);
  }
}

void AddFamily(Job* job, Slot slot, const jobmodel::Layout& layout, Family family) {
  for (const jobmodel::Group& group : jobmodel::Groups(layout, family)) {
    Comm& comm = job->comms.emplace_back();
    comm.slot = slot;
    comm.number = comm.color = group.number;
    comm.members = group.Members();
  }
}

void MakeComms(Job* job) {
  const Layout& l = job->layout;
  AddFamily(job, kWorld, l, Family::kWorld);
  if (l.shape == Shape::kFsdp && l.shard > 0 && l.shard < job->ranks) {
    jobmodel::Layout mesh;
    mesh.tp = l.shard, mesh.dp = job->ranks / l.shard;
    AddFamily(job, kShard, mesh, Family::kTp);
    AddFamily(job, kReplica, mesh, Family::kDp);
  } else if (l.shape == Shape::kFsdp) {
    AddFamily(job, kShard, l, Family::kWorld);
  } else if (l.shape == Shape::kMegatron || l.shape == Shape::kGraph) {
    if (l.dp > 1) AddFamily(job, kDp, l, Family::kDp);
    if (l.tp > 1) AddFamily(job, kTp, l, Family::kTp);
    if (l.pp > 1) AddFamily(job, kPp, l, Family::kPp);
    if (l.tp * l.pp * l.cp > 1 && l.shape == Shape::kMegatron) AddFamily(job, kMp, l, Family::kMp);
    if (l.pp > 1) AddFamily(job, kEmb, l, Family::kEmb);
    if (l.cp > 1) AddFamily(job, kCp, l, Family::kCp);
    if (l.ep > 1) AddFamily(job, kEp, l, Family::kEp);
    if (l.ep > 1 && l.dp > l.ep) AddFamily(job, kEdp, l, Family::kEdp);
  }
  job->comm_of.assign(static_cast<size_t>(job->ranks), {});
  job->member_of.assign(static_cast<size_t>(job->ranks), {});
  for (auto& slots : job->comm_of) slots.fill(-1);
  for (auto& slots : job->member_of) slots.fill(-1);
  for (size_t c = 0; c < job->comms.size(); ++c) {
    Comm& comm = job->comms[c];
    for (size_t m = 0; m < comm.members.size(); ++m) {
      job->comm_of[static_cast<size_t>(comm.members[m])][comm.slot] = static_cast<int32_t>(c);
      job->member_of[static_cast<size_t>(comm.members[m])][comm.slot] = static_cast<int32_t>(m);
      comm.inter_host |= job->HostOf(comm.members[m]) != job->HostOf(comm.members[0]);
    }
    comm.origin = c == 0 || !l.split ? CallKind::kCommInitRankConfig : CallKind::kCommSplit;
    comm.parent = comm.origin == CallKind::kCommSplit ? 0 : -1;
    comm.pg_name = std::to_string(c);
    if (l.names == 0)
      comm.name = comm.slot == kWorld ? "world" : std::string(SlotName(comm.slot)) + "_" + std::to_string(comm.number);
    if (l.names == 1) comm.name = SlotGroup(comm.slot);
  }
}

bool Parse(const std::string& text, Layout* l) {
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find('-', at);
    if (end == std::string::npos) end = text.size();
    const std::string part = text.substr(at, end - at);
    const size_t digit = part.find_first_of("0123456789");
    if (digit == std::string::npos || digit + 7 < part.size()) return false;
    const std::string key = part.substr(0, digit);
    if (part.find_first_not_of("0123456789", digit) != std::string::npos) return false;
    const int32_t value = std::stoi(part.substr(digit));
    int32_t* field = key == "tp"       ? &l->tp
                     : key == "cp"     ? &l->cp
                     : key == "pp"     ? &l->pp
                     : key == "dp"     ? &l->dp
                     : key == "ep"     ? &l->ep
                     : key == "vpp"    ? &l->vpp
                     : key == "layers" ? &l->layers
                     : key == "mb"     ? &l->micro_batches
                                       : nullptr;
    if (field == nullptr || value < 1) return false;
    *field = value;
    at = end + 1;
  }
  return true;
}

}  // namespace

uint64_t Mix(uint64_t a, uint64_t b) { return Random(a * 0x9fb21c651e98df25u ^ b).Next(); }

const char* SlotName(Slot slot) {
  static constexpr const char* kNames[] = {"world", "tp",  "cp",    "pp",      "dp",  "ep", "edp",
                                           "mp",    "emb", "shard", "replica", "aux", "aux"};
  return kNames[slot];
}

const char* SlotGroup(Slot slot) {
  static constexpr const char* kNames[] = {"default_pg",
                                           "TENSOR_MODEL_PARALLEL_GROUP",
                                           "CONTEXT_PARALLEL_GROUP",
                                           "PIPELINE_MODEL_PARALLEL_GROUP",
                                           "DATA_PARALLEL_GROUP_WITH_CP",
                                           "EXPERT_MODEL_PARALLEL_GROUP",
                                           "EXPERT_DATA_PARALLEL_GROUP",
                                           "MODEL_PARALLEL_GROUP",
                                           "EMBEDDING_GROUP",
                                           "mesh_shard",
                                           "mesh_replicate",
                                           "undefined",
                                           "undefined"};
  return kNames[slot];
}

std::string Layout::Text() const {
  if (shape == Shape::kDdp) return "ddp";
  if (shape == Shape::kFsdp) return shard > 0 ? "hsdp" + std::to_string(shard) : "fsdp";
  std::string text = shape == Shape::kGraph ? "graph-" : "";
  text +=
      "tp" + std::to_string(tp) + "-cp" + std::to_string(cp) + "-pp" + std::to_string(pp) + "-dp" + std::to_string(dp);
  if (ep > 1) text += "-ep" + std::to_string(ep);
  if (vpp > 1) text += "-vpp" + std::to_string(vpp);
  return text;
}

Program* Job::Own(int32_t rank) {
  auto copy = std::make_shared<Program>(*programs[static_cast<size_t>(rank)]);
  Program* raw = copy.get();
  programs[static_cast<size_t>(rank)] = std::move(copy);
  return raw;
}

void Job::NameComms() {
  // The order in which a rank creates communicators determines their ordinals, among one parent's children or among
  // root communicators.
  std::map<Slot, uint32_t> ordinal;
  for (const Comm& comm : comms) ordinal.try_emplace(comm.slot, static_cast<uint32_t>(ordinal.size()));
  for (Comm& comm : comms) {
    const bool child = comm.parent >= 0;
    const uint64_t parent_id = child ? comms[static_cast<size_t>(comm.parent)].id : 0;
    comm.parent_id = parent_id;
    comm.ordinal = comm.slot == kWorld ? 1 : child ? ordinal[comm.slot] : ordinal[comm.slot] + 1;
    comm.id = child ? Mix(Mix(parent_id, comm.ordinal), static_cast<uint64_t>(static_cast<uint32_t>(comm.color)))
                    : Mix(Mix(seed, 77), static_cast<uint64_t>(comm.slot) << 32 | static_cast<uint32_t>(comm.number));
  }
}

bool MakeLayout(const std::string& text, int32_t ranks, uint64_t seed, Layout* layout, std::string* error) {
  Random random(Mix(seed, 11));
  Layout l;
  l.p2p_sync = random.Chance(0.5);
  l.autograd_thread = random.Chance(0.5);
  l.split = random.Chance(0.6);
  l.names = static_cast<int32_t>(random.Below(3));
  l.sequence_parallel = random.Chance(0.7);
  l.layers = ranks >= 8192 ? 1 : 2;
  std::string name = text.empty() || text == "auto" ? "3d" : text;
  auto fail = [&](const std::string& why) {
    *error = "layout '" + text + "' for " + std::to_string(ranks) + " ranks: " + why;
    return false;
  };
  if (name == "ddp" || name == "fsdp" || name.rfind("hsdp", 0) == 0) {
    l.shape = name == "ddp" ? Shape::kDdp : Shape::kFsdp;
    if (name.rfind("hsdp", 0) == 0) l.shard = name.size() > 4 ? std::atoi(name.c_str() + 4) : ranks >= 64 ? 8 : 4;
    if (l.shard < 0 || (l.shard > 0 && ranks % l.shard != 0)) return fail("the shard size must divide the ranks");
    l.dp = ranks;
    *layout = l;
    return true;
  }
  // Chooses degrees that fit the number of ranks: tp inside a host, a few stages, and data parallelism for the rest.
  if (name == "3d" || name == "moe" || name == "cp" || name == "interleaved" || name == "graph") {
    l.tp = ranks >= 64 ? (ranks >= 1024 || random.Chance(0.5) ? 8 : 4) : 2;
    l.pp = ranks >= 8192   ? 8
           : ranks >= 1024 ? (random.Chance(0.5) ? 8 : 4)
           : ranks >= 64   ? (random.Chance(0.5) ? 4 : 2)
                           : 2;
    if (name == "graph") {
      l.shape = Shape::kGraph;
      l.pp = 1;
    }
    if (name == "cp") {
      l.cp = 2;
      if (ranks < 64) l.pp = 1;
    }
    if (ranks % (l.tp * l.pp * l.cp) != 0 || ranks < l.tp * l.pp * l.cp) l.tp = l.pp = l.cp = 1;
    l.dp = ranks / (l.tp * l.pp * l.cp);
    if (name == "moe") l.ep = l.dp >= 16 ? 8 : l.dp >= 4 ? 4 : l.dp >= 2 ? 2 : 1;
    if (l.ep > 1 && l.dp % l.ep != 0) l.ep = 1;
    if (name == "interleaved") l.vpp = 2;
  } else {
    if (!Parse(name, &l))
      return fail("unknown layout; examples: tp2-pp2-dp2, 3d, moe, cp, interleaved, graph, fsdp, hsdp8, ddp");
    if (l.Ranks() != ranks) return fail("tp x cp x pp x dp differs from the number of ranks");
    if (l.dp % l.ep != 0) return fail("ep does not divide dp");
  }
  if (l.vpp > 1 && l.pp < 2) l.vpp = 1;
  if (l.micro_batches == 0)
    l.micro_batches = l.pp > 1 ? (ranks >= 8192 || l.vpp > 1 ? l.pp * (ranks >= 8192 ? 1 : 2) : l.pp + 2) : 2;
  if (l.vpp > 1 && l.micro_batches % l.pp != 0)
    return fail("interleaving needs a multiple of the stages as micro-batches");
  *layout = l;
  return true;
}

Job MakeJob(const Layout& layout, int32_t ranks, int32_t steps, uint64_t seed) {
  Job job;
  job.layout = layout;
  job.ranks = ranks;
  job.steps = steps;
  job.seed = seed;
  job.gpus_per_host = ranks <= 8 ? 2 : ranks <= 16 ? 4 : 8;
  job.name = "train-" + std::to_string(Mix(seed, 5) % 90000 + 10000);
  MakeHosts(&job, Random(Mix(seed, 21)));
  MakeComms(&job);
  job.NameComms();
  job.compute_factor.assign(static_cast<size_t>(ranks), 1.0);
  std::map<int64_t, std::shared_ptr<const Program>> classes;
  for (int32_t r = 0; r < ranks; ++r) {
    auto& program = classes[ProgramClass(job, r)];
    if (program == nullptr) program = std::make_shared<Program>(MakeProgram(job, r));
    job.programs.push_back(program);
  }
  return job;
}

uint64_t SplitSize(uint64_t comm_id, uint64_t n, int32_t i, int32_t j, uint64_t base) {
  const uint64_t h = Mix(Mix(comm_id, n), static_cast<uint64_t>(i) << 32 | static_cast<uint32_t>(j));
  return base / 2 + h % (base + 1);
}

uint64_t DatatypeBytes(uint8_t datatype) {
  static constexpr uint8_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return datatype < sizeof(kBytes) ? kBytes[datatype] : 1;
}

}  // namespace lockstep::corpus
