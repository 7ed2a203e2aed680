// Runs the 1F1B schedule on the pipeline communicator: warm-up, steady state with batched sends and receives,
// cool-down.
#include <algorithm>

#include "tests/jobmodel/step.h"
#include "tests/workload/trainer.h"

namespace trainsim {

void Trainer::Pipeline() {
  using namespace lockstep::jobmodel;
  const int stages = options_.pp;
  const int stage = place_.pp;
  const int batches = options_.micro_batches;
  const int steady = batches - std::min(stages - stage - 1, batches);
  no_group_ = stages > 1 && steady > 0 && faults_.Due(FaultKind::kNoGroup);
  int received = 0, sent = 0, received_back = 0, sent_back = 0, backwards = 0;
  for (const Turn& turn : TurnsOf(Schedule::kOneForwardOneBackward, stage, stages, batches)) {
    if (turn.kind == Turn::kForward) {
      Forward();
    } else if (turn.kind == Turn::kBackward) {
      Backward(++backwards == batches);
    } else if (turn.send_forward && turn.recv_backward) {
      SendForwardRecvBackward(sent++, received_back++);
    } else if (turn.send_backward && turn.recv_forward) {
      SendBackwardRecvForward(sent_back++, received++);
    } else if (turn.recv_forward) {
      RecvForward(received++);
    } else if (turn.send_forward) {
      SendForward(sent++);
    } else if (turn.recv_backward) {
      RecvBackward(received_back++);
    } else {
      SendBackward(sent_back++);
    }
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
  // Faults occur before the group opens, so that a stalled rank leaves no open group.
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
