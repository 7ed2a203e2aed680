#include "tests/corpus/program.h"

#include "tests/jobmodel/step.h"

namespace lockstep::corpus {
namespace {

constexpr uint8_t kInt64 = 4, kFloat32 = 7, kBfloat16 = 9;
constexpr uint64_t kTokens = 4096, kHidden = 4096;

class Builder {
 public:
  Builder(const Job& job, int32_t rank)
      : job_(job),
        l_(job.layout),
        place_(job.Place(rank)),
        rank_(rank),
        comms_(job.comm_of[static_cast<size_t>(rank)]) {}

  Program Build() {
    MakeComms();
    if (Has(kWorld)) {
      Call(kWorld, CallKind::kAllReduce, 1, kFloat32, 0, kSiteBarrier);
      HostWait(CallKind::kStreamSynchronize);
    }
    for (int32_t step = 0; step < job_.steps; ++step) {
      Instr begin{.act = Act::kStep};
      begin.count = static_cast<uint64_t>(step);
      out_.push_back(begin);
      switch (l_.shape) {
        case Shape::kMegatron: Megatron(); break;
        case Shape::kFsdp: Fsdp(); break;
        case Shape::kDdp: Ddp(); break;
        case Shape::kGraph: Graph(step); break;
      }
      thread_ = 0;
    }
    return std::move(out_);
  }

 private:
  bool Has(Slot slot) const { return comms_[slot] >= 0; }
  size_t SizeOf(Slot slot) const {
    return Has(slot) ? job_.comms[static_cast<size_t>(comms_[slot])].members.size() : 1;
  }

  void Push(Instr in) {
    in.thread = thread_;
    out_.push_back(in);
  }
  void Compute(int64_t ns) {
    Instr in{.act = Act::kCompute};
    in.ns = ns;
    Push(in);
  }
  void HostWork(int64_t ns) {
    Instr in{.act = Act::kHostWork};
    in.ns = ns;
    Push(in);
  }
  void HostWait(CallKind kind) { Push({.act = Act::kHostWait, .kind = kind}); }
  void Join(Slot slot, bool async = true) {
    Instr in{.act = Act::kJoin, .slot = slot};
    in.async = async;
    Push(in);
  }
  void Call(Slot slot, CallKind kind, uint64_t count, uint8_t type, int reduction, uint32_t site, int32_t root = -1,
            bool async = false) {
    if (!Has(slot)) return;
    Instr in{.act = Act::kCall, .slot = slot, .kind = kind, .datatype = type};
    in.reduction = reduction < 0 ? ring::kNoReduction : static_cast<uint8_t>(reduction);
    in.count = count;
    in.site = site;
    in.root_or_peer = root;
    in.async = async;
    Push(in);
    if (!async) Join(slot, false);
  }

  void MakeComms() {
    bool seen[kSlots] = {};
    for (const Comm& comm : job_.comms) {
      if (seen[comm.slot]) continue;
      seen[comm.slot] = true;
      const bool split = comm.parent >= 0;
      if (!split && !Has(comm.slot)) continue;
      Instr in{.act = split ? Act::kSplit : Act::kInit, .slot = comm.slot, .kind = comm.origin};
      in.root_or_peer = split ? static_cast<int32_t>(kWorld) : -1;
      in.site = kSiteInit;
      Push(in);
      HostWork(300 * kMicro);
    }
  }

  // Adds a layer of one micro-batch. With `backward`, computations take twice as long, and calls have other sites.
  void Layer(bool backward) {
    const uint64_t shard = kTokens * kHidden / SizeOf(kTp);
    const uint32_t attention = backward ? kSiteBackwardAttention : kSiteForwardAttention;
    const uint32_t mlp = backward ? kSiteBackwardMlp : kSiteForwardMlp;
    const int64_t scale = backward ? 2 : 1;
    auto gather = [&](uint32_t site) {
      if (l_.sequence_parallel) Call(kTp, CallKind::kAllGather, shard, kBfloat16, -1, site);
    };
    auto reduce = [&](uint32_t site) {
      if (l_.sequence_parallel) {
        Call(kTp, CallKind::kReduceScatter, shard, kBfloat16, 0, site);
      } else {
        Call(kTp, CallKind::kAllReduce, kTokens * kHidden, kBfloat16, 0, site);
      }
    };
    gather(attention);
    Compute(250 * kMicro * scale);
    if (Has(kCp)) RingAttention(scale);
    reduce(attention);
    if (Has(kEp)) {
      Compute(60 * kMicro * scale);
      AllToAll(backward ? kSiteBackwardCombine : kSiteDispatch);
      Compute(300 * kMicro * scale);
      AllToAll(backward ? kSiteBackwardDispatch : kSiteCombine);
    } else {
      gather(mlp);
      Compute(350 * kMicro * scale);
      reduce(mlp);
    }
  }

