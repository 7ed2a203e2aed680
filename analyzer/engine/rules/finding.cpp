// Turns a cause into a finding.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/calibration/confidence.h"
#include "analyzer/engine/facts/activity.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/model/finding_kinds.h"

namespace lockstep {
namespace {

constexpr size_t kMostEvidence = 24, kMostCallSites = 64;

// Returns the process's place in the user's code; empty if no stack shows it.
std::string PlaceOf(const Process& process) {
  for (const auto* stack : {&process.python_stack, &process.stack}) {
    if (std::string place = CodePlace(ParseFrames(*stack)); !place.empty()) return place;
  }
  return "";
}

// Adds the code at issue: the culprits' place in it, their call and its time, and where the operation was issued.
void AddWhere(const Facts& facts, const Cause& cause, Finding* finding) {
  for (size_t i = 0; i < cause.ranks.size() && finding->place().empty(); ++i)
    finding->set_place(PlaceOf(facts.bundle.ranks[cause.ranks[i]].process));
  finding->set_stuck_inside(cause.inside);
  const bool in_op = cause.since_rank < 0 && cause.op != nullptr && cause.op->state != OpState::kCompleted;
  const int32_t timed = in_op ? cause.op_rank : cause.since_rank;
  const int64_t since_ns = in_op ? cause.op->enter_ns : cause.since_ns;
  if (timed >= 0) {
    const Rank& rank = facts.bundle.ranks[timed];
    if (const std::optional<int64_t> lasted = Lasted(rank, since_ns)) {
      finding->set_duration_ns(*lasted);
      if (rank.real_minus_mono_ns != 0) finding->set_since_real_ns(since_ns + rank.real_minus_mono_ns);
    }
  }
  if (cause.op == nullptr || cause.comm == kNoIndex) return;
  std::map<std::pair<std::string, std::string>, std::vector<int32_t>> sites;  // place, operation
  const auto add = [&](int32_t rank_index, const Op& op) {
    if (op.call_site < facts.bundle.strings.size())
      sites[{facts.bundle.strings[op.call_site], OpName(facts.bundle, op)}].push_back(
          facts.bundle.ranks[rank_index].rank);
  };
  if (IsCollective(cause.op->kind)) {
    for (const Member& m : facts.model.comms[cause.comm].members) {
      const Op* op = facts.model.FindCollective(m, cause.op->seq);
      if (op != nullptr) add(m.rank_index, *op);
    }
  } else if (cause.op_rank >= 0) {
    add(cause.op_rank, *cause.op);
  }
  for (auto& [site, ranks] : sites) {
    if (finding->call_sites_size() >= static_cast<int>(kMostCallSites)) break;
    std::ranges::sort(ranks);
    CallSite* out = finding->add_call_sites();
    for (const int32_t rank : ranks) out->add_ranks(rank);
    out->set_place(site.first);
    out->set_operation(site.second);
  }
  std::ranges::stable_sort(*finding->mutable_call_sites(),
                           [](const CallSite& a, const CallSite& b) { return a.ranks_size() > b.ranks_size(); });
}

// Returns the newest graph launch that issued something on the communicator, or null.
const Replay* NewestReplay(const Rank& rank, uint32_t comm) {
  for (size_t i = rank.ops.size(); i-- > 0;) {
    const Op& op = rank.ops[i];
    if (!op.replayed || op.membership == kNoIndex || rank.memberships[op.membership].comm != comm) continue;
    if (op.state == OpState::kFailed) continue;
    return ReplayOf(rank, op);
  }
  return nullptr;
}

// Adds facts about the CUDA graph launch that issued the operation: the graph, its replay and operation, and the
// progress of the other ranks.
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

}  // namespace

Finding ToFinding(const Facts& facts, const Cause& cause) {
  Finding f;
  f.set_kind(cause.kind);
  std::map<int32_t, int32_t> culprits;  // global rank -> index, -1 without data
  for (int32_t r : cause.ranks) culprits[facts.bundle.ranks[r].rank] = r;
  for (int32_t g : cause.missing) culprits.emplace(g, -1);
  for (auto [rank, index] : culprits) {
    f.add_culprit_ranks(rank);
    Culprit* c = f.add_culprits();
    c->set_rank(rank);
    c->set_gpu(-1);
    if (index < 0) {
      c->set_condition(Culprit::NO_DATA);
      continue;
    }
    const Rank& r = facts.bundle.ranks[index];
    c->set_host(r.host);
    c->set_gpu(r.gpu_index);
    c->set_gpu_pci(r.gpu_pci);
    c->set_pid(r.pid);
    SetCondition(r, facts.model.ranks[index].host, c);
    if (HasEnded(r.process)) c->set_ended(true);
  }
  f.set_sequence(-1);
  if (cause.comm != kNoIndex) {
    const Communicator& comm = facts.bundle.comms[cause.comm];
    f.mutable_communicator()->set_id(comm.id);
    f.mutable_communicator()->set_name(comm.name);
    f.mutable_communicator()->set_size(comm.size);
  }
  if (cause.op != nullptr) {
    f.set_operation(OpName(facts.bundle, *cause.op));
    if (cause.op->seq >= 0) f.set_sequence(cause.op->seq);
  } else {
    f.set_operation(cause.op_name);
  }
  f.set_grade(cause.grade);
  std::vector<const EvidenceItem*> told;
  for (const EvidenceItem& item : cause.evidence) {
    if (told.size() >= kMostEvidence) break;
    if (std::ranges::any_of(told, [&](const auto* t) { return SameEvidence(*t, item); })) continue;
    told.push_back(&item);
    Evidence* e = f.add_evidence();
    *e = item.fields;
    for (int32_t r : item.ranks) {
      if (r >= 0) e->add_ranks(facts.bundle.ranks[r].rank);
    }
    if (item.ranks.size() == 1 && item.ranks[0] >= 0)
      e->set_source(absl::StrCat("rank ", facts.bundle.ranks[item.ranks[0]].rank, "'s record"));
  }
  AddWhere(facts, cause, &f);
  DescribeReplay(facts, cause, &f);
  f.set_reason(cause.reason);
  *f.mutable_detail() = cause.detail;
  for (const Rival& rival : cause.rivals) *f.add_rivals() = rival;
  f.set_cause(cause.cause);
  f.set_hypothesis(cause.hypothesis);
  if (cause.factor.has_value()) *f.mutable_common_factor() = *cause.factor;
  f.set_cost_ns_per_step(cause.cost_ns_per_step);
  f.set_cost_uncertainty_ns(cause.cost_uncertainty_ns);
  f.set_pattern(cause.pattern);
  f.set_slowdown(cause.slowdown);
  if (FindingFactsOf(cause.kind).host_shows_why) DescribeStall(facts.bundle, cause.ranks, &f);
  if (facts.graph != nullptr && !cause.nodes.empty()) AddChain(facts, cause, &f);
  if (f.chain_size() == 0 && !cause.waiting.empty()) {
    std::set<int32_t> ranks;
    for (int32_t r : cause.waiting) ranks.insert(facts.bundle.ranks[r].rank);
    ChainLink* link = f.add_chain();
    for (int32_t r : ranks) link->add_ranks(r);
    for (int32_t r : f.culprit_ranks()) link->add_waits_for(r);
    link->set_operation(cause.op_name);
    link->set_what(cause.wait);
    *link->mutable_communicator() = f.communicator();
    f.set_victim_count(static_cast<int32_t>(ranks.size()));
  }
  const bool framework = std::ranges::all_of(facts.bundle.ranks, IsFramework);
  f.set_confidence(ConfidenceOf(f.grade(), f.reason(), f.culprit_ranks_size() > 1, framework));
  return f;
}

}  // namespace lockstep
