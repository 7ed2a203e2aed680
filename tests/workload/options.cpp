#include "tests/workload/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <map>

namespace trainsim {
namespace {

constexpr std::array<const char*, 22> kFaultNames = {
    "stall-host", "stall-gpu",  "kill",         "segv",           "stop",
    "skip",       "extra",      "wrong-count",  "wrong-datatype", "wrong-reduction",
    "wrong-root", "wrong-op",   "exit-early",   "exception",      "spin-host",
    "open-group", "wrong-peer", "stall-loader", "swap-order",     "no-group",
    "never-init", "wrong-color"};
constexpr std::array<const char*, kCommKinds> kCommNames = {"world", "tp", "pp", "dp", "ep"};
constexpr std::array<const char*, kOpKinds> kOpNames = {"allreduce", "broadcast", "allgather", "reducescatter",
                                                        "alltoall",  "send",      "recv"};
constexpr int kMaxWorld = 1 << 16;
constexpr int64_t kMaxElements = int64_t{1} << 28;

template <typename Names>
std::string Join(const Names& names) {
  std::string joined;
  for (const char* name : names) {
    if (!joined.empty()) joined += ", ";
    joined += name;
  }
  return joined;
}

template <typename Enum, typename Names>
bool FromName(const Names& names, const std::string& text, Enum* out) {
  auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return false;
  *out = static_cast<Enum>(found - names.begin());
  return true;
}

bool ToInteger(const std::string& text, int64_t low, int64_t high, int64_t* out) {
  int64_t value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < low || value > high) return false;
  *out = value;
  return true;
}

bool ToSeconds(const std::string& text, double* out) {
  if (text.empty()) return false;
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value) || value < 0 || value > 1e6) return false;
  *out = value;
  return true;
}

// Converts "a=1,b=2" to a map. Returns false if a part has no '=' or a key occurs twice.
bool ToPairs(const std::string& text, std::map<std::string, std::string>* out, std::string* error) {
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      *error = "expected KEY=VALUE, got '" + part + "' in '" + text + "'";
      return false;
    }
    if (!out->emplace(part.substr(0, equals), part.substr(equals + 1)).second) {
      *error = "'" + part.substr(0, equals) + "' is given twice in '" + text + "'";
      return false;
    }
    begin = end + 1;
  }
  return true;
}

// Removes one integer from the pairs. Leaves *out unchanged if the key is missing. Returns false, with *error, only if
// the value is invalid.
bool TakeInteger(std::map<std::string, std::string>* pairs, const std::string& key, int64_t low, int64_t high, int* out,
                 std::string* error) {
  auto found = pairs->find(key);
  if (found == pairs->end()) return true;
  int64_t value = 0;
  if (!ToInteger(found->second, low, high, &value)) {
    *error = key + "=" + found->second + ": expected a whole number from " + std::to_string(low) + " to " +
             std::to_string(high);
    return false;
  }
  *out = static_cast<int>(value);
  pairs->erase(found);
  return true;
}

// Returns whether the fault can occur with a graph: in the CPU thread or in work before the graph, not in an
// operation's arguments.
bool InGraph(FaultKind kind) {
  switch (kind) {
    case FaultKind::kStallHost:
    case FaultKind::kStallGpu:
    case FaultKind::kKill:
    case FaultKind::kSegv:
    case FaultKind::kStop:
    case FaultKind::kExitEarly:
    case FaultKind::kException:
    case FaultKind::kSpinHost:
    case FaultKind::kStallLoader:
    case FaultKind::kNeverInit:
    case FaultKind::kWrongColor: return true;
    default: return false;
  }
}

std::vector<const char*> OpsOf(CommKind comm) {
  switch (comm) {
    case CommKind::kWorld: return {"allreduce", "broadcast"};
    case CommKind::kTp:
    case CommKind::kDp: return {"allreduce", "broadcast", "allgather", "reducescatter"};
    case CommKind::kEp: return {"allreduce", "broadcast", "alltoall"};
    case CommKind::kPp: return {"send", "recv"};
  }
  return {};
}