  void AllToAll(uint32_t site) {
    // The device computes the sizes, so the CPU thread has to wait for them.
    HostWait(CallKind::kStreamSynchronize);
    Instr in{.act = Act::kAllToAllV, .slot = kEp, .kind = CallKind::kAlltoAll, .datatype = kBfloat16};
    in.count = kTokens / 8 * kHidden / SizeOf(kEp);
    in.site = site;
    Push(in);
    Join(kEp, false);
  }

  void RingAttention(int64_t scale) {
    const auto n = static_cast<int32_t>(SizeOf(kCp));
    const int32_t me = place_.cp;
    for (int32_t hop = 1; hop < n; ++hop) {
      Push({.act = Act::kGroupBegin, .slot = kCp});
      PeerCall(kCp, CallKind::kSend, (me + 1) % n, kTokens * kHidden / 8, kSiteRing);
      PeerCall(kCp, CallKind::kRecv, (me + n - 1) % n, kTokens * kHidden / 8, kSiteRing);
      Push({.act = Act::kGroupEnd, .slot = kCp, .kind = CallKind::kGroup});
      Compute(120 * kMicro * scale);
      Join(kCp);
    }
  }

  void PeerCall(Slot slot, CallKind kind, int32_t peer, uint64_t count, uint32_t site) {
    Instr in{.act = Act::kCall, .slot = slot, .kind = kind, .datatype = kBfloat16};
    in.root_or_peer = peer;
    in.count = count;
    in.site = site;
    in.async = true;
    Push(in);
  }

  int32_t Stages() const { return l_.pp; }
  int32_t Next() const { return (place_.pp + 1) % Stages(); }
  int32_t Previous() const { return (place_.pp + Stages() - 1) % Stages(); }
  // One batch of sends and receives, as batch_isend_irecv issues it, with an immediate wait.
  void Exchange(const jobmodel::Turn& turn) {
    const uint64_t count = kTokens * kHidden / (l_.sequence_parallel ? SizeOf(kTp) : 1);
    Push({.act = Act::kGroupBegin, .slot = kPp});
    if (turn.send_backward) PeerCall(kPp, CallKind::kSend, Previous(), count, kSiteSendBackward);
    if (turn.recv_forward) PeerCall(kPp, CallKind::kRecv, Previous(), count, kSiteRecvForward);
    if (turn.send_forward) PeerCall(kPp, CallKind::kSend, Next(), count, kSiteSendForward);
    if (turn.recv_backward) PeerCall(kPp, CallKind::kRecv, Next(), count, kSiteRecvBackward);
    Push({.act = Act::kGroupEnd, .slot = kPp, .kind = CallKind::kGroup});
    Join(kPp);
    if (l_.p2p_sync) HostWait(CallKind::kDeviceSynchronize);
  }

  void Forward() {
    thread_ = 0;
    for (int32_t layer = 0; layer < l_.layers; ++layer) Layer(false);
  }
  void Backward(bool last) {
    thread_ = l_.autograd_thread ? 1 : 0;
    for (int32_t layer = 0; layer < l_.layers; ++layer) Layer(true);
    if (last) {
      for (int32_t bucket = 0; bucket < l_.buckets; ++bucket) {
        Compute(40 * kMicro);
        Call(kDp, CallKind::kReduceScatter, 8'000'000 / SizeOf(kDp) + 1, kFloat32, 0, kSiteGrads, -1, true);
        if (Has(kEdp))
          Call(kEdp, CallKind::kReduceScatter, 2'000'000 / SizeOf(kEdp) + 1, kFloat32, 0, kSiteGrads, -1, true);
      }
    }
    thread_ = 0;
  }

