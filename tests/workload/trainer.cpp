#include "tests/workload/trainer.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace trainsim {
namespace {

constexpr size_t kWidest = 8;
constexpr int kNotANumber = 0xff;  // bytes of this value are NaN or -1, which is never a result

void CUDART_CB Nap(void* nanoseconds) {
  const auto total = static_cast<int64_t>(reinterpret_cast<intptr_t>(nanoseconds));
  timespec left{total / 1'000'000'000, total % 1'000'000'000};
  while (nanosleep(&left, &left) != 0) {
  }
}

void LaunchNap(cudaStream_t stream, double seconds) {
  const auto nanoseconds = static_cast<intptr_t>(seconds * 1e9);
  CUDA_OK(cudaLaunchHostFunc(stream, Nap, reinterpret_cast<void*>(nanoseconds)));
}

CallArgs Args(int64_t count, ncclDataType_t type) {
  CallArgs args;
  args.count = static_cast<size_t>(count);
  args.type = type;
  return args;
}

// Returns the bytes that any operation of the communicator needs, even with twice the count, or an AllGather in its
// place.
size_t Capacity(const Options& options, const Comm& comm) {
  const int64_t count = comm.kind == CommKind::kWorld ? kSmallCount : std::max(options.elements, kSmallCount);
  return kWidest * static_cast<size_t>(count * std::max(2, comm.size()));
}

double LossOf(const Options& options, int step, int rank) {
  return 1.5 + 9.0 / (1.0 + 0.03 * step) + 0.01 * BaseValue(options.seed, step, rank);
}

}  // namespace

Trainer::Trainer(const Options& options, int rank, Communicators* comms)
    : options_(options), rank_(rank), comms_(*comms), faults_(options, rank), place_(PlaceOf(options, rank)) {
  if (options.shared_stream) {
    compute_ = comms_[CommKind::kWorld].stream;
  } else {
    CUDA_OK(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking));
  }
  CUDA_OK(cudaEventCreateWithFlags(&loss_ready_, cudaEventDisableTiming));
  const int64_t elements = options.elements;
  AddPlane(CommKind::kWorld, ncclInt32, kLossCount, 1);
  AddPlane(CommKind::kWorld, ncclFloat64, kLossCount, 1);
  if (comms_[CommKind::kTp].used()) {
    AddPlane(CommKind::kTp, ncclInt64, elements / 4, 1);
    for (ncclDataType_t type : {ncclBfloat16, ncclFloat16, ncclFloat32}) {
      AddPlane(CommKind::kTp, type, elements, options.tp);
    }
  }
  if (comms_[CommKind::kDp].used()) {
    AddPlane(CommKind::kDp, ncclInt32, kSmallCount, 1);
    AddPlane(CommKind::kDp, ncclFloat32, elements, options.dp);
    AddPlane(CommKind::kDp, ncclBfloat16, elements, options.dp);
    for (int i = 0; i < options.layers; ++i) {
      gradients_.emplace_back(Memory::Place::kDevice, Capacity(options, comms_[CommKind::kDp]));
    }
  }
  if (comms_[CommKind::kEp].used()) {
    AddPlane(CommKind::kEp, ncclUint8, kSmallCount, 1);
    AddPlane(CommKind::kEp, ncclFloat32, kSmallCount, 1);
    AddPlane(CommKind::kEp, ncclBfloat16, elements, options.ep);
    AddPlane(CommKind::kEp, ncclFloat16, elements, options.ep);
  }
  if (comms_[CommKind::kPp].used()) {
    // Each micro-batch has one share for the activation and one for the gradient.
    AddPlane(CommKind::kPp, ncclBfloat16, elements * 2 * options.micro_batches, 2 * options.micro_batches);
    for (Memory* buffer : {&send_next_, &send_prev_, &recv_next_, &recv_prev_}) {
      *buffer = Memory(Memory::Place::kDevice, Capacity(options, comms_[CommKind::kPp]));
    }
  }
  for (int i = 0; i < kCommKinds; ++i) {
    Comm& comm = comms_[static_cast<CommKind>(i)];
    if (comm.used()) results_[static_cast<size_t>(i)] = Memory(Memory::Place::kDevice, Capacity(options, comm));
  }
  work_ = Memory(Memory::Place::kDevice, kWidest * static_cast<size_t>(elements));
  loss_host_ = Memory(Memory::Place::kPinned, kWidest * kLossCount);
  // At most twelve checks per layer and micro-batch, and a few per step.
  const int64_t most = int64_t{options.micro_batches} * (12 * options.layers + 4) + 4 * options.layers + 16;
  check_values_ = Memory(Memory::Place::kPinned, kWidest * static_cast<size_t>(most));
}