// Returns the operations for which a kind makes sense; empty means all.
std::vector<const char*> OpsOf(FaultKind kind) {
  switch (kind) {
    case FaultKind::kWrongReduction: return {"allreduce", "reducescatter"};
    case FaultKind::kWrongRoot: return {"broadcast"};
    case FaultKind::kWrongOp: return {"allreduce"};
    case FaultKind::kWrongPeer: return {"send", "recv"};
    default: return {};
  }
}

bool Contains(const std::vector<const char*>& names, const std::string& name) {
  return std::any_of(names.begin(), names.end(), [&](const char* other) { return name == other; });
}

OpKind DefaultOp(FaultKind kind, CommKind comm) {
  if (kind == FaultKind::kWrongRoot) return OpKind::kBroadcast;
  // An extra send may be buffered and complete, but an extra receive never completes.
  if (kind == FaultKind::kExtra && comm == CommKind::kPp) return OpKind::kRecv;
  return comm == CommKind::kPp ? OpKind::kSend : OpKind::kAllReduce;
}

// Returns the default communicator of a fault. For most kinds, that is the innermost group with more than one rank, or
// world.
CommKind DefaultComm(const Options& options, FaultKind kind) {
  if (kind == FaultKind::kSwapOrder) return CommKind::kDp;
  if (kind == FaultKind::kNoGroup || kind == FaultKind::kWrongPeer) return CommKind::kPp;
  if (kind == FaultKind::kStallLoader || kind == FaultKind::kNeverInit) return CommKind::kWorld;
  for (CommKind comm : {CommKind::kTp, CommKind::kDp, CommKind::kPp}) {
    if (comm == CommKind::kPp && !OpsOf(kind).empty()) continue;
    if (options.CommSize(comm) > 1) return comm;
  }
  return CommKind::kWorld;
}

// Returns the communicators for a fault with its own trigger; empty means all.
std::vector<CommKind> CommsOf(FaultKind kind) {
  switch (kind) {
    case FaultKind::kStallLoader: return {CommKind::kWorld};
    case FaultKind::kSwapOrder: return {CommKind::kDp};
    case FaultKind::kNoGroup: return {CommKind::kPp};
    case FaultKind::kNeverInit: return {CommKind::kWorld, CommKind::kPp};
    case FaultKind::kWrongColor: return {CommKind::kTp, CommKind::kDp, CommKind::kEp};
    default: return {};
  }
}

bool CheckPlace(const Options& options, const Fault& fault, bool op_given, std::string* error) {
  const std::string kind = Name(fault.kind);
  const std::string comm = Name(fault.comm);
  const std::vector<CommKind> comms = CommsOf(fault.kind);
  if (!comms.empty() && std::find(comms.begin(), comms.end(), fault.comm) == comms.end()) {
    std::vector<const char*> names;
    for (CommKind each : comms) names.push_back(Name(each));
    *error = "kind=" + kind + " cannot occur on comm=" + comm + "; communicators for it: " + Join(names);
    return false;
  }
  if (!AtOperation(fault.kind) && (op_given || fault.nth != 0)) {
    *error = "kind=" + kind + " has a fixed place; op= and nth= cannot be given";
    return false;
  }
  if (options.CommSize(fault.comm) < 2) {
    *error = "comm=" + comm + " has a single rank in this job and issues nothing; larger communicators:";
    for (int i = 0; i < kCommKinds; ++i) {
      if (options.CommSize(static_cast<CommKind>(i)) > 1) *error += std::string(" ") + kCommNames[i];
    }
    return false;
  }
  if (fault.kind == FaultKind::kWrongPeer && options.CommSize(fault.comm) < 3) {
    *error = "kind=wrong-peer needs three or more pipeline stages, so that there is another peer";
    return false;
  }
  if (!AtOperation(fault.kind)) return true;
  const std::vector<const char*> in_comm = OpsOf(fault.comm);
  const std::vector<const char*> of_kind = OpsOf(fault.kind);
  std::vector<const char*> allowed;
  for (const char* op : in_comm) {
    if (of_kind.empty() || Contains(of_kind, op)) allowed.push_back(op);
  }
  if (allowed.empty()) {
    *error = "kind=" + kind + " is not possible on comm=" + comm + ", which issues only " + Join(in_comm) +
             "; communicators for it: world, tp, dp, ep";
    return false;
  }
  if (!Contains(allowed, Name(fault.op))) {
    *error = std::string(op_given ? "op=" : "the operation ") + Name(fault.op) +
             " cannot be combined with kind=" + kind + " on comm=" + comm + "; allowed: " + Join(allowed);
    return false;
  }
  return true;
}