  void Data() {
    HostWork(200 * kMicro);
    if (Has(kTp) && (place_.pp == 0 || place_.pp == Stages() - 1)) {
      Call(kTp, CallKind::kBroadcast, 32, kInt64, -1, kSiteData, 0);
      Call(kTp, CallKind::kBroadcast, kTokens, kInt64, -1, kSiteData, 0);
    }
  }

  void Megatron() {
    Data();
    const auto schedule = l_.vpp > 1 ? jobmodel::Schedule::kInterleaved : jobmodel::Schedule::kOneForwardOneBackward;
    int32_t backwards = 0;
    for (const jobmodel::Turn& turn : jobmodel::TurnsOf(schedule, place_.pp, Stages(), l_.micro_batches, l_.vpp)) {
      switch (turn.kind) {
        case jobmodel::Turn::kForward: Forward(); break;
        case jobmodel::Turn::kBackward: Backward(++backwards == l_.micro_batches * l_.vpp); break;
        case jobmodel::Turn::kExchange: Exchange(turn); break;
      }
    }
    if (Has(kDp)) Join(kDp);
    if (Has(kEdp)) Join(kEdp);
    if (Has(kEmb)) Call(kEmb, CallKind::kAllReduce, 2'000'000, kFloat32, 0, kSiteEmbedding);
    if (Has(kMp)) Call(kMp, CallKind::kAllReduce, 1, kFloat32, 0, kSiteNorm);
    if (!Has(kMp)) Call(kWorld, CallKind::kAllReduce, 1, kFloat32, 0, kSiteNorm);
    HostWait(CallKind::kMemcpy);  // the CPU thread needs the gradient norm to decide whether to step
    Compute(200 * kMicro);
    for (int32_t bucket = 0; bucket < l_.buckets; ++bucket)
      Call(kDp, CallKind::kAllGather, 8'000'000 / SizeOf(kDp) + 1, kBfloat16, -1, kSiteParams);
    if (Has(kMp) && place_.pp == Stages() - 1) Call(kDp, CallKind::kAllReduce, 1, kFloat32, 4, kSiteLoss);
    HostWait(CallKind::kStreamSynchronize);
  }

  void Fsdp() {
    HostWork(200 * kMicro);
    const uint64_t shard = 16'000'000 / SizeOf(kShard) + 1;
    const int32_t layers = l_.layers * 4;
    // Fetches the next layer's weights while this one computes.
    Call(kShard, CallKind::kAllGather, shard, kBfloat16, -1, kSiteUnshard, -1, true);
    for (int32_t i = 0; i < layers; ++i) {
      Join(kShard);
      if (i + 1 < layers) Call(kShard, CallKind::kAllGather, shard, kBfloat16, -1, kSiteUnshard, -1, true);
      Compute(600 * kMicro);
    }
    thread_ = l_.autograd_thread ? 1 : 0;
    for (int32_t i = 0; i < layers; ++i) {
      Join(kShard);
      if (i + 1 < layers) Call(kShard, CallKind::kAllGather, shard, kBfloat16, -1, kSiteUnshard, -1, true);
      Compute(1200 * kMicro);
      Call(kShard, CallKind::kReduceScatter, shard, kFloat32, 4, kSiteReshard, -1, true);
      if (Has(kReplica)) {
        Join(kShard);
        Call(kReplica, CallKind::kAllReduce, shard, kFloat32, 4, kSiteReplica, -1, true);
      }
    }
    thread_ = 0;
    Join(kShard);
    if (Has(kReplica)) Join(kReplica);
    Call(kWorld, CallKind::kAllReduce, 1, kFloat32, 0, kSiteNorm);
    HostWait(CallKind::kMemcpy);
    Compute(300 * kMicro);
    Call(kWorld, CallKind::kAllReduce, 1, kFloat32, 4, kSiteLoss);
    HostWait(CallKind::kStreamSynchronize);
  }

  void Ddp() {
    HostWork(200 * kMicro);
    Compute(3 * kMilli);
    thread_ = l_.autograd_thread ? 1 : 0;
    for (int32_t bucket = 0; bucket < 6; ++bucket) {
      Compute(900 * kMicro);
      Call(kWorld, CallKind::kAllReduce, bucket == 0 ? 1'000'000 : 6'553'600, kFloat32, 4, kSiteGrads, -1, true);
    }
    thread_ = 0;
    Join(kWorld);
    Compute(300 * kMicro);
    HostWait(CallKind::kStreamSynchronize);
  }