void Trainer::AddPlane(CommKind kind, ncclDataType_t type, int64_t count, int64_t shares) {
  Plane& plane = planes_[{kind, type}];
  plane.type = type;
  plane.count = count;
  plane.shares = shares;
  const size_t bytes = static_cast<size_t>(count) * SizeOf(type);
  plane.staging = Memory(Memory::Place::kPinned, bytes);
  plane.device = Memory(Memory::Place::kDevice, std::max(bytes, Capacity(options_, comms_[kind])));
  CUDA_OK(cudaMemsetAsync(plane.device.data(), 0, plane.device.size(), compute_));
}

const char* Trainer::Input(CommKind kind, ncclDataType_t type) const { return planes_.at({kind, type}).device.data(); }

void Trainer::Fill(Plane* plane, double base) {
  const size_t size = SizeOf(plane->type);
  const int64_t length = plane->count / plane->shares;
  char* out = plane->staging.data();
  for (int64_t share = 0; share < plane->shares; ++share) {
    char element[kWidest];
    Encode(plane->type, ShareValue(base, share), element);
    for (int64_t i = 0; i < length; ++i, out += size) std::memcpy(out, element, size);
  }
}

double Trainer::SumOf(const Comm& comm, int64_t share) const {
  double sum = 0;
  for (int rank : comm.ranks) sum += ShareValue(Base(rank), share);
  return sum;
}

void Trainer::HandOver(Comm& comm) {
  if (dry_) return;
  CUDA_OK(cudaEventRecord(comm.ready, compute_));
  CUDA_OK(cudaStreamWaitEvent(comm.stream, comm.ready, 0));
}

void Trainer::TakeBack(Comm& comm) {
  if (dry_) return;
  CUDA_OK(cudaEventRecord(comm.done, comm.stream));
  CUDA_OK(cudaStreamWaitEvent(compute_, comm.done, 0));
}

void Trainer::Poison(char* data, size_t size) {
  if (!dry_) CUDA_OK(cudaMemsetAsync(data, kNotANumber, size, compute_));
}

void Trainer::Expect(const Comm& comm, const char* what, ncclDataType_t type, const char* element, double expected) {
  char* slot = check_values_.data() + kWidest * checks_.size();
  if (!dry_) CUDA_OK(cudaMemcpyAsync(slot, element, SizeOf(type), cudaMemcpyDeviceToHost, compute_));
  checks_.push_back({&comm, what, type, expected});
}

void Trainer::Step(int step) {
  step_ = step;
  checks_.clear();
  // The first step runs normally and connects the communicators. The second step is captured; from then on, the graph
  // is launched.
  const bool replay = options_.graph && step > 1;
  if (replay && graph_ == nullptr) Capture();
  checks_.clear();
  faults_.BeginStep(step);
  dry_ = replay;
  Issue();
  dry_ = false;
  if (replay) CUDA_OK(cudaGraphLaunch(graph_, compute_));
  WaitForLoss();
  if (!options_.ExpectsWrongData()) Verify();
  if (std::string unplayed = faults_.Unplayed(); !unplayed.empty()) {
    std::fprintf(stderr, "trainsim: rank %d: %s\n", rank_, unplayed.c_str());
    std::_Exit(2);
  }
}

