// Small jobs of many kinds, healthy or with one bug, for the tests of `lockstep check`: smalljobs NAME. --list prints
// one line per job: name, number of ranks, the ranks to name, and the call to name.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/workload/device.h"
#include "tests/workload/store.h"

namespace trainsim {
namespace {

constexpr int kSteps = 4, kBadStep = 3;  // steps count from 1
constexpr size_t kBytes = size_t{4} << 20;
constexpr size_t kHidden = 1024;

using Members = std::vector<int>;

// A communicator with its stream. Without a handle, this rank is not a member.
struct Comm {
  ncclComm_t handle = nullptr;
  cudaStream_t stream = nullptr;
  int size = 0, index = -1;
  explicit operator bool() const { return handle != nullptr; }
};

class Job;

struct Case {
  const char* name;
  void (*run)(Job& job);
  int ranks;
  // The ranks with the bug; empty for a healthy job.
  Members culprits;
  const char* call;  // the kind of call that must be named
  // The ranks that the check may name instead, if other ranks differ from the culprits in the same way. Empty: the
  // culprits.
  Members named;
};

class Job {
 public:
  Job(const Case& which, int rank, TCPStore* store)
      : rank(rank), size(which.ranks), case_(which), store_(store), memory_(Memory::Place::kDevice, 2 * kBytes) {}

  const int rank, size;
  int step = 0;

  char* in() const { return memory_.data(); }
  char* out() const { return memory_.data() + kBytes; }

  bool Is(const char* name) const { return std::strcmp(case_.name, name) == 0; }
  // Bug returns whether this rank has the bug, BugNow whether it has it in the current step.
  bool Bug(const char* name) const {
    return Is(name) && std::find(case_.culprits.begin(), case_.culprits.end(), rank) != case_.culprits.end();
  }
  bool BugNow(const char* name) const { return step == kBadStep && Bug(name); }

  // Creates a communicator from a unique ID of the first member.
  Comm New(const std::string& name, const Members& members) {
    Comm comm;
    const auto me = std::find(members.begin(), members.end(), rank);
    if (me == members.end()) return comm;
    comm.size = static_cast<int>(members.size());
    comm.index = static_cast<int>(me - members.begin());
    ncclUniqueId id{};
    std::string value, error;
    bool shared = true;
    if (comm.index == 0) {
      NCCL_OK(ncclGetUniqueId(&id));
      shared = store_->Set(name, std::string(id.internal, sizeof id.internal), &error);
    } else {
      shared = store_->Get(name, &value, &error) && value.size() == sizeof id.internal;
      if (shared) std::memcpy(id.internal, value.data(), sizeof id.internal);
    }
    if (!shared) FailCall("sharing a unique id", error.c_str(), __FILE__, __LINE__);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = name.c_str();
    NCCL_OK(ncclCommInitRankConfig(&comm.handle, comm.size, id, comm.index, &config));
    Keep(&comm);
    return comm;
  }
  Comm World() {
    Members all;
    for (int r = 0; r < size; ++r) all.push_back(r);
    return New("world", all);
  }
  Comm Split(const Comm& parent, const std::string& name, int color, int key) {
    Comm comm;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = name.c_str();
    NCCL_OK(ncclCommSplit(parent.handle, color, key, &comm.handle, &config));
    if (!comm) return comm;
    NCCL_OK(ncclCommCount(comm.handle, &comm.size));
    NCCL_OK(ncclCommUserRank(comm.handle, &comm.index));
    Keep(&comm);
    return comm;
  }
  void Destroy(const Comm& comm) {
    NCCL_OK(ncclCommDestroy(comm.handle));
    std::erase_if(comms_, [&](const Comm& other) { return other.handle == comm.handle; });
  }

  void Wait() {
    for (const Comm& comm : comms_) CUDA_OK(cudaStreamSynchronize(comm.stream));
  }
  void End() {
    Wait();
    while (!comms_.empty()) Destroy(Comm(comms_.back()));
  }

 private:
  void Keep(Comm* comm) {
    CUDA_OK(cudaStreamCreateWithFlags(&comm->stream, cudaStreamNonBlocking));
    comms_.push_back(*comm);
  }