bool CheckValue(const Options& options, const Fault& fault, std::string* error) {
  if (!fault.value) return true;
  int64_t high = 0;
  if (fault.kind == FaultKind::kWrongCount) {
    high = fault.comm == CommKind::kWorld ? 2 * kLossCount : 2 * std::max(options.elements, kSmallCount);
  } else if (fault.kind == FaultKind::kWrongRoot || fault.kind == FaultKind::kWrongPeer) {
    high = options.CommSize(fault.comm) - 1;
  } else {
    *error = "value= is only for kind=wrong-count, kind=wrong-root and kind=wrong-peer";
    return false;
  }
  if (*fault.value < 0 || *fault.value > high) {
    *error = "value=" + std::to_string(*fault.value) + ": expected 0 to " + std::to_string(high) +
             " for kind=" + Name(fault.kind) + " on comm=" + Name(fault.comm);
    return false;
  }
  return true;
}

bool ParseFault(const Options& options, const std::string& text, Fault* fault, std::string* error) {
  std::map<std::string, std::string> pairs;
  if (!ToPairs(text, &pairs, error)) return false;
  for (const char* key : {"rank", "step", "kind"}) {
    if (!pairs.contains(key)) {
      *error = "'" + text + "': " + key +
               "= is missing; expected rank=R,step=K,kind=KIND[,comm=..][,op=..][,nth=N][,value=N]";
      return false;
    }
  }
  if (!TakeInteger(&pairs, "rank", 0, options.WorldSize() - 1, &fault->rank, error) ||
      !TakeInteger(&pairs, "step", 1, options.steps, &fault->step, error) ||
      !TakeInteger(&pairs, "nth", 0, 1 << 20, &fault->nth, error)) {
    return false;
  }
  if (!FromName(kFaultNames, pairs["kind"], &fault->kind)) {
    *error = "unknown kind '" + pairs["kind"] + "'; kinds: " + Join(kFaultNames);
    return false;
  }
  pairs.erase("kind");
  fault->comm = DefaultComm(options, fault->kind);
  if (auto comm = pairs.extract("comm"); comm && !FromName(kCommNames, comm.mapped(), &fault->comm)) {
    *error = "unknown comm '" + comm.mapped() + "'; communicators: " + Join(kCommNames);
    return false;
  }
  fault->op = DefaultOp(fault->kind, fault->comm);
  auto op = pairs.extract("op");
  if (op && !FromName(kOpNames, op.mapped(), &fault->op)) {
    *error = "unknown op '" + op.mapped() + "'; operations: " + Join(kOpNames);
    return false;
  }
  if (auto value = pairs.extract("value")) {
    int64_t number = 0;
    if (!ToInteger(value.mapped(), 0, kMaxElements * 2, &number)) {
      *error = "value=" + value.mapped() + ": expected a whole number";
      return false;
    }
    fault->value = number;
  }
  if (!pairs.empty()) {
    *error = "unknown key '" + pairs.begin()->first + "'; keys: rank, step, kind, comm, op, nth, value";
    return false;
  }
  return CheckPlace(options, *fault, static_cast<bool>(op), error) && CheckValue(options, *fault, error);
}