void Trainer::Issue() {
  LoadBatch();
  BroadcastInputs();
  Pipeline();
  if (comms_[CommKind::kDp].used() && faults_.Due(FaultKind::kSwapOrder)) {
    ReduceLoss();
    Optimize();
  } else {
    Optimize();
    ReduceLoss();
  }
  const char* out = results_[static_cast<size_t>(CommKind::kWorld)].data();
  if (!dry_) CUDA_OK(cudaMemcpyAsync(loss_host_.data(), out, kWidest, cudaMemcpyDeviceToHost, compute_));
}

// Captures as frameworks do: on one stream, which the other streams join and return to.
void Trainer::Capture() {
  faults_.BeginStep(0);  // faults occur later, when the step is replayed
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeGlobal));
  capturing_ = true;
  Issue();
  capturing_ = false;
  CUDA_OK(cudaStreamEndCapture(compute_, &graph));
  CUDA_OK(cudaGraphInstantiate(&graph_, graph, 0));
  CUDA_OK(cudaGraphDestroy(graph));
}

void Trainer::LoadBatch() {
  if (faults_.Due(FaultKind::kStallLoader)) WaitForBatchForEver();
  for (auto& [key, plane] : planes_) {
    Fill(&plane, Base(rank_));
    if (key.first == CommKind::kWorld && plane.type == ncclFloat64) {
      Encode(ncclFloat64, LossOf(options_, step_, rank_), plane.staging.data());
    }
    if (dry_) continue;
    CUDA_OK(cudaMemcpyAsync(plane.device.data(), plane.staging.data(), plane.staging.size(), cudaMemcpyHostToDevice,
                            compute_));
  }
}

void Trainer::BroadcastInputs() {
  Comm& world = comms_[CommKind::kWorld];
  char* out = results_[static_cast<size_t>(CommKind::kWorld)].data();
  Poison(results_[static_cast<size_t>(CommKind::kWorld)]);
  Launch(world, OpKind::kBroadcast, Args(kLossCount, ncclInt32), Join::kNow, [&](const CallArgs& args) {
    return ncclBroadcast(Input(CommKind::kWorld, ncclInt32), out, args.count, args.type, args.root, world.handle,
                         world.stream);
  });
  Expect(world, "Broadcast", ncclInt32, out + 4 * (kLossCount - 1), Base(0));
  if (Comm& tp = comms_[CommKind::kTp]; tp.used()) {
    char* tokens = results_[static_cast<size_t>(CommKind::kTp)].data();
    const int64_t count = options_.elements / 4;
    Poison(results_[static_cast<size_t>(CommKind::kTp)]);
    Launch(tp, OpKind::kBroadcast, Args(count, ncclInt64), Join::kNow, [&](const CallArgs& args) {
      return ncclBroadcast(Input(CommKind::kTp, ncclInt64), tokens, args.count, args.type, args.root, tp.handle,
                           tp.stream);
    });
    Expect(tp, "Broadcast", ncclInt64, tokens + 8 * (count - 1), Base(tp.ranks[0]));
  }
  if (Comm& dp = comms_[CommKind::kDp]; dp.used()) {
    char* scale = results_[static_cast<size_t>(CommKind::kDp)].data();
    Poison(results_[static_cast<size_t>(CommKind::kDp)]);
    Launch(dp, OpKind::kBroadcast, Args(kSmallCount, ncclInt32), Join::kNow, [&](const CallArgs& args) {
      return ncclBroadcast(Input(CommKind::kDp, ncclInt32), scale, args.count, args.type, args.root, dp.handle,
                           dp.stream);
    });
    Expect(dp, "Broadcast", ncclInt32, scale + 4 * (kSmallCount - 1), Base(dp.ranks[0]));
  }
  if (Comm& ep = comms_[CommKind::kEp]; ep.used()) {
    char* routes = results_[static_cast<size_t>(CommKind::kEp)].data();
    Poison(results_[static_cast<size_t>(CommKind::kEp)]);
    Launch(ep, OpKind::kBroadcast, Args(kSmallCount, ncclUint8), Join::kNow, [&](const CallArgs& args) {
      return ncclBroadcast(Input(CommKind::kEp, ncclUint8), routes, args.count, args.type, args.root, ep.handle,
                           ep.stream);
    });
    Expect(ep, "Broadcast", ncclUint8, routes + kSmallCount - 1, Base(ep.ranks[0]));
  }
}

