// A cause as it is told: the message, and what several did in one sentence.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "analyzer/engine/facts/activity.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/chain.h"
#include "analyzer/model/finding_kinds.h"

namespace lockstep {
namespace {

// What one did, said of several.
std::string OfSeveral(const std::string& what) {
  return absl::StrReplaceAll(what,
                             {{"its GPU never", "their GPUs never"},
                              {"which its peers", "which their peers"},
                              {"its GPU reported an error and completes", "their GPUs reported an error and complete"},
                              {"its GPU completed", "their GPUs completed"},
                              {"its GPU did", "their GPUs did"},
                              {"its host is", "their hosts are"},
                              {"its host stopped", "their hosts stopped"},
                              {"its process is", "their processes are"},
                              {"; it never", "; they never"},
                              {"its siblings", "their siblings"}});
}

// Of processes (global rank, how it ended) that did not all end in the same way: who in which; empty where they did.
std::string DifferentEnds(const std::vector<std::pair<int32_t, std::string>>& ends) {
  constexpr size_t kMostWays = 4, kMostRanks = 8;
  std::vector<std::pair<std::string, std::vector<int32_t>>> ways;
  for (const std::pair<int32_t, std::string>& end : ends) {
    auto way = std::find_if(ways.begin(), ways.end(), [&](const auto& w) { return w.first == end.second; });
    if (way == ways.end()) way = ways.insert(ways.end(), {end.second, {}});
    way->second.push_back(end.first);
  }
  if (ways.size() < 2) return "";
  std::string text = "ended differently";
  for (size_t w = 0; w < std::min(ways.size(), kMostWays); ++w) {
    const std::vector<int32_t>& who = ways[w].second;
    const auto end = who.begin() + static_cast<ptrdiff_t>(std::min(who.size(), kMostRanks));
    absl::StrAppend(
        &text, w == 0 ? ": " : "; ", who.size() == 1 ? "rank " : "ranks ", absl::StrJoin(who.begin(), end, ", "),
        who.size() > kMostRanks ? absl::StrCat(" and ", who.size() - kMostRanks, " more ") : " ", ways[w].first);
  }
  return ways.size() > kMostWays ? text + "; and others" : text;
}

// Below it a finding that names several ranks says what would tell them apart.
constexpr double kSure = 0.9;

}  // namespace

Finding Causes::ToFinding(const Cause& cause) const {
  Finding f;
  f.set_kind(cause.kind);
  std::map<int32_t, int32_t> culprits;  // global rank -> index, -1 without data
  for (int32_t r : cause.ranks) culprits[bundle_.ranks[r].rank] = r;
  for (int32_t g : cause.missing) culprits.emplace(g, -1);
  for (auto [rank, index] : culprits) {
    f.add_culprit_ranks(rank);
    Culprit* c = f.add_culprits();
    c->set_rank(rank);
    c->set_gpu(-1);
    if (index < 0) {
      c->set_state("no data");
      continue;
    }
    const Rank& r = bundle_.ranks[index];
    c->set_host(r.host);
    c->set_gpu(r.gpu_index);
    c->set_gpu_pci(r.gpu_pci);
    c->set_pid(r.pid);
    c->set_state(HostStateText(r, model_.ranks[index].host));
  }
  f.set_sequence(-1);
  if (cause.comm != kNoIndex) {
    const Communicator& comm = bundle_.comms[cause.comm];
    f.mutable_communicator()->set_id(comm.id);
    f.mutable_communicator()->set_name(comm.name);
    f.mutable_communicator()->set_size(comm.size);
  }
  if (cause.op != nullptr) {
    f.set_operation(OpName(bundle_, *cause.op));
    if (cause.op->seq >= 0) f.set_sequence(cause.op->seq);
  } else {
    f.set_operation(cause.op_name);
  }
  f.set_confidence(cause.confidence);
  for (const auto& [text, ranks] : cause.evidence) {
    bool repeated = false;
    for (const Evidence& known : f.evidence()) repeated |= known.text() == text;
    if (repeated || f.evidence_size() >= 24) continue;
    Evidence* e = f.add_evidence();
    e->set_text(text);
    for (int32_t r : ranks) {
      if (r >= 0) e->add_ranks(bundle_.ranks[r].rank);
    }
    if (ranks.size() == 1 && ranks[0] >= 0)
      e->set_source(absl::StrCat("rank ", bundle_.ranks[ranks[0]].rank, "'s record"));
  }
  DescribeReplay(cause, &f);
  f.set_advice(cause.advice);
  f.set_refuted_by(cause.refuted_by);
  f.set_cause(cause.cause);
  f.set_hypothesis(cause.hypothesis);
  for (const std::string& text : cause.alternatives) f.add_alternatives(text);
  // What the evidence leaves open - which of several ranks, or which of several explanations - is never left without a
  // way to decide.
  const bool set = culprits.size() > 1 && cause.confidence < kSure && !cause.factor.has_value();
  f.set_tells_apart(cause.tells_apart.empty() && (set || !cause.alternatives.empty())
                        ? FindingFactsOf(cause.kind).tells_apart
                        : cause.tells_apart);
  if (cause.factor.has_value()) *f.mutable_common_factor() = *cause.factor;
  f.set_cost_ns_per_step(cause.cost_ns_per_step);
  f.set_cost_uncertainty_ns(cause.cost_uncertainty_ns);
  f.set_pattern(cause.pattern);
  f.set_slowdown(cause.slowdown);
  std::vector<std::pair<int32_t, std::string>> ends;  // global rank, how it ended
  for (size_t i = 0; cause.kind == RANK_DEAD && cause.ranks.size() > 1 && i < cause.ranks.size(); ++i) {
    ends.push_back({bundle_.ranks[static_cast<size_t>(cause.ranks[i])].rank, DeathCause(cause.ranks[i]).what});
  }
  const std::string differently = DifferentEnds(ends);
  f.set_summary(!differently.empty() ? differently : culprits.size() > 1 ? OfSeveral(cause.what) : cause.what);
  if (FindingFactsOf(cause.kind).host_shows_why) DescribeStall(bundle_, cause.ranks, &f);
  if (graph_ != nullptr && !cause.nodes.empty()) AddChain(model_, *graph_, cause, &f);
  if (f.chain_size() == 0 && !cause.waiting.empty()) {
    std::set<int32_t> ranks;
    for (int32_t r : cause.waiting) ranks.insert(bundle_.ranks[r].rank);
    ChainLink* link = f.add_chain();
    for (int32_t r : ranks) link->add_ranks(r);
    for (int32_t r : f.culprit_ranks()) link->add_waits_for(r);
    link->set_operation(cause.op_name);
    *link->mutable_communicator() = f.communicator();
    link->set_text(absl::StrCat("waiting in ", cause.op_name == kRendezvous ? "" : "nccl", cause.op_name));
    f.set_victim_count(static_cast<int32_t>(ranks.size()));
  }
  return f;
}

}  // namespace lockstep