// `kind` is null unless the pause is a preparation. Returns false, with *error, if the text is invalid.
bool ParsePause(const Options& options, const std::string& text, bool has_rank, PrepareKind* kind, Pause* pause,
                std::string* error) {
  static constexpr std::array<const char*, 5> kKinds = {"compile", "thread", "read", "lock", "service"};
  std::map<std::string, std::string> pairs;
  if (!ToPairs(text, &pairs, error)) return false;
  const std::string shape = std::string("step=K,seconds=S") + (has_rank ? "[,rank=R]" : "") + (kind ? ",how=HOW" : "");
  if (kind != nullptr) {
    const auto how = pairs.extract("how");
    if (!how || !FromName(kKinds, how.mapped(), kind)) {
      *error = "'" + text + "': expected how=" + Join(kKinds);
      return false;
    }
  }
  auto seconds = pairs.extract("seconds");
  if (!seconds || !pairs.contains("step")) {
    *error = "'" + text + "': expected " + shape;
    return false;
  }
  if (!ToSeconds(seconds.mapped(), &pause->seconds)) {
    *error = "seconds=" + seconds.mapped() + ": expected a number of seconds, 0 or more";
    return false;
  }
  const int first = kind != nullptr ? 0 : 1;
  if (!TakeInteger(&pairs, "step", first, options.steps, &pause->step, error)) return false;
  if (has_rank && !TakeInteger(&pairs, "rank", 0, options.WorldSize() - 1, &pause->rank, error)) return false;
  if (!pairs.empty()) {
    *error = "unknown key '" + pairs.begin()->first + "' in '" + text + "'; expected " + shape;
    return false;
  }
  return true;
}

bool ParseStraggler(const Options& options, const std::string& text, Straggler* straggler, std::string* error) {
  std::map<std::string, std::string> pairs;
  if (!ToPairs(text, &pairs, error)) return false;
  auto milliseconds = pairs.extract("ms");
  if (!milliseconds || !pairs.contains("rank") || pairs.size() != 1) {
    *error = "'" + text + "': expected rank=R,ms=MS";
    return false;
  }
  if (!ToSeconds(milliseconds.mapped(), &straggler->milliseconds)) {
    *error = "ms=" + milliseconds.mapped() + ": expected a number, 0 or more";
    return false;
  }
  return TakeInteger(&pairs, "rank", 0, options.WorldSize() - 1, &straggler->rank, error);
}

bool CheckShape(Options* options, std::string* error) {
  const int64_t world = int64_t{options->tp} * options->pp * options->dp;
  if (world > kMaxWorld) {
    *error = "--tp x --pp x --dp is " + std::to_string(world) + ", more than " + std::to_string(kMaxWorld);
    return false;
  }
  if (options->dp % options->ep != 0) {
    *error = "--ep " + std::to_string(options->ep) + " does not divide --dp " + std::to_string(options->dp);
    return false;
  }
  if (options->recreate_step > 0 && options->dp < 2) {
    *error = "--recreate needs a data group of two ranks or more";
    return false;
  }
  // With this unit, every group's share of a buffer, and half a count, are whole numbers.
  const int64_t unit = int64_t{4} * options->tp * options->dp;
  options->elements = (options->elements + unit - 1) / unit * unit;
  return true;
}

// `others` are the names of Slurm and Open MPI, which are read if `name` is not set. Returns false, with *error, if no
// variable is set or the value is invalid.
bool ReadVariable(const char* name, std::initializer_list<const char*> others, int64_t low, int64_t high, int* out,
                  std::string* error) {
  const char* text = std::getenv(name);
  for (const char* other : others) {
    if (text == nullptr) text = std::getenv(other);
  }
  int64_t value = 0;
  if (text == nullptr) {
    *error =
        std::string(name) + " is not set; start one process per rank with a launcher (lockstep run -n N, torchrun)";
    return false;
  }
  if (!ToInteger(text, low, high, &value)) {
    *error = std::string(name) + "=" + text + ": expected a whole number from " + std::to_string(low) + " to " +
             std::to_string(high);
    return false;
  }
  *out = static_cast<int>(value);
  return true;
}

}  // namespace

const char* Name(FaultKind kind) { return kFaultNames[static_cast<size_t>(kind)]; }
const char* Name(CommKind comm) { return kCommNames[static_cast<size_t>(comm)]; }
const char* Name(OpKind op) { return kOpNames[static_cast<size_t>(op)]; }