void Trainer::Compute() {
  if (dry_) return;
  CUDA_OK(cudaMemsetAsync(work_.data(), 0, work_.size(), compute_));
  const double milliseconds = options_.pace_ms + ExtraMilliseconds();
  if (milliseconds > 0) LaunchNap(compute_, milliseconds / 1e3 / (2.0 * options_.layers * options_.micro_batches));
}

double Trainer::ExtraMilliseconds() const {
  double extra = rank_ == options_.straggler.rank ? options_.straggler.milliseconds : 0;
  if (options_.jitter_ms > 0) {
    // All ranks draw the same number.
    const uint64_t drawn = (options_.seed + static_cast<uint64_t>(step_)) * 0x9e3779b97f4a7c15ULL >> 33;
    if (drawn % static_cast<uint64_t>(options_.WorldSize()) == static_cast<uint64_t>(rank_))
      extra += options_.jitter_ms;
  }
  return extra;
}

void Trainer::ForwardLayer() {
  Compute();
  Comm& tp = comms_[CommKind::kTp];
  if (tp.used()) {
    const Memory& result = results_[static_cast<size_t>(CommKind::kTp)];
    char* out = result.data();
    const int64_t share = options_.elements / options_.tp;
    Poison(result);
    Launch(tp, OpKind::kAllGather, Args(share, ncclBfloat16), Join::kNow, [&](const CallArgs& args) {
      return ncclAllGather(Input(CommKind::kTp, ncclBfloat16), out, args.count, args.type, tp.handle, tp.stream);
    });
    Expect(tp, "AllGather", ncclBfloat16, out, Base(tp.ranks[0]));
    Expect(tp, "AllGather", ncclBfloat16, out + 2 * (options_.elements - 1), Base(tp.ranks.back()));
    Poison(result);
    Launch(tp, OpKind::kReduceScatter, Args(share, ncclBfloat16), Join::kNow, [&](const CallArgs& args) {
      return ncclReduceScatter(Input(CommKind::kTp, ncclBfloat16), out, args.count, args.type, args.reduction,
                               tp.handle, tp.stream);
    });
    Expect(tp, "ReduceScatter", ncclBfloat16, out + 2 * (share - 1), SumOf(tp, tp.index()));
    Poison(result);
    Launch(tp, OpKind::kAllReduce, Args(options_.elements, ncclFloat32), Join::kNow, [&](const CallArgs& args) {
      const char* in = Input(CommKind::kTp, ncclFloat32);
      if (args.other_kind) return ncclAllGather(in, out, args.count, args.type, tp.handle, tp.stream);
      return ncclAllReduce(in, out, args.count, args.type, args.reduction, tp.handle, tp.stream);
    });
    Expect(tp, "AllReduce", ncclFloat32, out + 4 * (options_.elements - 1), SumOf(tp, options_.tp - 1));
  }
  if (comms_[CommKind::kEp].used()) ExpertForward();
}