  // Captures the step once and replays it; after that the CPU thread makes no NCCL calls.
  void Graph(int32_t step) {
    HostWork(100 * kMicro);
    if (step == 0) {
      graph_ = static_cast<uint64_t>(out_.size());
      Push({.act = Act::kGraphBegin});
      for (int32_t layer = 0; layer < l_.layers * 2; ++layer) Layer(false);
      Push({.act = Act::kGraphEnd});
    }
    Instr in{.act = Act::kGraphLaunch, .kind = CallKind::kGraphLaunch};
    in.count = graph_;
    Push(in);
    HostWait(CallKind::kStreamSynchronize);
  }

  const Job& job_;
  const Layout& l_;
  jobmodel::Place place_;
  int32_t rank_;
  const std::array<int32_t, kSlots>& comms_;
  Program out_;
  uint8_t thread_ = 0;
  uint64_t graph_ = 0;
};

}  // namespace

int64_t ProgramClass(const Job& job, int32_t rank) {
  int64_t key = 0;
  const jobmodel::Place place = job.Place(rank);
  if (job.layout.shape == Shape::kMegatron) key = int64_t{place.pp} * job.layout.cp + place.cp;
  for (int32_t comm : job.comm_of[static_cast<size_t>(rank)]) key = key * 2 + (comm >= 0 ? 1 : 0);
  return key;
}

Program MakeProgram(const Job& job, int32_t rank) { return Builder(job, rank).Build(); }

const Site& SiteAt(uint32_t number) {
  static constexpr Site kTable[] = {
      {"initialize_model_parallel", "/opt/train/megatron/core/parallel_state.py", 812},
      {"broadcast_data", "/opt/train/megatron/core/tensor_parallel/data.py", 118},
      {"forward", "/opt/train/megatron/core/transformer/attention.py", 641},
      {"forward", "/opt/train/megatron/core/transformer/mlp.py", 187},
      {"backward", "/opt/train/megatron/core/tensor_parallel/layers.py", 522},
      {"backward", "/opt/train/megatron/core/tensor_parallel/layers.py", 561},
      {"token_permutation", "/opt/train/megatron/core/transformer/moe/token_dispatcher.py", 402},
      {"token_unpermutation", "/opt/train/megatron/core/transformer/moe/token_dispatcher.py", 455},
      {"backward", "/opt/train/megatron/core/tensor_parallel/mappings.py", 431},
      {"backward", "/opt/train/megatron/core/tensor_parallel/mappings.py", 447},
      {"flash_attn_p2p_communicate", "/opt/train/transformer_engine/pytorch/attention.py", 1573},
      {"send_forward", "/opt/train/megatron/core/pipeline_parallel/p2p_communication.py", 431},
      {"recv_forward", "/opt/train/megatron/core/pipeline_parallel/p2p_communication.py", 376},
      {"send_backward", "/opt/train/megatron/core/pipeline_parallel/p2p_communication.py", 455},
      {"recv_backward", "/opt/train/megatron/core/pipeline_parallel/p2p_communication.py", 403},
      {"start_grad_sync", "/opt/train/megatron/core/distributed/param_and_grad_buffer.py", 223},
      {"get_grad_norm_fp32", "/opt/train/megatron/core/optimizer/clip_grads.py", 91},
      {"start_param_sync", "/opt/train/megatron/core/distributed/param_and_grad_buffer.py", 168},
      {"finalize_model_grads", "/opt/train/megatron/core/distributed/finalize_model_grads.py", 120},
      {"average_losses", "/opt/train/train.py", 331},
      {"barrier", "/opt/train/train.py", 77},
      {"foreach_all_gather", "/opt/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", 164},
      {"foreach_reduce", "/opt/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", 372},
      {"foreach_reduce", "/opt/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", 401},
      {"log_metrics", "/opt/train/train.py", 402},
      {"teardown", "/opt/train/train.py", 518},
      {"heartbeat", "/opt/train/monitor.py", 58}};
  static_assert(sizeof(kTable) / sizeof(kTable[0]) == kSites);
  return kTable[number < kSites ? number : 0];
}

}  // namespace lockstep::corpus