int Options::CommSize(CommKind comm) const {
  switch (comm) {
    case CommKind::kWorld: return WorldSize();
    case CommKind::kTp: return tp;
    case CommKind::kPp: return pp;
    case CommKind::kDp: return dp;
    case CommKind::kEp: return ep;
  }
  return 0;
}

bool Options::ExpectsWrongData() const {
  return std::any_of(faults.begin(), faults.end(), [](const Fault& fault) {
    switch (fault.kind) {
      case FaultKind::kSkip:
      case FaultKind::kExtra:
      case FaultKind::kWrongCount:
      case FaultKind::kWrongDatatype:
      case FaultKind::kWrongReduction:
      case FaultKind::kWrongRoot:
      case FaultKind::kWrongOp:
      case FaultKind::kOpenGroup:
      case FaultKind::kWrongPeer:
      case FaultKind::kWrongColor: return true;
      default: return false;
    }
  });
}

std::string HelpText() {
  return "usage: trainsim --tp T --pp P --dp D [options]      one process per rank, T x P x D processes\n"
         "\n"
         "Runs a Megatron-like training loop with only NCCL and the CUDA runtime, and injects the given faults.\n"
         "Rank order as in Megatron: tp fastest, then dp, then pp: rank = tp + T * (dp + D * pp).\n"
         "Each process reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; rank 0 serves the\n"
         "unique ids at MASTER_ADDR:MASTER_PORT (one port higher if torchrun's own store uses that port).\n"
         "Communicators: world, tp, dp, ep (split from world) and pp (own ids), each on its own stream;\n"
         "groups of one rank are not created.\n"
         "\n"
         "  --tp, --pp, --dp N       tensor, pipeline and data parallel sizes (1)\n"
         "  --ep N                   expert parallel size, a divisor of --dp (1: no expert layers)\n"
         "  --steps N                steps to train (100)\n"
         "  --micro-batches M        micro-batches per step, 1F1B schedule (4)\n"
         "  --layers L               layers per pipeline stage (2)\n"
         "  --elements N             elements of an activation, rounded up to a multiple of 4 * T * D (1024)\n"
         "  --pace-ms MS             GPU time of the computation in each step (0)\n"
         "  --slow-start SEC         the first step begins late: by SEC / 2 on rank 0, up to SEC on the last rank (0)\n"
         "  --checkpoint step=K,seconds=S[,rank=R]   after step K rank R (0) writes to a file for S seconds\n"
         "  --evaluate step=K,seconds=S              after step K every rank evaluates for S seconds without NCCL\n"
         "  --prepare step=K,seconds=S[,rank=R],how=HOW   after step K (0: before the first) rank R (0) is busy "
         "outside\n"
         "                           NCCL: compile (in child processes), thread (in another thread), read (a file), "
         "lock\n"
         "                           (waits for another process), service (waits for a server that answers late)\n"
         "  --recreate K             after step K one operation of each data group does not end; its ranks abort\n"
         "                           the communicator and create it again (0: never)\n"
         "  --straggle rank=R,ms=MS  in every step, rank R's GPU computes MS longer than the others\n"
         "  --jitter MS              in every step, the GPU of a different rank computes MS longer (0)\n"
         "  --seed N                 seed of the data (1)\n"
         "  --sync stream|event|device|copy          how the CPU thread waits for a step's loss (stream);\n"
         "                           copy: copies loss and gradient norm to pageable memory, which waits\n"
         "  --launches N             small fills after the gradient norm; above 1,024 the CPU thread waits in one (0)\n"
         "  --graph                  capture the second step and replay it as a CUDA graph from then on\n"
         "  --shared-stream          world, tp and ep use the computation's stream, as in PyTorch since 2.8\n"
         "  --print-every N          rank 0 prints a line every N steps (10)\n"
         "  --store-timeout SEC      time limit for the exchange of the unique ids (120)\n"
         "  --fault rank=R,step=K,kind=KIND[,comm=C][,op=O][,nth=N][,value=V]        may be given several times\n"
         "  --help\n"
         "\n"
         "A fault happens on rank R in step K (from 1) at the nth (from 0) operation O of communicator C.\n"
         "C is world, tp, pp, dp or ep (default: tp, otherwise the innermost group of several ranks). O is\n"
         "allreduce (default), broadcast, allgather or reducescatter (tp, dp), alltoall (ep), send (default on pp) or\n"
         "recv (pp; default for extra).\n"
         "  stall-host       the CPU thread sleeps forever before the operation\n"
         "  stall-gpu        a stream operation that never ends is enqueued before the operation\n"
         "  kill, segv, stop the process gets SIGKILL, writes to address 0, gets SIGSTOP\n"
         "  skip, extra      the operation is not issued, or issued twice\n"
         "  wrong-count      half the count, or V\n"
         "  wrong-datatype   a different datatype\n"
         "  wrong-reduction  max instead of sum (allreduce, reducescatter)\n"
         "  wrong-root       the last member is the root, or V (broadcast)\n"
         "  wrong-op         AllGather instead of AllReduce\n"
         "  exit-early       leaves the loop and exits with 0, without waiting or destroying anything\n"
         "  exception        an exception, which is swallowed, ends the loop; destroys its communicators\n"
         "  spin-host        the CPU thread computes forever before the operation\n"
         "  open-group       ncclGroupStart without ncclGroupEnd before the operation: nothing is launched after it\n"
         "  wrong-peer       the peer is the stage after the next, or V (send, recv)\n"
         "These have a fixed place in step K:\n"
         "  stall-loader     the rank reads its next batch from a pipe that stays empty\n"
         "  swap-order       the loss (world) is reduced before the gradients' norm (dp)\n"
         "  no-group         sends and receives of the steady state without a group; use it on both neighbors\n"
         "These occur at the start:\n"
         "  never-init       the rank never initializes the communicator (world, pp)\n"
         "  wrong-color      the rank splits with the color of its neighbor group (tp, dp, ep)\n"
         "\n"
         "Every operation's result is verified, unless skip, extra, open-group or a wrong-* fault was given.\n"
         "Exit status: 0 done, 1 a CUDA, NCCL or start-up error, 2 usage, 3 wrong data.\n";
}