void Trainer::BackwardLayer() {
  if (comms_[CommKind::kEp].used()) ExpertBackward();
  Compute();
  Comm& tp = comms_[CommKind::kTp];
  if (!tp.used()) return;
  const Memory& result = results_[static_cast<size_t>(CommKind::kTp)];
  char* out = result.data();
  const int64_t share = options_.elements / options_.tp;
  Poison(result);
  Launch(tp, OpKind::kAllReduce, Args(options_.elements, ncclFloat32), Join::kNow, [&](const CallArgs& args) {
    const char* in = Input(CommKind::kTp, ncclFloat32);
    if (args.other_kind) return ncclAllGather(in, out, args.count, args.type, tp.handle, tp.stream);
    return ncclAllReduce(in, out, args.count, args.type, args.reduction, tp.handle, tp.stream);
  });
  Expect(tp, "AllReduce", ncclFloat32, out, SumOf(tp, 0));
  Poison(result);
  Launch(tp, OpKind::kAllGather, Args(share, ncclFloat16), Join::kNow, [&](const CallArgs& args) {
    return ncclAllGather(Input(CommKind::kTp, ncclFloat16), out, args.count, args.type, tp.handle, tp.stream);
  });
  Expect(tp, "AllGather", ncclFloat16, out + 2 * (options_.elements - 1), Base(tp.ranks.back()));
  Poison(result);
  Launch(tp, OpKind::kReduceScatter, Args(share, ncclFloat16), Join::kNow, [&](const CallArgs& args) {
    return ncclReduceScatter(Input(CommKind::kTp, ncclFloat16), out, args.count, args.type, args.reduction, tp.handle,
                             tp.stream);
  });
  Expect(tp, "ReduceScatter", ncclFloat16, out, SumOf(tp, tp.index()));
}

void Trainer::ExpertForward() {
  Comm& ep = comms_[CommKind::kEp];
  const Memory& result = results_[static_cast<size_t>(CommKind::kEp)];
  char* out = result.data();
  const int64_t share = options_.elements / options_.ep;
  const double last = ShareValue(Base(ep.ranks.back()), ep.index());
  Poison(result);
  Launch(ep, OpKind::kAllReduce, Args(kSmallCount, ncclFloat32), Join::kNow, [&](const CallArgs& args) {
    const char* in = Input(CommKind::kEp, ncclFloat32);
    if (args.other_kind) return ncclAllGather(in, out, args.count, args.type, ep.handle, ep.stream);
    return ncclAllReduce(in, out, args.count, args.type, args.reduction, ep.handle, ep.stream);
  });
  Expect(ep, "AllReduce", ncclFloat32, out + 4 * (kSmallCount - 1), SumOf(ep, 0));
  // Sends tokens to their experts with grouped sends and receives, as frameworks implement an all-to-all.
  Poison(result);
  Launch(ep, OpKind::kAllToAll, Args(share, ncclBfloat16), Join::kNow, [&](const CallArgs& args) {
    const char* in = Input(CommKind::kEp, ncclBfloat16);
    const size_t stride = args.count * SizeOf(args.type);
    NCCL_OK(ncclGroupStart());
    for (int peer = 0; peer < options_.ep; ++peer) {
      const size_t offset = stride * static_cast<size_t>(peer);
      NCCL_OK(ncclSend(in + offset, args.count, args.type, peer, ep.handle, ep.stream));
      NCCL_OK(ncclRecv(out + offset, args.count, args.type, peer, ep.handle, ep.stream));
    }
    return ncclGroupEnd();
  });
  Expect(ep, "AllToAll (dispatch)", ncclBfloat16, out + 2 * (options_.elements - 1), last);
  Poison(result);
  Launch(ep, OpKind::kAllToAll, Args(share, ncclFloat16), Join::kNow, [&](const CallArgs& args) {
    const char* in = Input(CommKind::kEp, ncclFloat16);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    return ncclAlltoAll(in, out, args.count, args.type, ep.handle, ep.stream);
#else
    const size_t stride = args.count * SizeOf(args.type);
    NCCL_OK(ncclGroupStart());
    for (int peer = 0; peer < options_.ep; ++peer) {
      const size_t offset = stride * static_cast<size_t>(peer);
      NCCL_OK(ncclSend(in + offset, args.count, args.type, peer, ep.handle, ep.stream));
      NCCL_OK(ncclRecv(out + offset, args.count, args.type, peer, ep.handle, ep.stream));
    }
    return ncclGroupEnd();
#endif
  });
  Expect(ep, "AllToAll (combine)", ncclFloat16, out + 2 * (options_.elements - 1), last);
}

