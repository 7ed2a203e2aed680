// The 1F1B schedule over the pipeline communicator: warm-up, steady state with batched sends and receives, cool-down.
#include <algorithm>

#include "tests/workload/trainer.h"

namespace trainsim {

void Trainer::Pipeline() {
  const int stages = options_.pp;
  const int stage = place_.pp;
  const int batches = options_.micro_batches;
  const bool first = stage == 0;
  const bool last = stage == stages - 1;
  const int warm_up = std::min(stages - stage - 1, batches);
  const int steady = batches - warm_up;
  no_group_ = stages > 1 && steady > 0 && faults_.Due(FaultKind::kNoGroup);
  for (int i = 0; i < warm_up; ++i) {
    if (!first) RecvForward(i);
    Forward();
    SendForward(i);
  }
  if (steady > 0 && !first) RecvForward(warm_up);
  for (int i = 0; i < steady; ++i) {
    Forward();
    if (!last) SendForwardRecvBackward(i + warm_up, i);
    Backward(i == batches - 1);
    if (first) continue;
    if (i == steady - 1) {
      SendBackward(i);
    } else {
      SendBackwardRecvForward(i, i + warm_up + 1);
    }
  }
  for (int i = steady; i < batches; ++i) {
    RecvBackward(i);
    Backward(i == batches - 1);
    if (!first) SendBackward(i);
  }
}

void Trainer::Forward() {
  for (int layer = 0; layer < options_.layers; ++layer) ForwardLayer();
}

void Trainer::Backward(bool last) {
  for (int layer = options_.layers - 1; layer >= 0; --layer) {
    BackwardLayer();
    if (last) ReduceGradients(layer);
  }
}

void Trainer::StageActivation(int64_t share, const Memory& buffer) {
  const size_t bytes = static_cast<size_t>(options_.elements) * SizeOf(ncclBfloat16);
  const char* from = Input(CommKind::kPp, ncclBfloat16) + bytes * static_cast<size_t>(share);
  if (!dry_) CUDA_OK(cudaMemcpyAsync(buffer.data(), from, bytes, cudaMemcpyDeviceToDevice, compute_));
}

void Trainer::ExpectActivation(const Memory& buffer, int sender, int64_t share, const char* what) {
  Comm& pp = comms_[CommKind::kPp];
  const int rank = pp.ranks[static_cast<size_t>(sender)];
  Expect(pp, what, ncclBfloat16, buffer.data() + 2 * (options_.elements - 1), ShareValue(Base(rank), share));
}

CallArgs Trainer::ArriveAtPeer(OpKind op, int peer) {
  CallArgs args;
  args.root = peer;
  args.count = static_cast<size_t>(options_.elements);
  args.type = ncclBfloat16;
  faults_.Arrive(CommKind::kPp, op, dry_ ? compute_ : comms_[CommKind::kPp].stream, &args);
  if (dry_) args.times = 0;
  return args;
}

void Trainer::SendForward(int micro_batch) {
  Comm& pp = comms_[CommKind::kPp];
  StageActivation(micro_batch, send_next_);
  HandOver(pp);
  const CallArgs send = ArriveAtPeer(OpKind::kSend, place_.pp + 1);
  for (int i = 0; i < send.times; ++i) {
    NCCL_OK(ncclSend(send_next_.data(), send.count, send.type, send.root, pp.handle, pp.stream));
  }
  TakeBack(pp);
}

void Trainer::RecvForward(int micro_batch) {
  Comm& pp = comms_[CommKind::kPp];
  Poison(recv_prev_);
  HandOver(pp);
  const CallArgs recv = ArriveAtPeer(OpKind::kRecv, place_.pp - 1);
  for (int i = 0; i < recv.times; ++i) {
    NCCL_OK(ncclRecv(recv_prev_.data(), recv.count, recv.type, recv.root, pp.handle, pp.stream));
  }
  TakeBack(pp);
  ExpectActivation(recv_prev_, place_.pp - 1, micro_batch, "Recv (activation)");
}

void Trainer::SendBackward(int micro_batch) {
  Comm& pp = comms_[CommKind::kPp];
  StageActivation(options_.micro_batches + micro_batch, send_prev_);
  HandOver(pp);
  const CallArgs send = ArriveAtPeer(OpKind::kSend, place_.pp - 1);
  for (int i = 0; i < send.times; ++i) {
    NCCL_OK(ncclSend(send_prev_.data(), send.count, send.type, send.root, pp.handle, pp.stream));
  }
  TakeBack(pp);
}

void Trainer::RecvBackward(int micro_batch) {
  Comm& pp = comms_[CommKind::kPp];
  Poison(recv_next_);
  HandOver(pp);
  const CallArgs recv = ArriveAtPeer(OpKind::kRecv, place_.pp + 1);
  for (int i = 0; i < recv.times; ++i) {
    NCCL_OK(ncclRecv(recv_next_.data(), recv.count, recv.type, recv.root, pp.handle, pp.stream));
  }
  TakeBack(pp);
  ExpectActivation(recv_next_, place_.pp + 1, options_.micro_batches + micro_batch, "Recv (gradient)");
}

void Trainer::SendForwardRecvBackward(int forward, int backward) {
  Comm& pp = comms_[CommKind::kPp];
  StageActivation(forward, send_next_);
  Poison(recv_next_);
  HandOver(pp);
  // Faults strike before the group is open: a stalled rank has then left nothing half done.
  const CallArgs send = ArriveAtPeer(OpKind::kSend, place_.pp + 1);
  const CallArgs recv = ArriveAtPeer(OpKind::kRecv, place_.pp + 1);
  if (!no_group_ && !dry_) NCCL_OK(ncclGroupStart());
  for (int i = 0; i < send.times; ++i) {
    NCCL_OK(ncclSend(send_next_.data(), send.count, send.type, send.root, pp.handle, pp.stream));
  }
  for (int i = 0; i < recv.times; ++i) {
    NCCL_OK(ncclRecv(recv_next_.data(), recv.count, recv.type, recv.root, pp.handle, pp.stream));
  }
  if (!no_group_ && !dry_) NCCL_OK(ncclGroupEnd());
  TakeBack(pp);
  ExpectActivation(recv_next_, place_.pp + 1, options_.micro_batches + backward, "Recv (gradient)");
}

void Trainer::SendBackwardRecvForward(int backward, int forward) {
  Comm& pp = comms_[CommKind::kPp];
  StageActivation(options_.micro_batches + backward, send_prev_);
  Poison(recv_prev_);
  HandOver(pp);
  const CallArgs send = ArriveAtPeer(OpKind::kSend, place_.pp - 1);
  const CallArgs recv = ArriveAtPeer(OpKind::kRecv, place_.pp - 1);
  if (!no_group_ && !dry_) NCCL_OK(ncclGroupStart());
  for (int i = 0; i < send.times; ++i) {
    NCCL_OK(ncclSend(send_prev_.data(), send.count, send.type, send.root, pp.handle, pp.stream));
  }
  for (int i = 0; i < recv.times; ++i) {
    NCCL_OK(ncclRecv(recv_prev_.data(), recv.count, recv.type, recv.root, pp.handle, pp.stream));
  }
  if (!no_group_ && !dry_) NCCL_OK(ncclGroupEnd());
  TakeBack(pp);
  ExpectActivation(recv_prev_, place_.pp - 1, forward, "Recv (activation)");
}

}  // namespace trainsim
