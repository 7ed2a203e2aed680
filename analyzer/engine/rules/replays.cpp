// Adds facts about CUDA graphs to a finding: the graph, its replay and operation, and the progress of the other ranks.
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/rules/rules.h"

namespace lockstep {
namespace {

// Returns the newest launch that issued something on the communicator, or null.
const Replay* NewestReplay(const Rank& rank, uint32_t comm) {
  for (size_t i = rank.ops.size(); i-- > 0;) {
    const Op& op = rank.ops[i];
    if (!op.replayed || op.membership == kNoIndex || rank.memberships[op.membership].comm != comm) continue;
    if (op.state == OpState::kFailed) continue;
    return ReplayOf(rank, op);
  }
  return nullptr;
}

}  // namespace

std::vector<Cause> FromReplays(const Facts& facts) {
  constexpr size_t kMany = 3;
  constexpr Grade kFits = GRADE_WEAK;
  if (!facts.bundle.known_stalled) return {};
  std::map<uint64_t, std::vector<int32_t>> launched;
  for (size_t r = 0; r < facts.bundle.ranks.size(); ++r) {
    const Rank& rank = facts.bundle.ranks[r];
    if (rank.damaged || rank.graphs.size() != 1) continue;
    launched[rank.graphs[0].launches].push_back(static_cast<int32_t>(r));
  }
  if (launched.size() != 2) return {};
  const auto& [few, behind] = *launched.begin();
  const auto& [most, others] = *launched.rbegin();
  if (behind.size() != 1 || others.size() < kMany || facts.model.ranks[behind[0]].host != HostState::kElsewhere)
    return {};
  const ring::ThreadSnapshot* thread = facts.model.ranks[behind[0]].thread;
  Cause c = CauseOf(HOST_STALL, REASON_FEWER_LAUNCHES, kFits, behind);
  c.hypothesis = true;
  c.Count(few);
  if (const auto lasted = Lasted(facts.bundle.ranks[behind[0]], thread != nullptr ? thread->last_call_ns : 0))
    c.detail.set_duration_ns(*lasted);
  c.Add(Evidence::OTHERS_LAUNCHED, others).Count(others.size()).Number(most);
  AddHostEvidence(facts, behind[0], &c);
  return {c};
}

void DescribeReplay(const Facts& facts, const Cause& cause, Finding* finding) {
  if (cause.op == nullptr || cause.op_rank < 0) return;
  const Rank& rank = facts.bundle.ranks[cause.op_rank];
  const Replay* replay = ReplayOf(rank, *cause.op);
  if (replay == nullptr) return;
  const ring::GraphSnapshot* graph = GraphOf(rank, *replay);
  const uint64_t operations = graph != nullptr ? graph->operations : 0;
  const uint32_t place = PlaceInGraph(*cause.op);
  GraphReplay* out = finding->mutable_graph_replay();
  out->set_graph(replay->graph + 1);
  out->set_number(static_cast<int64_t>(replay->number));
  out->set_operation(place);
  out->set_operations(static_cast<int64_t>(operations));
  const auto add = [&](Evidence::Kind kind, int32_t r) {
    Evidence* e = finding->add_evidence();
    e->set_kind(kind);
    e->add_ranks(facts.bundle.ranks[r].rank);
    e->set_source(absl::StrCat("rank ", facts.bundle.ranks[r].rank, "'s record"));
    e->mutable_detail()->add_ranks(facts.bundle.ranks[r].rank);
    return e;
  };
  Evidence* in_graph = add(Evidence::IN_GRAPH, cause.op_rank);
  *in_graph->mutable_replay() = *out;
  in_graph->mutable_detail()->set_count(static_cast<int64_t>(graph != nullptr ? graph->launches : replay->number));
  if (graph != nullptr && graph->completed > 0)
    in_graph->mutable_detail()->set_number(static_cast<int64_t>(graph->completed));
  constexpr int kTold = 4;
  int told = 0;
  for (const int32_t r : cause.ranks) {
    if (r == cause.op_rank || told == kTold || cause.kind == COLLECTIVE_STUCK) continue;
    const Replay* own = NewestReplay(facts.bundle.ranks[r], cause.comm);
    Evidence* launched = add(Evidence::GRAPH_LAUNCHED, r);
    if (own != nullptr) launched->mutable_detail()->set_number(own->graph + 1);
    if (own != nullptr) launched->mutable_detail()->set_other_number(static_cast<int64_t>(own->number));
    if (cause.comm != kNoIndex) *launched->mutable_communicator() = Labelled(facts.bundle, cause.comm);
    ++told;
  }
  if (cause.kind == COLLECTIVE_STUCK && operations > 1) add(Evidence::INSIDE_GRAPH, cause.op_rank);
}

}  // namespace lockstep
