// What a finding reports about CUDA graphs: the graph, its replay and operation, and how far the other ranks came.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {
namespace {

// The newest launch that issued something on the communicator; null: none is recorded.
const Replay* NewestReplay(const Rank& rank, uint32_t comm) {
  for (size_t i = rank.ops.size(); i-- > 0;) {
    const Op& op = rank.ops[i];
    if (!op.replayed || op.membership == kNoIndex || rank.memberships[op.membership].comm != comm) continue;
    if (op.state == OpState::kFailed) continue;
    return ReplayOf(rank, op);
  }
  return nullptr;
}

std::string Times(uint64_t count) {
  return absl::StrCat(count, count == 1 ? " time" : " times");
}

}  // namespace

std::vector<Cause> Causes::FromReplays() const {
  constexpr size_t kMany = 3;
  constexpr Grade kFits = GRADE_WEAK;
  if (!bundle_.known_stalled) return {};
  std::map<uint64_t, std::vector<int32_t>> launched;
  for (size_t r = 0; r < bundle_.ranks.size(); ++r) {
    const Rank& rank = bundle_.ranks[r];
    if (rank.damaged || rank.graphs.size() != 1) continue;
    launched[rank.graphs[0].launches].push_back(static_cast<int32_t>(r));
  }
  if (launched.size() != 2) return {};
  const auto& [few, behind] = *launched.begin();
  const auto& [most, others] = *launched.rbegin();
  if (behind.size() != 1 || others.size() < kMany ||
      model_.ranks[static_cast<size_t>(behind[0])].host != HostState::kElsewhere)
    return {};
  const ring::ThreadSnapshot* thread = model_.ranks[static_cast<size_t>(behind[0])].thread;
  Cause c;
  c.kind = HOST_STALL;
  c.ranks = behind;
  c.hypothesis = true;
  c.grade = kFits;
  c.reason = REASON_FEWER_LAUNCHES;
  c.detail.set_count(static_cast<int64_t>(few));
  if (const auto lasted =
          Lasted(bundle_.ranks[static_cast<size_t>(behind[0])], thread != nullptr ? thread->last_call_ns : 0))
    c.detail.set_duration_ns(*lasted);
  c.evidence.push_back(
      {absl::StrCat("the ", others.size(), " other ranks that can be read launched theirs ", Times(most)), others});
  AddHostEvidence(behind[0], &c);
  return {c};
}

void Causes::DescribeReplay(const Cause& cause, Finding* finding) const {
  if (cause.op == nullptr || cause.op_rank < 0) return;
  const Rank& rank = bundle_.ranks[cause.op_rank];
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
  auto add = [&](const std::string& text, int32_t r) {
    Evidence* e = finding->add_evidence();
    e->set_text(text);
    e->add_ranks(bundle_.ranks[r].rank);
    e->set_source(absl::StrCat(Who(r), "'s record"));
  };
  std::string text = absl::StrCat("it is operation ", place, " of ", operations, " in CUDA graph ", replay->graph + 1,
                                  "; ", Who(cause.op_rank), " launched that graph ",
                                  Times(graph != nullptr ? graph->launches : replay->number));
  if (graph != nullptr && graph->completed > 0)
    absl::StrAppend(&text, ", and its GPU completed replay ", graph->completed);
  add(text, cause.op_rank);
  constexpr int kTold = 4;
  int told = 0;
  for (const int32_t r : cause.ranks) {
    if (r == cause.op_rank || told == kTold || cause.kind == COLLECTIVE_STUCK) continue;
    const Replay* own = NewestReplay(bundle_.ranks[r], cause.comm);
    const std::string what = own == nullptr
                                 ? "has launched no graph"
                                 : absl::StrCat("launched graph ", own->graph + 1, " last as replay ", own->number);
    add(absl::StrCat(Who(r), " ", what,
                     cause.comm == kNoIndex ? "" : absl::StrCat(" on ", CommText(bundle_.comms[cause.comm]))),
        r);
    ++told;
  }
  if (cause.kind == COLLECTIVE_STUCK && operations > 1) {
    add(absl::StrCat("all members launched that replay: the first operation that may be the stuck one is named; "
                     "nothing records the progress inside a graph"),
        cause.op_rank);
  }
}

}  // namespace lockstep