void Trainer::ExpertBackward() {
  Comm& ep = comms_[CommKind::kEp];
  const Memory& result = results_[static_cast<size_t>(CommKind::kEp)];
  char* out = result.data();
  const int64_t share = options_.elements / options_.ep;
  Poison(result);
  Launch(ep, OpKind::kAllToAll, Args(share, ncclBfloat16), Join::kNow, [&](const CallArgs& args) {
    const char* in = Input(CommKind::kEp, ncclBfloat16);
    const size_t stride = args.count * SizeOf(args.type);
    NCCL_OK(ncclGroupStart());
    for (int peer = options_.ep - 1; peer >= 0; --peer) {
      const size_t offset = stride * static_cast<size_t>(peer);
      NCCL_OK(ncclSend(in + offset, args.count, args.type, peer, ep.handle, ep.stream));
      NCCL_OK(ncclRecv(out + offset, args.count, args.type, peer, ep.handle, ep.stream));
    }
    return ncclGroupEnd();
  });
  Expect(ep, "AllToAll (gradients)", ncclBfloat16, out, ShareValue(Base(ep.ranks[0]), ep.index()));
}

void Trainer::ReduceGradients(int layer) {
  Comm& dp = comms_[CommKind::kDp];
  if (!dp.used()) return;
  const Memory& gradient = gradients_[static_cast<size_t>(layer)];
  Poison(gradient);
  Launch(dp, OpKind::kReduceScatter, Args(options_.elements / options_.dp, ncclFloat32), Join::kLater,
         [&](const CallArgs& args) {
           return ncclReduceScatter(Input(CommKind::kDp, ncclFloat32), gradient.data(), args.count, args.type,
                                    args.reduction, dp.handle, dp.stream);
         });
}

void Trainer::Optimize() {
  Comm& dp = comms_[CommKind::kDp];
  if (!dp.used()) return;
  const Memory& result = results_[static_cast<size_t>(CommKind::kDp)];
  char* out = result.data();
  TakeBack(dp);
  for (const Memory& gradient : gradients_) {
    Expect(dp, "ReduceScatter", ncclFloat32, gradient.data() + 4 * (options_.elements / options_.dp - 1),
           SumOf(dp, dp.index()));
  }
  Poison(result);
  Launch(dp, OpKind::kAllReduce, Args(kSmallCount, ncclFloat32), Join::kNow, [&](const CallArgs& args) {
    const char* in = gradients_[0].data();
    if (args.other_kind) return ncclAllGather(in, out, args.count, args.type, dp.handle, dp.stream);
    return ncclAllReduce(in, out, args.count, args.type, args.reduction, dp.handle, dp.stream);
  });
  double norm = 0;
  for (int i = 0; i < options_.dp; ++i) norm += SumOf(dp, i);
  Expect(dp, "AllReduce", ncclFloat32, out, norm);
  UseNorm(out);
  for (int layer = 0; layer < options_.layers; ++layer) {
    Poison(result);
    Launch(dp, OpKind::kAllGather, Args(options_.elements / options_.dp, ncclBfloat16), Join::kNow,
           [&](const CallArgs& args) {
             return ncclAllGather(Input(CommKind::kDp, ncclBfloat16), out, args.count, args.type, dp.handle, dp.stream);
           });
    Expect(dp, "AllGather", ncclBfloat16, out + 2 * (options_.elements - 1), Base(dp.ranks.back()));
  }
}

// Launches small kernels that need the norm of the gradients. With SyncKind::kCopy, the CPU thread then reads the norm,
// as in clip_grad_norm_.
void Trainer::UseNorm(const char* norm) {
  if (dry_ || capturing_) return;
  for (int i = 0; i < options_.launches; ++i) CUDA_OK(cudaMemsetAsync(work_.data(), 0, kWidest, compute_));
  if (options_.sync != SyncKind::kCopy) return;
  char pageable[kWidest];
  CUDA_OK(cudaMemcpyAsync(pageable, norm, SizeOf(ncclFloat32), cudaMemcpyDeviceToHost, compute_));
}