  const Case& case_;
  TCPStore* const store_;
  const Memory memory_;
  std::vector<Comm> comms_;
};

// Macros, so that each call has its own source line.
#define ALL_REDUCE(comm, count, type, op) \
  NCCL_OK(ncclAllReduce(job.in(), job.out(), count, type, op, (comm).handle, (comm).stream))
#define SUM(comm, count) ALL_REDUCE(comm, count, ncclFloat32, ncclSum)
#define ALL_GATHER(comm, count) \
  NCCL_OK(ncclAllGather(job.in(), job.out(), count, ncclFloat32, (comm).handle, (comm).stream))
#define REDUCE_SCATTER(comm, count, op) \
  NCCL_OK(ncclReduceScatter(job.in(), job.out(), count, ncclFloat32, op, (comm).handle, (comm).stream))
#define BROADCAST(comm, count, root) \
  NCCL_OK(ncclBroadcast(job.in(), job.out(), count, ncclFloat32, root, (comm).handle, (comm).stream))
#define REDUCE(comm, count, root) \
  NCCL_OK(ncclReduce(job.in(), job.out(), count, ncclFloat32, ncclSum, root, (comm).handle, (comm).stream))
#define SEND(comm, count, peer) NCCL_OK(ncclSend(job.in(), count, ncclFloat32, peer, (comm).handle, (comm).stream))
#define RECV(comm, count, peer) NCCL_OK(ncclRecv(job.out(), count, ncclFloat32, peer, (comm).handle, (comm).stream))
#define GROUP_START() NCCL_OK(ncclGroupStart())
#define GROUP_END() NCCL_OK(ncclGroupEnd())

// Runs the following block once per step.
#define FOR_STEPS for (job.step = 1; job.step <= kSteps; job.Wait(), ++job.step)

// Data parallel: broadcasts the parameters, then reduces buckets of gradients and the loss in each step.
void DataParallel(Job& job) {
  const Comm world = job.World();
  BROADCAST(world, kHidden, 0);
  FOR_STEPS {
    if (job.BugNow("dp-out-of-data")) return;
    size_t buckets[] = {4096, 2048, 1024, 512};
    if (job.BugNow("dp-buckets-swapped")) std::swap(buckets[0], buckets[1]);
    for (size_t b = 0; b < 4; ++b) {
      if (b == 3 && job.BugNow("dp-frozen-bucket")) continue;
      if (b == 1 && job.BugNow("dp-last-batch")) buckets[b] -= 48;
      const ncclDataType_t type = b == 1 && job.BugNow("dp-half") ? ncclFloat16 : ncclFloat32;
      const ncclRedOp_t op = b == 2 && job.BugNow("dp-sum") ? ncclSum : ncclAvg;
      ALL_REDUCE(world, buckets[b], type, op);
    }
    if (job.BugNow("dp-log")) SUM(world, 1);
    SUM(world, 1);
    if (job.step % 2 == 1) BROADCAST(world, 16, job.BugNow("dp-root") ? job.rank : 0);
    if (job.BugNow("dp-checkpoint-barrier")) SUM(world, 1);
  }
}

// Tensor parallel in pairs, and data parallel across the pairs.
void TensorParallel(Job& job) {
  const Comm world = job.World();
  const Comm tp = job.Split(world, "tp", job.rank / 2, job.rank), dp = job.Split(world, "dp", job.rank % 2, job.rank);
  const auto forward = [&] {
    for (int layer = 0; layer < 2; ++layer) {
      ALL_GATHER(tp, 512);
      if (layer == 1 && job.BugNow("tp-gather-for-scatter")) {
        ALL_GATHER(tp, 512);
      } else {
        REDUCE_SCATTER(tp, 512, ncclSum);
      }
      if (layer == 0 && job.BugNow("tp-skipped-layer")) continue;
      SUM(layer == 1 && job.BugNow("tp-other-group") ? dp : tp, kHidden);
    }
  };
  FOR_STEPS {
    forward();
    CUDA_OK(cudaStreamSynchronize(tp.stream));
    if (job.BugNow("tp-clip-after-loss")) {
      SUM(world, 1);
      CUDA_OK(cudaStreamSynchronize(world.stream));
    }
    SUM(dp, 4096);
    CUDA_OK(cudaStreamSynchronize(dp.stream));
    if (!job.BugNow("tp-clip-after-loss")) SUM(world, 1);
    if (job.BugNow("tp-evaluation-alone")) forward();
  }
}

// Four pipeline stages of two replicas: rank = stage * 2 + replica.
void Pipeline(Job& job, size_t count) {
  const Comm world = job.World();
  const Comm pp = job.Split(world, "pp", job.rank % 2, job.rank), dp = job.Split(world, "dp", job.rank / 2, job.rank);
  const int stage = pp.index, next = stage + 1, before = stage - 1, last = pp.size - 1;
  constexpr int kBatches = 5;
  FOR_STEPS {
    const int warm = last - stage;
    int sent = 0, received = 0, back = 0;  // forward sends and receives, backward receives
    const auto receive = [&] {
      if (stage == 0) return;
      ++received;
      if (received == 2 && job.BugNow("pp-other-type")) {
        NCCL_OK(ncclRecv(job.out(), count, ncclInt32, before, pp.handle, pp.stream));
        return;
      }
      RECV(pp, received == 2 && job.BugNow("pp-short-receive") ? count / 2 : count, before);
    };
    for (int m = 0; m < warm; ++m) {
      receive();
      if (m == 0 && job.BugNow("pp-lost-batch")) continue;
      SEND(pp, count, m == 0 && job.BugNow("pp-wrong-peer") ? before : next);
      ++sent;
    }
    for (int m = warm; m < kBatches; ++m) {
      receive();
      if (stage == last) {
        SEND(pp, count, before);
        continue;
      }
      const bool alone = m == warm && (job.BugNow("pp-alone") || job.BugNow("pp-alone-large"));
      const bool open = m == warm + 1 && job.BugNow("pp-open-group");
      if (!alone) GROUP_START();
      SEND(pp, count, next);
      RECV(pp, count, next);
      if (!alone && !open) GROUP_END();
      ++back;
      if (stage > 0) SEND(pp, count, before);
      if (m == warm && job.BugNow("pp-twice")) SEND(pp, count, before);
    }
    for (; stage < last && back < kBatches; ++back) {
      RECV(pp, count, next);
      if (stage > 0) SEND(pp, count, before);
    }
    SUM(dp, 4096);
    if (stage == last) SUM(dp, 1);  // the loss
    if (job.BugNow("pp-loss-elsewhere")) SUM(dp, 1);
    SUM(world, 1);
  }
}
void SmallPipeline(Job& job) { Pipeline(job, 256); }
void LargePipeline(Job& job) { Pipeline(job, 65536); }

// Experts: each rank sends every other rank a number of tokens, which differs in each step.
size_t Tokens(int from, int to, int step) { return static_cast<size_t>((from * 7 + to * 3 + step) % 5) * 64; }
void Experts(Job& job) {
  const Comm ep = job.World();
  FOR_STEPS {
    ALL_GATHER(ep, static_cast<size_t>(job.size));  // the numbers of tokens
    for (int way = 0; way < 2; ++way) {
      if (way == 0 && job.BugNow("moe-no-tokens")) continue;
      const bool open = way == 0 && job.BugNow("moe-open-group"), grouped = !job.BugNow("moe-no-group");
      if (grouped) GROUP_START();
      for (int to = 0; to < job.size; ++to) {
        size_t count = way == 0 ? Tokens(job.rank, to, job.step) : Tokens(to, job.rank, job.step);
        if (to == 1 && job.BugNow("moe-wrong-split")) count += 64;
        if (count > 0 && to != job.rank) SEND(ep, count, to);
      }
      for (int from = 0; from < job.size; ++from) {
        const size_t count = way == 0 ? Tokens(from, job.rank, job.step) : Tokens(job.rank, from, job.step);
        if (count == 0 || from == job.rank) continue;
        if (way == 1 && from == job.size - 1 && job.BugNow("moe-dropped-peer")) continue;
        RECV(ep, count, from);
      }
      if (grouped && !open) GROUP_END();
    }
    SUM(ep, kHidden);
  }
}
void EvenExperts(Job& job) {
  const Comm world = job.World();
  const Comm ep = job.Split(world, "ep", job.rank / 4, job.rank), dp = job.Split(world, "dp", job.rank % 4, job.rank);
  FOR_STEPS {
    for (int layer = 0; layer < 3; ++layer) {
      const size_t count = layer == 1 && job.BugNow("moe-capacity") ? 96 : 128;
      NCCL_OK(ncclAlltoAll(job.in(), job.out(), count, ncclBfloat16, ep.handle, ep.stream));
      if (layer == 2 && job.BugNow("moe-gather-for-exchange")) {
        ALL_GATHER(ep, 64);
      } else {
        NCCL_OK(ncclAlltoAll(job.in(), job.out(), 128, ncclBfloat16, ep.handle, ep.stream));
      }
    }
    SUM(dp, 4096);
  }
}

// Sharded parameters, gathered in both passes; gradients are reduced and scattered. Shards are replicated.
void Sharded(Job& job) {
  const Comm world = job.World();
  const Comm shard = job.Split(world, "shard", job.rank / 4, job.rank);
  const Comm replica = job.Split(world, "replicate", job.rank % 4, job.rank);
  const size_t sizes[] = {1024, 2048, 512};
  FOR_STEPS {
    size_t order[] = {0, 1, 2};
    if (job.BugNow("fsdp-prefetch")) std::swap(order[1], order[2]);
    for (const size_t layer : order) {
      if (layer == 1 && job.BugNow("fsdp-cached")) continue;
      ALL_GATHER(shard, sizes[layer]);
    }
    for (size_t layer = 3; layer-- > 0;) {
      ALL_GATHER(shard, sizes[layer]);
      if (layer == 0 && job.BugNow("fsdp-frozen")) continue;
      REDUCE_SCATTER(shard, sizes[layer], layer == 1 && job.BugNow("fsdp-sum") ? ncclSum : ncclAvg);
      if (layer == 2 && job.BugNow("hsdp-no-sync")) continue;
      ALL_REDUCE(replica, sizes[layer], ncclFloat32, ncclAvg);
    }
    SUM(world, 1);
  }
}

// Communicators that are created during the job.
void Creations(Job& job) {
  const Comm world = job.World();
  SUM(world, 1);
  job.Wait();
  Comm rows, columns;
  const auto make_rows = [&] {
    int color = job.rank / 4;
    if (job.Bug("split-color")) color = 1 - color;
    rows = job.Split(world, "rows", color, job.rank);
  };
  const auto make_columns = [&] {
    if (!job.Bug("split-left-out")) columns = job.Split(world, "columns", job.rank % 4, job.rank);
  };
  const Comm even = job.New("even", {0, 2, 3, 4});
  job.New("odd", {1, 3, 5, 7});
  if (job.Bug("split-extra")) job.Split(world, "extra", 0, 0);
  if (job.Bug("split-order")) make_columns();
  make_rows();
  if (!job.Bug("split-order")) make_columns();
  Comm edges;
  if (!job.Bug("new-left-out")) edges = job.New("edges", {0, 1, 6, 7});
  FOR_STEPS {
    SUM(rows, 1024);
    if (columns) SUM(columns, 1024);
    if (edges) SUM(edges, 64);
    if (even) SUM(even, 32);
  }
}

// Two communicators on separate streams, which ranks use in conflicting orders.
void TwoOrders(Job& job) {
  const Comm world = job.World();
  const Comm pairs = job.Split(world, "pairs", job.rank / 2, job.rank);
  FOR_STEPS {
    const bool turned = job.BugNow("two-orders") || job.Bug("two-orders-even") || job.BugNow("two-orders-wait") ||
                        (job.Is("healthy-pair-first") && job.rank < 2);
    SUM(turned ? pairs : world, kHidden);
    if (job.BugNow("two-orders-wait")) job.Wait();
    SUM(turned ? world : pairs, kHidden);
  }
}
// Each rank belongs to two of three communicators.
void ThreeOrders(Job& job) {
  const Comm ab = job.New("ab", {0, 1}), bc = job.New("bc", {1, 2}), ca = job.New("ca", {2, 0});
  FOR_STEPS {
    const bool turned = job.BugNow("three-orders") || job.BugNow("three-orders-wait");
    for (const Comm* comm :
         turned ? std::vector<const Comm*>{&ca, &bc, &ab} : std::vector<const Comm*>{&ab, &bc, &ca}) {
      if (*comm) SUM(*comm, 256);
      if (job.Is("three-orders-wait")) job.Wait();
    }
  }
}

// Calls of two communicators in one group, and rooted calls.
void Grouped(Job& job) {
  const Comm world = job.World();
  const Comm half = job.Split(world, "half", job.rank / 4, job.rank);
  FOR_STEPS {
    GROUP_START();
    SUM(world, 128);
    if (!job.BugNow("group-incomplete")) SUM(half, 128);
    BROADCAST(half, 64, 0);
    GROUP_END();
    REDUCE(half, 64, job.BugNow("reduce-root") ? 2 : 1);
    NCCL_OK(ncclGather(job.in(), job.out(), job.BugNow("gather-count") ? 32 : 64, ncclFloat32, 3, half.handle,
                       half.stream));
    NCCL_OK(ncclScatter(job.in(), job.out(), 64, ncclFloat32, 0, half.handle, half.stream));
    SUM(world, 1);
  }
  if (job.Bug("group-open-at-end")) {
    GROUP_START();
    SUM(world, 2);
    return;
  }
  SUM(world, 2);
}

// A ring: each rank sends blocks to the next rank and receives from the previous one.
void Ring(Job& job) {
  const Comm cp = job.World();
  const int next = (job.rank + 1) % job.size, before = (job.rank + job.size - 1) % job.size;
  FOR_STEPS {
    for (int block = 0; block < job.size - 1; ++block) {
      const bool bad = block == 1, grouped = !job.Is("ring-alone") && !job.Is("ring-alone-large");
      if (bad && job.BugNow("ring-one-block-less")) break;
      if (grouped) GROUP_START();
      const size_t count = job.Is("ring-alone-large") ? 65536 : 512;
      SEND(cp, count, bad && job.BugNow("ring-turned") ? before : next);
      RECV(cp, count, bad && job.BugNow("ring-turned") ? next : before);
      if (grouped) GROUP_END();
    }
    SUM(cp, 64);
  }
}

// The following jobs are healthy although their ranks differ.

// A ring without groups: even ranks send first.
void EvenOdd(Job& job) {
  const Comm cp = job.World();
  const int next = (job.rank + 1) % job.size, before = (job.rank + job.size - 1) % job.size;
  FOR_STEPS {
    if (job.rank % 2 == 0) {
      SEND(cp, 65536, next);
      RECV(cp, 65536, before);
    } else {
      RECV(cp, 65536, before);
      SEND(cp, 65536, next);
    }
  }
}

// The first rank of each host reduces across hosts.
void Hierarchy(Job& job) {
  const Comm world = job.World();
  const Comm host = job.Split(world, "host", job.rank / 4, job.rank);
  const Comm leaders = job.Split(world, "leaders", host.index == 0 ? 0 : NCCL_SPLIT_NOCOLOR, job.rank);
  FOR_STEPS {
    REDUCE(host, kHidden, 0);
    if (leaders) {
      CUDA_OK(cudaStreamSynchronize(host.stream));
      SUM(leaders, kHidden);
      CUDA_OK(cudaStreamSynchronize(leaders.stream));
    }
    BROADCAST(host, kHidden, 0);
  }
}

// Ranks 0 and 1 share a communicator for logging, and rank 0 calls its broadcasts on another line.
void Logging(Job& job) {
  const Comm world = job.World(), log = job.New("log", {0, 1});
  FOR_STEPS {
    SUM(world, 4096);
    if (job.rank == 0) {
      BROADCAST(world, 32, 0);
    } else {
      BROADCAST(world, 32, 0);
    }
    if (log) SUM(log, 8);
    if (log && job.step == 2) SUM(log, 8);
  }
}

// Replicas have different numbers of rounds because of sequence lengths, and only some evaluate.
void Rounds(Job& job) {
  const Comm world = job.World();
  const Comm tp = job.Split(world, "tp", job.rank / 2, job.rank), dp = job.Split(world, "dp", job.rank % 2, job.rank);
  const int replica = job.rank / 2;
  FOR_STEPS {
    const int rounds = job.Is("healthy-rounds") ? 2 + (replica + job.step) % 3 : 2;
    for (int round = 0; round < rounds; ++round) {
      ALL_GATHER(tp, 256);
      SUM(tp, kHidden);
    }
    SUM(dp, 2048);
    SUM(world, 1);
    if (job.Is("healthy-evaluation") && job.step % 2 == 0 && replica < 2) {
      for (int batch = 0; batch < 3; ++batch) SUM(tp, 512);
    }
  }
}

// Gradients are reduced only in the last micro-batch of a step.
void Accumulation(Job& job) {
  const Comm world = job.World();
  FOR_STEPS {
    for (int micro = 0; micro < 3; ++micro) {
      if (micro == 2) {
        for (int bucket = 0; bucket < 3; ++bucket) SUM(world, 1024);
      }
      CUDA_OK(cudaMemsetAsync(job.in(), 1, 4096, world.stream));
    }
  }
}

// Workers send gradients to rank 0, which answers.
void ParameterServer(Job& job) {
  const Comm world = job.World();
  FOR_STEPS {
    if (job.rank == 0) {
      for (int from = 1; from < job.size; ++from) RECV(world, kHidden, from);
      for (int to = 1; to < job.size; ++to) SEND(world, kHidden, to);
    } else {
      SEND(world, kHidden, 0);
      RECV(world, kHidden, 0);
    }
  }
}

// Actors (ranks 0-3) and learners (4-7) train in their own groups and meet in world.
void ActorsAndLearner(Job& job) {
  const Comm world = job.World();
  const Comm own = job.Split(world, job.rank < 4 ? "actors" : "learner", job.rank / 4, job.rank);
  FOR_STEPS {
    if (job.rank < 4) {
      for (int turn = 0; turn < 5; ++turn) ALL_GATHER(own, 64);
    } else {
      for (int epoch = 0; epoch < 3; ++epoch) {
        SUM(own, 4096);
        SUM(own, 1);
      }
    }
    BROADCAST(world, 2048, 4);
  }
}

// Two stages of different width: tensor parallel over 2 and over 4 ranks.
void UnevenStages(Job& job) {
  const Comm world = job.World();
  const bool first = job.rank < 2;
  const Comm tp = job.Split(world, first ? "tp_a" : "tp_b", first ? 0 : 1, job.rank);
  FOR_STEPS {
    for (int m = 0; m < 3; ++m) {
      if (first) {
        SUM(tp, kHidden);
        CUDA_OK(cudaStreamSynchronize(tp.stream));
        GROUP_START();
        SEND(world, 256, 2 + 2 * job.rank);
        SEND(world, 256, 3 + 2 * job.rank);
        GROUP_END();
      } else {
        RECV(world, 256, (job.rank - 2) / 2);
        SUM(tp, kHidden / 2);
      }
    }
    SUM(world, 1);
  }
}

// The first and the last stage share the embedding. Only the last stage has the loss, and sends it to all.
void TiedEmbeddings(Job& job) {
  const Comm world = job.World(), ties = job.New("embedding", {0, 3});
  FOR_STEPS {
    for (int m = 0; m < 3; ++m) {
      if (job.rank > 0) RECV(world, 512, job.rank - 1);
      if (job.rank < 3) SEND(world, 512, job.rank + 1);
    }
    for (int m = 0; m < 3; ++m) {
      if (job.rank < 3) RECV(world, 512, job.rank + 1);
      if (job.rank > 0) SEND(world, 512, job.rank - 1);
    }
    job.Wait();
    if (ties) SUM(ties, 2048);
    job.Wait();
    BROADCAST(world, 1, 3);
  }
}

// A communicator that is created again in each step, with its members in reversed order.
void MadeAgain(Job& job) {
  const Comm world = job.World();
  FOR_STEPS {
    const Comm half = job.Split(world, "half", job.rank / 4, -job.rank);
    SUM(half, 512);
    BROADCAST(half, 512, half.size - 1);
    job.Wait();
    job.Destroy(half);
    SUM(world, 1);
  }
}

// Rank 0 collects shards for a checkpoint and writes it while the others continue.
void Checkpoint(Job& job) {
  const Comm world = job.World();
  FOR_STEPS {
    SUM(world, 4096);
    if (job.step % 2 == 1) {
      if (job.rank == 0) {
        for (int from = 1; from < job.size; ++from) RECV(world, 128 + 16 * static_cast<size_t>(from), from);
        job.Wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      } else {
        SEND(world, 128 + 16 * static_cast<size_t>(job.rank), 0);
      }
    }
    SUM(world, 1);
  }
}

// Two threads, each with its own communicator.
void TwoThreads(Job& job) {
  const Comm main = job.New("main", {0, 1, 2, 3}), side = job.New("side", {0, 1, 2, 3});
  std::thread thread([&] {
    for (int i = 0; i < 20; ++i) {
      SUM(side, 64);
      CUDA_OK(cudaStreamSynchronize(side.stream));
    }
  });
  FOR_STEPS {
    for (int i = 0; i < 5; ++i) SUM(main, 1024);
  }
  thread.join();
}

void Alone(Job& job) {
  const Comm world = job.World();
  FOR_STEPS {
    SUM(world, kHidden);
    BROADCAST(world, 16, 0);
  }
}

const std::vector<Case> kCases = {
    {"dp-frozen-bucket", DataParallel, 8, {3}, "AllReduce", {}},
    {"dp-log", DataParallel, 8, {5}, "AllReduce", {}},
    {"dp-checkpoint-barrier", DataParallel, 8, {0}, "AllReduce", {}},
    {"dp-buckets-swapped", DataParallel, 8, {2}, "AllReduce", {}},
    {"dp-last-batch", DataParallel, 8, {7}, "AllReduce", {}},
    {"dp-half", DataParallel, 8, {4}, "AllReduce", {}},
    {"dp-sum", DataParallel, 8, {1}, "AllReduce", {}},
    {"dp-root", DataParallel, 8, {6}, "Broadcast", {}},
    {"dp-out-of-data", DataParallel, 8, {6}, "AllReduce", {}},
    {"tp-skipped-layer", TensorParallel, 8, {5}, "AllReduce", {}},
    {"tp-gather-for-scatter", TensorParallel, 8, {6}, "AllGather", {}},
    {"tp-other-group", TensorParallel, 8, {3}, "AllReduce", {}},
    {"tp-clip-after-loss", TensorParallel, 8, {1}, "AllReduce", {}},
    {"tp-evaluation-alone", TensorParallel, 8, {2}, "AllGather", {}},
    {"pp-wrong-peer", SmallPipeline, 8, {2}, "Send", {}},
    {"pp-lost-batch", SmallPipeline, 8, {5}, "Send", {}},
    {"pp-short-receive", SmallPipeline, 8, {6}, "Send", {4, 6}},
    {"pp-other-type", SmallPipeline, 8, {5}, "Send", {3, 5}},
    {"pp-twice", SmallPipeline, 8, {3}, "Send", {}},
    {"pp-open-group", SmallPipeline, 8, {4}, "Send", {}},
    {"pp-loss-elsewhere", SmallPipeline, 8, {0}, "AllReduce", {}},
    {"pp-alone-large", LargePipeline, 8, {2}, "Send", {2, 4}},
    {"pp-alone", SmallPipeline, 8, {2}, "Send", {2, 4}},
    {"moe-no-tokens", Experts, 8, {4}, "Send", {}},
    {"moe-wrong-split", Experts, 8, {3}, "Recv", {1, 3}},
    {"moe-dropped-peer", Experts, 8, {2}, "Recv", {2, 7}},
    {"moe-open-group", Experts, 8, {5}, "Send", {}},
    {"moe-no-group", Experts, 4, {0, 1, 2, 3}, "Send", {0, 1, 2}},
    {"moe-capacity", EvenExperts, 8, {7}, "AlltoAll", {}},
    {"moe-gather-for-exchange", EvenExperts, 8, {1}, "AllGather", {}},
    {"fsdp-prefetch", Sharded, 8, {1}, "AllGather", {}},
    {"fsdp-cached", Sharded, 8, {3}, "AllGather", {}},
    {"fsdp-frozen", Sharded, 8, {6}, "ReduceScatter", {}},
    {"fsdp-sum", Sharded, 8, {2}, "ReduceScatter", {}},
    {"hsdp-no-sync", Sharded, 8, {7}, "AllReduce", {}},
    {"split-color", Creations, 8, {2}, "split", {}},
    {"split-order", Creations, 8, {6}, "split", {}},
    {"split-extra", Creations, 8, {0}, "Split", {}},
    {"split-left-out", Creations, 8, {4}, "Split", {}},
    {"new-left-out", Creations, 8, {1}, "Init", {1, 2, 3, 4, 5}},
    {"two-orders", TwoOrders, 8, {6}, "AllReduce", {}},
    {"two-orders-even", TwoOrders, 8, {0, 2, 4, 6}, "AllReduce", {0, 1}},
    {"two-orders-wait", TwoOrders, 8, {2}, "AllReduce", {}},
    {"three-orders", ThreeOrders, 3, {1, 2}, "AllReduce", {0, 1, 2}},
    {"three-orders-wait", ThreeOrders, 3, {1, 2}, "AllReduce", {0, 1, 2}},
    {"group-incomplete", Grouped, 8, {3}, "AllReduce", {}},
    {"reduce-root", Grouped, 8, {5}, "Reduce", {}},
    {"gather-count", Grouped, 8, {6}, "Gather", {}},
    {"group-open-at-end", Grouped, 8, {7}, "AllReduce", {}},
    {"ring-one-block-less", Ring, 8, {3}, "Send", {}},
    {"ring-turned", Ring, 8, {5}, "Send", {}},
    {"ring-alone", Ring, 4, {0, 1, 2, 3}, "Send", {}},
    {"ring-alone-large", Ring, 4, {0, 1, 2, 3}, "Send", {}},
    {"healthy-dp", DataParallel, 8, {}, "", {}},
    {"healthy-tp", TensorParallel, 8, {}, "", {}},
    {"healthy-pp", SmallPipeline, 8, {}, "", {}},
    {"healthy-pp-large", LargePipeline, 8, {}, "", {}},
    {"healthy-experts", Experts, 8, {}, "", {}},
    {"healthy-even-experts", EvenExperts, 8, {}, "", {}},
    {"healthy-fsdp", Sharded, 8, {}, "", {}},
    {"healthy-creations", Creations, 8, {}, "", {}},
    {"healthy-one-order", TwoOrders, 8, {}, "", {}},
    {"healthy-pair-first", TwoOrders, 8, {}, "", {}},
    {"healthy-three", ThreeOrders, 3, {}, "", {}},
    {"healthy-grouped", Grouped, 8, {}, "", {}},
    {"healthy-ring", Ring, 8, {}, "", {}},
    {"healthy-even-odd", EvenOdd, 8, {}, "", {}},
    {"healthy-hierarchy", Hierarchy, 8, {}, "", {}},
    {"healthy-logging", Logging, 8, {}, "", {}},
    {"healthy-rounds", Rounds, 8, {}, "", {}},
    {"healthy-evaluation", Rounds, 8, {}, "", {}},
    {"healthy-accumulation", Accumulation, 4, {}, "", {}},
    {"healthy-parameter-server", ParameterServer, 4, {}, "", {}},
    {"healthy-actors", ActorsAndLearner, 8, {}, "", {}},
    {"healthy-uneven-stages", UnevenStages, 6, {}, "", {}},
    {"healthy-tied-embeddings", TiedEmbeddings, 4, {}, "", {}},
    {"healthy-made-again", MadeAgain, 8, {}, "", {}},
    {"healthy-checkpoint", Checkpoint, 8, {}, "", {}},
    {"healthy-threads", TwoThreads, 4, {}, "", {}},
    {"healthy-alone", Alone, 1, {}, "", {}},
};

std::string Text(const Members& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
  return text.empty() ? "-" : text;
}

int Number(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? -1 : std::atoi(text);
}

int Run(const Case& which) {
  const int rank = Number("RANK"), port = Number("MASTER_PORT");
  if (Number("WORLD_SIZE") != which.ranks || rank < 0) {
    std::fprintf(stderr, "smalljobs: %s needs %d ranks\n", which.name, which.ranks);
    return 2;
  }
  SetRankForMessages(rank);
  CUDA_OK(cudaSetDevice(rank % 8));
  TCPStoreServer server;
  std::string error;
  if (rank == 0 && !server.Start("127.0.0.1", port, &error))
    FailCall("starting the store", error.c_str(), __FILE__, __LINE__);
  TCPStore store("127.0.0.1", port, 30);
  Job job(which, rank, &store);
  which.run(job);
  job.End();
  return 0;
}

}  // namespace
}  // namespace trainsim

int main(int argc, char** argv) {
  const std::string name = argc == 2 ? argv[1] : "";
  for (const trainsim::Case& each : trainsim::kCases) {
    if (name == each.name) return trainsim::Run(each);
    if (name != "--list") continue;
    std::printf("%s %d %s %s\n", each.name, each.ranks,
                trainsim::Text(each.named.empty() ? each.culprits : each.named).c_str(),
                each.call[0] ? each.call : "-");
  }
  if (name == "--list") return 0;
  std::fprintf(stderr, "smalljobs: unknown job '%s'; --list prints all jobs\n", name.c_str());
  return 2;
}
