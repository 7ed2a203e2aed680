// Adds facts about CUDA graphs to a finding: the graph, its replay and operation, and the progress of the other ranks.
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