void Trainer::ReduceLoss() {
  Comm& world = comms_[CommKind::kWorld];
  const Memory& result = results_[static_cast<size_t>(CommKind::kWorld)];
  char* out = result.data();
  Poison(result);
  Launch(world, OpKind::kAllReduce, Args(kLossCount, ncclFloat64), Join::kNow, [&](const CallArgs& args) {
    const char* in = Input(CommKind::kWorld, ncclFloat64);
    if (args.other_kind) return ncclAllGather(in, out, args.count, args.type, world.handle, world.stream);
    return ncclAllReduce(in, out, args.count, args.type, args.reduction, world.handle, world.stream);
  });
  double sum = 0;
  for (int rank : world.ranks) sum += LossOf(options_, step_, rank);
  Expect(world, "AllReduce (loss)", ncclFloat64, out, sum);
  Expect(world, "AllReduce", ncclFloat64, out + 8 * (kLossCount - 1), SumOf(world, 0));
}

void Trainer::WaitForLoss() {
  switch (options_.sync) {
    case SyncKind::kStream: CUDA_OK(cudaStreamSynchronize(compute_)); break;
    case SyncKind::kEvent:
      CUDA_OK(cudaEventRecord(loss_ready_, compute_));
      CUDA_OK(cudaEventSynchronize(loss_ready_));
      break;
    case SyncKind::kDevice: CUDA_OK(cudaDeviceSynchronize()); break;
    case SyncKind::kCopy: {
      // Copies to pageable memory, as loss.cpu() does; the copy itself waits.
      char pageable[kWidest];
      CUDA_OK(cudaMemcpyAsync(pageable, results_[static_cast<size_t>(CommKind::kWorld)].data(), kWidest,
                              cudaMemcpyDeviceToHost, compute_));
      loss_ = Decode(ncclFloat64, pageable) / options_.WorldSize();
      return;
    }
  }
  loss_ = Decode(ncclFloat64, loss_host_.data()) / options_.WorldSize();
}

void Trainer::Verify() {
  for (size_t i = 0; i < checks_.size(); ++i) {
    const Check& check = checks_[i];
    const double actual = Decode(check.type, check_values_.data() + kWidest * i);
    // The condition is also true for NaN.
    if (!(std::abs(actual - check.expected) <= Tolerance(check.type, check.expected))) {
      std::fprintf(stderr, "trainsim: rank %d: wrong data in step %d: %s on %s gave %.17g, expected %.17g\n", rank_,
                   step_, check.what, check.comm->name.c_str(), actual, check.expected);
      std::fflush(nullptr);
      std::_Exit(3);
    }
  }
}

void Trainer::Recreate() {
  Comm& dp = comms_[CommKind::kDp];
  if (dp.index() != 0) {
    const Memory& result = results_[static_cast<size_t>(CommKind::kDp)];
    NCCL_OK(ncclAllReduce(Input(CommKind::kDp, ncclFloat32), result.data(), kSmallCount, ncclFloat32, ncclSum,
                          dp.handle, dp.stream));
  }
  comms_.Recreate(CommKind::kDp);
}

void Trainer::ComputeFor(double seconds) {
  LaunchNap(compute_, seconds);
  CUDA_OK(cudaStreamSynchronize(compute_));
}

void Trainer::TearDown() {
  planes_.clear();
  for (Memory& memory : results_) memory.Free();
  gradients_.clear();
  for (Memory* memory : {&send_next_, &send_prev_, &recv_next_, &recv_prev_, &work_, &loss_host_, &check_values_}) {
    memory->Free();
  }
  if (graph_ != nullptr) CUDA_OK(cudaGraphExecDestroy(graph_));
  CUDA_OK(cudaEventDestroy(loss_ready_));
  if (!options_.shared_stream) CUDA_OK(cudaStreamDestroy(compute_));
}

}  // namespace trainsim
