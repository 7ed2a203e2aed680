// The simulated job: machine, communicators, and what each rank's CPU thread does. This file does not run it
// (simulator.h) and does not know how it is recorded (capture.h). It shares no code with the analysis under test.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recorder/ring/calls.h"
#include "tests/jobmodel/layout.h"

namespace lockstep::corpus {

using ring::CallKind;

constexpr int64_t kNever = INT64_MAX;
constexpr int64_t kMicro = 1000, kMilli = 1'000'000, kSecond = 1'000'000'000;

// splitmix64: gives the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  int64_t Below(int64_t n) { return n <= 0 ? 0 : static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  bool Chance(double p) { return Unit() < p; }

 private:
  uint64_t state_;
};
uint64_t Mix(uint64_t a, uint64_t b);

// Families of communicators. A rank is in at most one communicator of each family. Each family has its own stream, as
// in PyTorch; see Layout::shared_stream.
enum Slot : uint8_t { kWorld, kTp, kCp, kPp, kDp, kEp, kEdp, kMp, kEmb, kShard, kReplica, kAux, kAux2, kSlots };
const char* SlotName(Slot slot);   // "tp"
const char* SlotGroup(Slot slot);  // "TENSOR_MODEL_PARALLEL_GROUP"
constexpr uint8_t kComputeStream = 0;
constexpr uint8_t StreamOf(Slot slot) { return static_cast<uint8_t>(1 + slot); }
constexpr uint8_t kStreams = 1 + kSlots;

struct Comm {
  Slot slot = kWorld;
  int32_t number = 0;  // number within its family
  uint64_t id = 0, parent_id = 0;
  uint32_t ordinal = 0;
  int32_t color = 0;
  CallKind origin = CallKind::kCommInitRankConfig;
  std::string name;              // name in the recorder; may be empty
  std::string pg_name;           // the framework's number of the group
  std::vector<int32_t> members;  // global ranks, in order of member rank
  int32_t parent = -1;           // index of the communicator it is split from
  bool inter_host = false;
};

enum class Act : uint8_t {
  kCall,  // an NCCL operation on its slot's stream, after the work on the compute stream at the time of the call
  kGroupBegin,
  kGroupEnd,
  kAllToAllV,  // sends and receives with every member in one group; SplitSize gives the sizes
  kCompute,    // kernels for `ns` on the compute stream
  kJoin,       // the compute stream waits for the slot's stream
  kHostWait,   // the CPU thread waits: kind names the call
  kHostWork,   // the CPU thread is busy for `ns`
  kInit,       // creates the slot's communicator by a root call
  kSplit,      // splits `parent slot` (in root_or_peer); with no color if the slot has no communicator
  kAbort,      // ncclCommAbort of the slot's communicator
  kFinalize,   // ncclCommFinalize, then Destroy
  kStep,       // a training step begins; `count` is its number
  kGraphBegin,
  kGraphEnd,     // captures the calls between kGraphBegin and this
  kGraphLaunch,  // runs the captured operations; `count` = instruction index of kGraphBegin
  // Faults.
  kStall,     // the CPU thread never continues
  kDie,       // signal `count` kills the process
  kExit,      // the process exits with status `count`
  kFreeze,    // SIGSTOP
  kGpuHang,   // a kernel that never ends on the compute stream
  kGpuError,  // the GPU stops `ns` later
  kLeave,     // the CPU thread left the loop and stays outside it
};

struct Instr {
  Act act = Act::kCall;
  Slot slot = kWorld;
  CallKind kind = CallKind::kNone;
  uint8_t datatype = ring::kNoDatatype, reduction = ring::kNoReduction;
  uint8_t thread = 0;
  uint8_t fault = 0;   // 1 + number of the fault this instruction belongs to
  bool async = false;  // calls: the compute stream does not wait for this operation; joins: waits for all calls so far
  int32_t root_or_peer = -1;
  uint32_t site = 0;
  uint64_t count = 0;
  int64_t ns = 0;  // kCall: 1 + the slot whose next completion the GPU waits for before it starts this operation
};
using Program = std::vector<Instr>;

