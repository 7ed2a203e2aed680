#include <optional>
#include <set>
#include <tuple>

#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/rules/facts.h"
#include "analyzer/evidence/frames.h"

namespace lockstep {

Facts::Facts(const Model& model, const std::vector<Mismatch>& mismatches, const std::vector<Divergence>& divergences,
             const WaitGraph* graph)
    : model(model), bundle(model.bundle), mismatches(mismatches), divergences(divergences), graph(graph) {
  divergence_of_rank_.assign(bundle.ranks.size(), -1);
  for (size_t i = divergences.size(); i-- > 0;) divergence_of_rank_[divergences[i].rank] = static_cast<int32_t>(i);
}

const Divergence* Facts::DivergenceOf(int32_t rank_index) const {
  const int32_t index = divergence_of_rank_[rank_index];
  return index < 0 ? nullptr : &divergences[index];
}

// The smallest communicator is closest to the place in the program where the rank stopped; among communicators of equal
// size, the one with the earliest call is. A framework numbers sends separately, so its collectives show the place
// better.
Facts::Waiter Facts::FirstWaiter(uint32_t node) const {
  Waiter first;
  std::tuple<bool, bool, int32_t, int64_t> first_key;
  EachWaiter(node, [&](const Edge& e, uint32_t from) {
    const Rank& waiter = bundle.ranks[graph->RankOf(from)];
    const bool own_numbers = e.op != nullptr && IsFramework(waiter) && IsPointToPoint(e.op->kind);
    // Damaged files come last, because they may not contain their clock.
    const std::tuple<bool, bool, int32_t, int64_t> key = {
        waiter.damaged, own_numbers, e.comm == kNoIndex ? 0 : bundle.comms[e.comm].size,
        e.op != nullptr ? e.op->enter_ns + waiter.real_minus_mono_ns : 0};
    if (first.edge != nullptr && key >= first_key) return;
    first = {&e, from};
    first_key = key;
  });
  return first;
}

const Facts::Waiter& Facts::FirstIn(uint32_t collective) const {
  auto [it, fresh] = first_in_.try_emplace(collective);
  if (fresh) it->second = FirstWaiter(collective);
  return it->second;
}

std::optional<int64_t> Lasted(const Rank& rank, int64_t since_ns) {
  if (rank.captured_ns == 0 || since_ns <= 0 || rank.captured_ns < since_ns || EndUnseen(rank)) return std::nullopt;
  return rank.captured_ns - since_ns;
}

EvidenceItem InOperation(const Facts& facts, int32_t rank_index, const Op& op) {
  const Rank& rank = facts.bundle.ranks[rank_index];
  EvidenceItem in(Evidence::IN_OPERATION, {rank_index});
  in.fields.set_operation(OpText(facts.bundle, rank, op));
  if (const std::optional<int64_t> lasted = Lasted(rank, op.enter_ns)) in.fields.set_duration_ns(*lasted);
  return in;
}

void AddWaiterEvidence(const Facts& facts, uint32_t node, Cause* cause) {
  const auto [edge, from] = facts.FirstWaiter(node);
  if (edge == nullptr) return;
  if (cause->op == nullptr) {
    cause->In(edge->comm, edge->op, facts.graph->RankOf(from));
    cause->lost_seq = edge->lost_seq;
  }
  const bool lost = edge->lost_seq != kNone;
  if ((edge->op == nullptr && !lost) || edge->comm == kNoIndex) return;
  std::set<int32_t> waiting;
  if (edge->why == Why::kIn) {
    waiting = facts.graph->RanksOf(facts.graph->back[edge->to]);
  } else {
    for (uint32_t w : facts.graph->back[node]) {
      for (const Edge& e : facts.graph->edges[w]) {
        const bool same = e.to == node && e.comm == edge->comm && e.op != nullptr && e.op->seq == edge->op->seq &&
                          e.op->kind == edge->op->kind && facts.graph->RankOf(w) >= 0;
        if (same) waiting.insert(facts.graph->RankOf(w));
      }
    }
  }
  const Rank& waiter = facts.bundle.ranks[facts.graph->RankOf(from)];
  Evidence& wait = cause->Add(Evidence::WAITING, {waiting.begin(), waiting.end()}).On(facts.bundle, edge->comm).fields;
  wait.set_operation(lost ? LostCollective(edge->lost_seq) : OpText(facts.bundle, waiter, *edge->op));
  if (lost) return;
  if (const std::optional<int64_t> lasted = Lasted(waiter, edge->op->enter_ns)) wait.set_duration_ns(*lasted);
}

void AddHostEvidence(const Facts& facts, int32_t rank_index, Cause* cause) {
  const Rank& rank = facts.bundle.ranks[rank_index];
  const Process& p = rank.process;
  if (!p.exception.empty() && !HasEnded(p))
    cause->Add(Evidence::RAISED, {rank_index}).Naming(facts.bundle).Name(p.exception);
  const bool sampled_cpu = p.cpu_ns_between_samples >= 0 && p.sample_gap_ns > 0;
  const bool sleeps = !p.wchan.empty() && p.wchan != "0";
  if (!p.state.empty() || sleeps || sampled_cpu || p.io_bytes_between_samples > 0) {
    ProcessSample* seen = cause->Add(Evidence::PROCESS_STATE, {rank_index}).fields.mutable_process();
    seen->set_state(p.state);
    if (sleeps) seen->set_kernel_function(p.wchan);
    seen->set_between_ns(p.sample_gap_ns);
    seen->set_cpu_ns(p.cpu_ns_between_samples);
    seen->set_io_bytes(p.io_bytes_between_samples);
  }
  if (p.stack.empty() && p.stack_refused.empty()) return;
  Evidence& stack = cause->Add(Evidence::STACK, {rank_index}).fields;
  *stack.mutable_frames() = ParseFrames(p.stack);
  stack.set_place(CodePlace(stack.frames()));
  if (p.stack.empty()) stack.set_refused(p.stack_refused);
}

}  // namespace lockstep