bool Parse(const std::vector<std::string>& args, Options* options, bool* help, std::string* error) {
  *options = Options();
  *help = false;
  struct Number {
    int64_t low, high;
    int* out;
  };
  int elements = static_cast<int>(options->elements);
  int seed = static_cast<int>(options->seed);
  const std::map<std::string, Number> numbers = {
      {"--tp", {1, kMaxWorld, &options->tp}},
      {"--pp", {1, kMaxWorld, &options->pp}},
      {"--dp", {1, kMaxWorld, &options->dp}},
      {"--ep", {1, kMaxWorld, &options->ep}},
      {"--steps", {1, 1'000'000'000, &options->steps}},
      {"--micro-batches", {1, 4096, &options->micro_batches}},
      {"--layers", {1, 4096, &options->layers}},
      {"--elements", {1, kMaxElements, &elements}},
      {"--seed", {0, 2'000'000'000, &seed}},
      {"--print-every", {1, 1'000'000'000, &options->print_every}},
      {"--recreate", {0, 1'000'000'000, &options->recreate_step}},
      {"--launches", {0, 1'000'000, &options->launches}},
  };
  std::map<std::string, double*> seconds = {{"--pace-ms", &options->pace_ms},
                                            {"--jitter", &options->jitter_ms},
                                            {"--slow-start", &options->slow_start_s},
                                            {"--store-timeout", &options->store_timeout_s}};
  // These options depend on the job's shape, so they are parsed when the shape is known.
  std::vector<std::pair<std::string, std::string>> later;
  for (size_t i = 0; i < args.size(); ++i) {
    std::string name = args[i];
    if (name == "--help" || name == "-h") {
      *help = true;
      return true;
    }
    if (name == "--graph" || name == "--shared-stream") {
      (name == "--graph" ? options->graph : options->shared_stream) = true;
      continue;
    }
    std::string value;
    size_t equals = name.find('=');
    const bool attached = name.starts_with("--") && equals != std::string::npos;
    if (attached) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    const bool known = numbers.contains(name) || seconds.contains(name) || name == "--sync" || name == "--fault" ||
                       name == "--checkpoint" || name == "--evaluate" || name == "--prepare" || name == "--straggle";
    if (!known) {
      *error = "unknown option '" + args[i] + "'; --help lists them";
      return false;
    }
    if (!attached) {
      if (i + 1 == args.size()) {
        *error = name + " needs a value";
        return false;
      }
      value = args[++i];
    }
    if (auto number = numbers.find(name); number != numbers.end()) {
      int64_t parsed = 0;
      if (!ToInteger(value, number->second.low, number->second.high, &parsed)) {
        *error = name + " " + value + ": expected a whole number from " + std::to_string(number->second.low) + " to " +
                 std::to_string(number->second.high);
        return false;
      }
      *number->second.out = static_cast<int>(parsed);
    } else if (auto second = seconds.find(name); second != seconds.end()) {
      if (!ToSeconds(value, second->second)) {
        *error = name + " " + value + ": expected a number, 0 or more";
        return false;
      }
    } else if (name == "--sync") {
      static constexpr std::array<const char*, 4> kSyncNames = {"stream", "event", "device", "copy"};
      if (!FromName(kSyncNames, value, &options->sync)) {
        *error = "--sync " + value + ": expected " + Join(kSyncNames);
        return false;
      }
    } else {
      later.emplace_back(name, value);
    }
  }
  options->elements = elements;
  options->seed = static_cast<uint64_t>(seed);
  if (!CheckShape(options, error)) return false;
  for (const auto& [name, value] : later) {
    bool good = false;
    if (name == "--fault") {
      good = ParseFault(*options, value, &options->faults.emplace_back(), error);
    } else if (name == "--straggle") {
      good = ParseStraggler(*options, value, &options->straggler, error);
    } else if (name == "--prepare") {
      Prepare& prepare = options->preparations.emplace_back();
      good = ParsePause(*options, value, true, &prepare.kind, &prepare.pause, error);
    } else {
      const bool checkpoint = name == "--checkpoint";
      Pause& pause = (checkpoint ? options->checkpoints : options->evaluations).emplace_back();
      good = ParsePause(*options, value, checkpoint, nullptr, &pause, error);
    }
    if (good && name == "--fault" && options->graph && !InGraph(options->faults.back().kind)) {
      *error = std::string("kind=") + Name(options->faults.back().kind) +
               " cannot occur in a step that a graph replays (--graph)";
      good = false;
    }
    if (!good) {
      *error = name + ": " + *error;
      return false;
    }
  }
  return true;
}

bool ReadEnvironment(const Options& options, Environment* environment, std::string* error) {
  if (!ReadVariable("WORLD_SIZE", {"OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}, 1, kMaxWorld, &environment->world, error))
    return false;
  if (environment->world != options.WorldSize()) {
    *error = "WORLD_SIZE is " + std::to_string(environment->world) + ", but --tp " + std::to_string(options.tp) +
             " x --pp " + std::to_string(options.pp) + " x --dp " + std::to_string(options.dp) + " needs " +
             std::to_string(options.WorldSize()) + " ranks";
    return false;
  }
  if (!ReadVariable("RANK", {"OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}, 0, environment->world - 1, &environment->rank,
                    error))
    return false;
  if (!ReadVariable("LOCAL_RANK", {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, 0, kMaxWorld,
                    &environment->local_rank, error))
    return false;
  if (!ReadVariable("MASTER_PORT", {}, 1, 65535, &environment->master_port, error)) return false;
  const char* address = std::getenv("MASTER_ADDR");
  if (address == nullptr || *address == '\0') {
    *error = "MASTER_ADDR is not set; launchers set it to the address of rank 0";
    return false;
  }
  environment->master_addr = address;
  // torchrun serves its own store on MASTER_PORT.
  const char* agent_store = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (agent_store != nullptr && std::string(agent_store) == "True" && environment->master_port < 65535) {
    ++environment->master_port;
  }
  return true;
}

}  // namespace trainsim
