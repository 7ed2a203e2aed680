#include "analyzer/engine/rules/chain.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

constexpr int kMaxLinks = 64;
constexpr size_t kMaxNames = 3;

struct Link {
  std::set<int32_t> ranks, waits_for;         // global
  std::map<std::string, int64_t> operations;  // as each rank numbers it; its number
  std::set<uint32_t> comms;
  std::string plain;                    // the operation without number and peer
  uint32_t last_collective = kNoIndex;  // whose `waits_for` were added last
};

// "dp_0, dp_1, dp_2 and 5 more"; one name where the communicators share it; "8 groups of 4 ranks" without names.
std::string Names(const Bundle& bundle, const std::set<uint32_t>& comms) {
  if (comms.size() == 1) return CommText(bundle.comms[*comms.begin()]);
  std::set<std::string> names;
  std::set<int32_t> sizes;
  for (uint32_t c : comms) {
    const Communicator& comm = bundle.comms[c];
    if (!comm.name.empty()) names.insert(comm.name);
    sizes.insert(comm.size);
  }
  if (names.empty())
    return absl::StrCat(comms.size(), " groups",
                        sizes.size() == 1 ? absl::StrCat(" of ", *sizes.begin(), " ranks") : "");
  std::vector<std::string> shown(names.begin(), names.end());
  const size_t more = shown.size() > kMaxNames ? shown.size() - kMaxNames : 0;
  if (more > 0) shown.resize(kMaxNames);
  return absl::StrCat(absl::StrJoin(shown, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

void Write(const Bundle& bundle, const Link& link, Finding* finding) {
  ChainLink* out = finding->add_chain();
  for (int32_t r : link.ranks) out->add_ranks(r);
  for (int32_t r : link.waits_for) out->add_waits_for(r);
  const bool one = link.operations.size() == 1;
  out->set_operation(one ? link.operations.begin()->first : link.plain);
  if (one && link.operations.begin()->second >= 0) out->set_sequence(link.operations.begin()->second);
  if (link.comms.empty()) return;
  const Communicator& first = bundle.comms[*link.comms.begin()];
  const std::string names = Names(bundle, link.comms);
  out->mutable_communicator()->set_id(first.id);
  out->mutable_communicator()->set_name(names);
  out->mutable_communicator()->set_size(first.size);
  out->set_text(absl::StrCat("waiting in ", out->operation(), " on ", names));
}

}  // namespace

void AddChain(const Model& model, const WaitGraph& graph, const Cause& cause, Finding* finding) {
  const Bundle& bundle = model.bundle;
  auto rank_of = [&](uint32_t node) {
    return graph.RankOf(node) >= 0 ? bundle.ranks[graph.RankOf(node)].rank : graph.MissingRank(node);
  };
  std::set<uint32_t> seen(cause.nodes.begin(), cause.nodes.end());
  for (int32_t r : cause.ranks) {
    seen.insert(WaitGraph::HostNode(r));
    for (uint32_t q = graph.FirstQueue(r); q < graph.FirstQueue(r + 1); ++q) seen.insert(graph.QueueNode(q));
  }
  std::vector<uint32_t> level(seen.begin(), seen.end());
  std::set<int32_t> victims;
  const std::set<int32_t> culprits(finding->culprit_ranks().begin(), finding->culprit_ranks().end());
  while (!level.empty()) {
    std::map<std::pair<std::string, std::string>, Link> links;  // class of communicator, operation
    std::set<uint32_t> next;
    auto add = [&](const Edge& e, uint32_t from, const std::set<int32_t>& waits_for, uint32_t collective) {
      const Rank& waiter = bundle.ranks[graph.RankOf(from)];
      std::string plain = "communicator set-up", numbered = plain;
      if (e.why == Why::kOutside) plain = numbered = kRendezvous;
      if (e.op != nullptr) {
        numbered = OpText(bundle, waiter, *e.op);
        plain = ring::IsPointToPoint(e.op->kind) ? ring::CallName(e.op->kind) : OpName(bundle, *e.op);
      }
      Link& link = links[{e.comm == kNoIndex ? "" : model.comms[e.comm].klass, plain}];
      link.plain = plain;
      link.operations.emplace(numbered, e.op == nullptr ? -1 : e.op->seq);
      link.ranks.insert(waiter.rank);
      // The same for everybody in a collective: thousands are in one, and may wait for thousands.
      if (collective == kNoIndex || link.last_collective != collective)
        link.waits_for.insert(waits_for.begin(), waits_for.end());
      link.last_collective = collective;
      if (e.comm != kNoIndex) link.comms.insert(e.comm);
    };
    std::map<uint32_t, std::set<int32_t>> collectives;  // reached from this level, and for whom
    for (uint32_t to : level) {
      if (graph.Kind(to) == WaitGraph::NodeKind::kCollective) collectives.try_emplace(to, culprits);
      for (uint32_t from : graph.back[to]) {
        if (graph.Kind(from) == WaitGraph::NodeKind::kCollective) {
          if (!seen.contains(from)) collectives[from].insert(rank_of(to));
          continue;
        }
        if (seen.contains(from)) continue;
        next.insert(from);
        for (const Edge& e : graph.edges[from]) {
          const bool own = e.why == Why::kOwnGpu || e.why == Why::kStreamOrder || e.why == Why::kLaunchOrder;
          if (e.to == to && !own && e.why != Why::kIn) add(e, from, {rank_of(to)}, kNoIndex);
        }
      }
    }
    for (const auto& [collective, waits_for] : collectives) {
      seen.insert(collective);
      for (uint32_t from : graph.back[collective]) {
        if (seen.contains(from)) continue;
        next.insert(from);
        for (const Edge& e : graph.edges[from]) {
          if (e.to == collective) add(e, from, waits_for, collective);
        }
      }
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
