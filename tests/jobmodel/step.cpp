#include "tests/jobmodel/step.h"

#include <algorithm>

namespace lockstep::jobmodel {
namespace {

using ring::CallKind;

class Turns {
 public:
  Turns(int stage, int stages, int micro_batches)
      : stage_(stage), stages_(stages), batches_(micro_batches), first_(stage == 0), last_(stage == stages - 1) {}

  std::vector<Turn> ForwardFirst() {
    for (int i = 0; i < batches_; ++i) {
      Exchange(false, false, !first_, false);
      Pass(Turn::kForward);
      Exchange(!last_, false, false, false);
    }
    for (int i = 0; i < batches_; ++i) {
      Exchange(false, false, false, !last_);
      Pass(Turn::kBackward);
      Exchange(false, !first_, false, false);
    }
    return std::move(out_);
  }

  std::vector<Turn> OneForwardOneBackward() {
    const int warm = std::min(stages_ - stage_ - 1, batches_), rest = batches_ - warm;
    for (int i = 0; i < warm; ++i) {
      Exchange(false, false, !first_, false);
      Pass(Turn::kForward);
      Exchange(!last_, false, false, false);
    }
    if (rest > 0) Exchange(false, false, !first_, false);
    for (int i = 0; i < rest; ++i) {
      Pass(Turn::kForward);
      Exchange(!last_, false, false, !last_);
      Pass(Turn::kBackward);
      Exchange(false, !first_, i + 1 < rest && !first_, false);
    }
    for (int i = 0; i < warm; ++i) {
      Exchange(false, false, false, !last_);
      Pass(Turn::kBackward);
      Exchange(false, !first_, false, false);
    }
    return std::move(out_);
  }

  std::vector<Turn> Interleaved(int chunks) {
    const int p = stages_, total = batches_ * chunks;
    auto chunk_of = [&](int k, bool forward) {
      const int in_group = ((k % (p * chunks)) + p * chunks) % (p * chunks), chunk = in_group / p;
      return forward ? chunk : chunks - chunk - 1;
    };
    const bool all_warm = batches_ == p;
    const int warm = all_warm ? total : std::min((p - stage_ - 1) * 2 + (chunks - 1) * p, total);
    const int rest = total - warm;
    auto sends_forward = [&](int k) { return !(last_ && chunk_of(k, true) == chunks - 1); };
    auto sends_backward = [&](int k) { return !(first_ && chunk_of(k, false) == 0); };
    Exchange(false, false, !first_, false);
    for (int k = 0; k < warm; ++k) {
      Pass(Turn::kForward);
      const bool recv_forward = !(first_ && chunk_of(k + 1, true) == 0) && k != total - 1;
      Exchange(sends_forward(k), false, recv_forward, k == warm - 1 && !all_warm && !last_);
    }
    for (int k = 0; k < rest; ++k) {
      const int f = k + warm;
      Pass(Turn::kForward);
      Pass(Turn::kBackward);
      const bool recv_forward = k != rest - 1 && !(first_ && chunk_of(f - (p - 1), true) == chunks - 1);
      const bool recv_backward = !(last_ && chunk_of(k - (p - 1), false) == 0);
      Exchange(sends_forward(f), sends_backward(k), recv_forward, recv_backward);
    }
    if (all_warm) Exchange(false, false, false, !last_);
    for (int k = rest; k < total; ++k) {
      Pass(Turn::kBackward);
      const bool recv_backward = k != total - 1 && !(last_ && chunk_of(k + 1, false) == chunks - 1);
      Exchange(false, sends_backward(k), false, recv_backward);
    }
    return std::move(out_);
  }

 private:
  void Pass(Turn::Kind kind) { out_.push_back({.kind = kind}); }
  void Exchange(bool send_forward, bool send_backward, bool recv_forward, bool recv_backward) {
    if (!send_forward && !send_backward && !recv_forward && !recv_backward) return;
    out_.push_back({Turn::kExchange, send_backward, recv_forward, send_forward, recv_backward});
  }

  const int stage_, stages_, batches_;
  const bool first_, last_;
  std::vector<Turn> out_;
};

}  // namespace

std::vector<Turn> TurnsOf(Schedule schedule, int stage, int stages, int micro_batches, int chunks) {
  Turns turns(stage, stages, micro_batches);
  switch (schedule) {
    case Schedule::kForwardFirst: return turns.ForwardFirst();
    case Schedule::kOneForwardOneBackward: return turns.OneForwardOneBackward();
    case Schedule::kInterleaved: return turns.Interleaved(chunks);
  }
  return {};
}

std::vector<Call> CallsOf(const Step& step, int stage, int stages) {
  std::vector<Call> calls;
  auto exchange = [&](bool does, CallKind kind, int peer, int which) {
    if (!does) return;
    calls.push_back({Family::kPp, kind, step.exchange_count, step.exchange_datatype, ring::kNoReduction, peer,
                     step.exchange_sites[which]});
  };
  for (const Turn& turn : TurnsOf(step.schedule, stage, stages, step.micro_batches)) {
    if (turn.kind == Turn::kForward) calls.insert(calls.end(), step.forward.begin(), step.forward.end());
    if (turn.kind == Turn::kBackward) calls.insert(calls.end(), step.backward.begin(), step.backward.end());
    exchange(turn.send_backward, CallKind::kSend, stage - 1, 0);
    exchange(turn.recv_forward, CallKind::kRecv, stage - 1, 1);
    exchange(turn.send_forward, CallKind::kSend, stage + 1, 2);
    exchange(turn.recv_backward, CallKind::kRecv, stage + 1, 3);
  }
  const bool embedding = stages > 1 && (stage == 0 || stage == stages - 1);
  for (const Call& call : step.end) {
    if (call.family != Family::kEmb || embedding) calls.push_back(call);
  }
  return calls;
}

}  // namespace lockstep::jobmodel
