// Finds the path from a cause to the ranks that wait because of it.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/engine/rules/rules.h"

namespace lockstep {
namespace {

constexpr int kMaxLinks = 64;
constexpr int kMaxNames = 3;

struct Link {
  std::set<int32_t> ranks, waits_for;         // global
  std::map<std::string, int64_t> operations;  // maps the operation, as each rank numbers it, to its number
  std::set<uint32_t> comms;
  ChainLink::What what = ChainLink::OPERATION;
  std::string plain;                    // the operation without number and peer
  uint32_t last_collective = kNoIndex;  // the collective whose `waits_for` were added last
};

void Write(const Bundle& bundle, const Link& link, Finding* finding) {
  ChainLink* out = finding->add_chain();
  for (int32_t r : link.ranks) out->add_ranks(r);
  for (int32_t r : link.waits_for) out->add_waits_for(r);
  const bool one = link.operations.size() == 1;
  out->set_what(link.what);
  out->set_operation(one ? link.operations.begin()->first : link.plain);
  if (one && link.operations.begin()->second >= 0) out->set_sequence(link.operations.begin()->second);
  if (link.comms.empty()) return;
  const Communicator& first = bundle.comms[*link.comms.begin()];
  out->set_communicators(static_cast<int32_t>(link.comms.size()));
  *out->mutable_communicator() = Labelled(bundle, *link.comms.begin());
  if (link.comms.size() == 1) return;
  std::set<std::string> names;
  bool alike = true;
  for (uint32_t c : link.comms) {
    if (!bundle.comms[c].name.empty()) names.insert(bundle.comms[c].name);
    alike &= bundle.comms[c].size == first.size;
  }
  for (const std::string& name : names) {
    if (out->names_size() < kMaxNames) out->add_names(name);
  }
  out->set_more_names(static_cast<int32_t>(names.size()) - out->names_size());
  if (alike) out->set_size(first.size);
}

}  // namespace

void AddChain(const Facts& facts, const Cause& cause, Finding* finding) {
  const Bundle& bundle = facts.bundle;
  const WaitGraph& graph = *facts.graph;
  auto rank_of = [&](uint32_t node) {
    return graph.RankOf(node) >= 0 ? bundle.ranks[graph.RankOf(node)].rank : graph.MissingRank(node);
  };
  // A cause may name only some ranks of a cycle. The rest of the cycle waits for them.
  const auto other = [&](uint32_t node) {
    const int32_t r = graph.RankOf(node);
    return r >= 0 && !cause.ranks.empty() && !std::ranges::binary_search(cause.ranks, r) && !graph.edges[node].empty();
  };
  const bool some = std::ranges::any_of(cause.nodes, other);
  std::set<uint32_t> seen;
  for (const uint32_t node : cause.nodes) {
    if (!other(node) && !(some && graph.Kind(node) == WaitGraph::NodeKind::kCollective)) seen.insert(node);
  }
  for (int32_t r : cause.ranks) {
    for (const uint32_t node : graph.NodesOf(r)) seen.insert(node);
  }
  std::vector<uint32_t> level(seen.begin(), seen.end());
  std::set<int32_t> victims;
  const std::set<int32_t> culprits(finding->culprit_ranks().begin(), finding->culprit_ranks().end());
  while (!level.empty()) {
    // The key is the class of communicator, the kind of wait and the operation.
    std::map<std::tuple<std::string, ChainLink::What, std::string>, Link> links;
    std::set<uint32_t> next;
    auto add = [&](const Edge& e, uint32_t from, const std::set<int32_t>& waits_for, uint32_t collective) {
      const Rank& waiter = bundle.ranks[graph.RankOf(from)];
      ChainLink::What what = e.why == Why::kOutside ? ChainLink::RENDEZVOUS : ChainLink::SET_UP;
      std::string plain, numbered;
      if (e.op != nullptr) {
        what = ChainLink::OPERATION;
        numbered = OpText(bundle, waiter, *e.op);
        plain = IsPointToPoint(e.op->kind) ? ring::CallName(e.op->kind) : OpName(bundle, *e.op);
      } else if (e.lost_seq != kNone) {
        what = ChainLink::OPERATION;
        numbered = LostCollective(e.lost_seq);
        plain = "collective";
      }
      Link& link = links[{e.comm == kNoIndex ? "" : facts.model.comms[e.comm].klass, what, plain}];
      link.what = what;
      link.plain = plain;
      link.operations.emplace(numbered, e.op == nullptr ? e.lost_seq : e.op->seq);
      link.ranks.insert(waiter.rank);
      // All members of a collective wait for the same ranks. Thousands of members may wait for thousands of ranks, so
      // these are added once.
      if (collective == kNoIndex || link.last_collective != collective)
        link.waits_for.insert(waits_for.begin(), waits_for.end());
      link.last_collective = collective;
      if (e.comm != kNoIndex) link.comms.insert(e.comm);
    };
    // Adds the queues and processes that wait for this node.
    auto add_waiting = [&](uint32_t to, const std::set<int32_t>& waits_for, uint32_t collective) {
      for (uint32_t from : graph.back[to]) {
        if (seen.contains(from) || graph.Kind(from) == WaitGraph::NodeKind::kCollective) continue;
        next.insert(from);
        for (const Edge& e : graph.edges[from]) {
          const bool own = e.why == Why::kOwnGpu || e.why == Why::kStreamOrder || e.why == Why::kLaunchOrder;
          if (e.to == to && !own && (e.why == Why::kIn) == (collective != kNoIndex))
            add(e, from, waits_for, collective);
        }
      }
    };
    std::map<uint32_t, std::set<int32_t>> collectives;  // reached from this level; the ranks that each waits for
    for (uint32_t to : level) {
      if (graph.Kind(to) == WaitGraph::NodeKind::kCollective) {
        collectives.try_emplace(to, culprits);
        continue;
      }
      for (uint32_t from : graph.back[to]) {
        if (graph.Kind(from) == WaitGraph::NodeKind::kCollective && !seen.contains(from))
          collectives[from].insert(rank_of(to));
      }
      add_waiting(to, {rank_of(to)}, kNoIndex);
    }
    for (const auto& [collective, waits_for] : collectives) {
      seen.insert(collective);
      add_waiting(collective, waits_for, collective);
    }
    for (uint32_t v : next) {
      seen.insert(v);
      if (graph.RankOf(v) >= 0) victims.insert(rank_of(v));
    }
    for (const auto& [key, link] : links) {
      if (finding->chain_size() < kMaxLinks) Write(bundle, link, finding);
    }
    level.assign(next.begin(), next.end());
  }
  for (int32_t rank : finding->culprit_ranks()) victims.erase(rank);
  finding->set_victim_count(static_cast<int32_t>(victims.size()));
}

}  // namespace lockstep