struct Host {
  std::string name, boot_id, rack, leaf_switch;
  int64_t mono_offset = 0;                // CLOCK_MONOTONIC = simulated time * (1 + drift) + this
  double drift = 0;                       // relative to the simulated clock
  int64_t real_offset = 0;                // CLOCK_REALTIME = simulated time + this
  int64_t step_at = kNever, step_ns = 0;  // from step_at on, the wall clock is step_ns ahead
  int64_t Mono(int64_t t) const { return t + mono_offset + static_cast<int64_t>(static_cast<double>(t) * drift); }
  int64_t Real(int64_t t) const {
    return t + real_offset + static_cast<int64_t>(static_cast<double>(t) * drift) + (t >= step_at ? step_ns : 0);
  }
};

enum class Shape { kMegatron, kFsdp, kDdp, kGraph };

struct Layout : jobmodel::Layout {
  Shape shape = Shape::kMegatron;
  int32_t vpp = 1;    // chunks of the model on each stage
  int32_t shard = 0;  // FSDP: ranks per shard group; 0 or ranks: all
  int32_t layers = 2, micro_batches = 0, buckets = 2;
  bool sequence_parallel = true;
  bool p2p_sync = false;         // cudaDeviceSynchronize after every p2p batch, Megatron's default
  bool autograd_thread = false;  // backward calls come from their own thread
  bool split = true;  // creates communicators by ncclCommSplit of the world; otherwise each by its own unique id
  // Puts collectives for which the compute stream would wait at once on the compute stream itself, as PyTorch does
  // since 2.8.
  bool shared_stream = false;
  int32_t names = 0;  // 0: "tp_3"; 1: the framework's description; 2: no names
  std::string Text() const;
};

struct Job {
  Layout layout;
  int32_t ranks = 0, steps = 0, gpus_per_host = 8;
  uint64_t seed = 0;
  std::string name;
  uint32_t restart_count = 0;
  std::vector<Host> hosts;
  std::vector<Comm> comms;
  std::vector<std::array<int32_t, kSlots>> comm_of;      // indexed by rank: index into comms, -1 none
  std::vector<std::array<int32_t, kSlots>> member_of;    // indexed by rank: member rank there
  std::vector<std::shared_ptr<const Program>> programs;  // indexed by rank; ranks of one class share a program
  std::vector<double> compute_factor;                    // indexed by rank, 1 normal
  int32_t HostOf(int32_t rank) const { return rank / gpus_per_host; }
  jobmodel::Place Place(int32_t rank) const { return layout.PlaceOf(rank); }
  const Comm* CommOf(int32_t rank, Slot slot) const {
    const int32_t c = comm_of[static_cast<size_t>(rank)][slot];
    return c < 0 ? nullptr : &comms[static_cast<size_t>(c)];
  }
  // Replaces the rank's program by a copy that only this rank runs, and returns the copy.
  Program* Own(int32_t rank);
  // Creates the communicators' identities, once members, colors and order are final.
  void NameComms();
};

// "tp2-cp1-pp2-dp2-ep1-vpp1", "fsdp", "hsdp64" or "ddp". For "3d" (also "auto" or empty), "moe", "cp", "interleaved"
// and "graph", the seed chooses the sizes. On false, `error` has the reason.
bool MakeLayout(const std::string& text, int32_t ranks, uint64_t seed, Layout* layout, std::string* error);
// Creates machine, communicators and programs of `steps` steps.
Job MakeJob(const Layout& layout, int32_t ranks, int32_t steps, uint64_t seed);

// Elements that member i sends to member j in the n-th all-to-all of a communicator.
uint64_t SplitSize(uint64_t comm_id, uint64_t n, int32_t i, int32_t j, uint64_t base);

uint64_t DatatypeBytes(uint8_t datatype);

}  // namespace lockstep::corpus
