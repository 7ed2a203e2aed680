// The folded wait graph. Ranks in the same state that wait for the same thing form a class. Classes are found by
// refining a partition, first by each rank's operation, then by the classes that the rank waits for, until nothing
// changes. This method keeps waiting ranks apart from others, and creates no new cycle.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/components.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/sorted.h"
#include "analyzer/viewdata/parts.h"

namespace lockstep {
namespace {

constexpr size_t kWantedClasses = 60, kMostClasses = 200;
constexpr size_t kCircleApart = 24;  // ranks in cycles that are shown individually
constexpr int kMostRounds = 256;
constexpr size_t kMostEdges = 4000;

const char* WhyText(Why why) {
  switch (why) {
    case Why::kNotIssued: return "not called";
    case Why::kBehind: return "behind in its stream";
    case Why::kNotStarted: return "not started";
    case Why::kDead: return "dead";
    case Why::kNoData: return "no data";
    case Why::kOwnGpu: return "its own GPU";
    case Why::kInit: return "has not reached its creation";
    case Why::kIn: return "in it";
    case Why::kStreamOrder: return "behind another stream";
    case Why::kLaunchOrder: return "behind a later operation on another stream";
    case Why::kOutside: return "outside NCCL";
  }
  return "";
}

struct Arc {
  uint32_t to = 0;
  const char* why = "";
  uint32_t comm = kNoIndex;
  const Op* op = nullptr;
};

struct RankWait {
  WaitClass::Kind kind = WaitClass::HEALTHY;
  int32_t finding = -1;
  RankFront front;
};

// Nodes: ranks of the model, then what connects them (collectives, communicators being created, mismatches), then
// ranks without data.
class Folding {
 public:
  Folding(const ViewInput& in, ViewFacts* facts)
      : in_(in), model_(in.analysis.model), graph_(in.analysis.graph), facts_(facts), ranks_(model_.ranks.size()) {}

  void Run() {
    MakeArcs();
    Refine();
    WriteClasses();
    WriteEdges();
  }

 private:
  uint32_t NodeOf(uint32_t graph_node) const {
    const int32_t r = graph_->RankOf(graph_node);
    return r >= 0 ? static_cast<uint32_t>(r) : ranks_ + (graph_node - first_extra_);
  }
  uint32_t AddNode() {
    arcs_.emplace_back();
    missing_.push_back(-1);
    return static_cast<uint32_t>(arcs_.size() - 1);
  }

  void MakeArcs() {
    arcs_.resize(ranks_);
    missing_.assign(ranks_, -1);
    waits_.resize(ranks_);
    in_circle_.assign(ranks_, false);
    for (size_t r = 0; r < ranks_; ++r) waits_[r].front = FrontOf(in_.analysis, r);
    absl::flat_hash_map<int32_t, uint32_t> model_of_rank;
    for (uint32_t r = 0; r < ranks_; ++r) model_of_rank[model_.bundle.ranks[r].rank] = r;
    for (int i = in_.verdict.findings_size() - 1; i >= 0; --i) {
      for (const int32_t rank : in_.verdict.findings(i).culprit_ranks()) {
        finding_of_[rank] = i;
        const auto it = model_of_rank.find(rank);
        if (it == model_of_rank.end()) continue;
        waits_[it->second].finding = i;
        waits_[it->second].kind = WaitClass::CAUSE;
      }
    }
    if (graph_ != nullptr) {
      first_extra_ = static_cast<uint32_t>(graph_->queues.size()) + static_cast<uint32_t>(ranks_);
      for (uint32_t v = first_extra_; v < graph_->edges.size(); ++v) {
        const uint32_t node = AddNode();
        if (graph_->Kind(v) == WaitGraph::NodeKind::kMissing) missing_[node] = graph_->MissingRank(v);
      }
      in_circle_.resize(arcs_.size());
      MarkCircles();
      for (uint32_t v = 0; v < graph_->edges.size(); ++v) AddArcs(v);
      AddMismatches();
    }
    for (const int32_t rank : in_.missing) {
      if (std::find(missing_.begin() + static_cast<ptrdiff_t>(ranks_), missing_.end(), rank) == missing_.end())
        left_out_.push_back(rank);
    }
    for (size_t r = 0; r < ranks_; ++r) {
      if (waits_[r].kind == WaitClass::HEALTHY && (!arcs_[r].empty() || waits_[r].front.front != Front::kIdle))
        waits_[r].kind = WaitClass::VICTIM;
    }
  }

  // Marks the ranks in cycles. A process and its own GPU are not a cycle.
  void MarkCircles() {
    for (const auto& sink : graph_->sinks) {
      std::set<uint32_t> ranks;
      for (const uint32_t v : sink) {
        if (graph_->RankOf(v) >= 0) ranks.insert(NodeOf(v));
      }
      if (ranks.size() < 2) continue;
      for (const uint32_t v : sink) in_circle_[NodeOf(v)] = true;
      for (const uint32_t r : ranks) {
        RankWait& w = waits_[r];
        const FindingKind kind = w.finding < 0 ? DEADLOCK_CYCLE : in_.verdict.findings(w.finding).kind();
        if (kind == DEADLOCK_CYCLE || kind == ORDER_INVERSION || kind == P2P_UNMATCHED) w.kind = WaitClass::IN_CYCLE;
        ++circle_ranks_;
      }
    }
  }

  // Returns whether the rank is a cause, so that its own waits are ignored. They would create false cycles: a missing
  // rank's GPU may have work that waits for the ranks that wait for it.
  bool Ends(uint32_t r) const { return waits_[r].kind == WaitClass::CAUSE && !in_circle_[r]; }

  void AddArcs(uint32_t v) {
    const uint32_t from = NodeOf(v);
    if (from < ranks_ && Ends(from)) return;
    // The path ends at a process that others wait for and that waits for no rank, even if its GPU's queue is not empty.
    if (from < ranks_ && !graph_->IsHost(v) && graph_->edges[WaitGraph::HostNode(from)].empty() &&
        !graph_->back[WaitGraph::HostNode(from)].empty() && model_.ranks[from].host == HostState::kElsewhere &&
        !in_circle_[from]) {
      return;
    }
    for (const Edge& e : graph_->edges[v]) {
      const uint32_t to = NodeOf(e.to);
      if (to != from) arcs_[from].push_back({to, WhyText(e.why), e.comm, e.op});
    }
  }

  // A rank in a call on which the members differ waits for the ranks that made different calls.
  void AddMismatches() {
    std::vector<uint32_t> node_of(in_.analysis.mismatches.size(), kNoIndex);
    for (uint32_t r = 0; r < ranks_; ++r) {
      if (Ends(r)) continue;
      // Uses any of its stuck streams, because another one may show more about the rank's position.
      for (const Queue& queue : graph_->QueuesOf(r)) {
        const GpuFront& front = queue.front;
        if (front.front != Front::kMismatched || front.mismatch < 0) continue;
        const Mismatch& m = in_.analysis.mismatches[static_cast<size_t>(front.mismatch)];
        if (!m.majority || std::binary_search(m.odd_ranks.begin(), m.odd_ranks.end(), static_cast<int32_t>(r)))
          continue;
        uint32_t& node = node_of[static_cast<size_t>(front.mismatch)];
        if (node == kNoIndex) {
          node = AddNode();
          for (const int32_t odd : m.odd_ranks)
            arcs_[node].push_back({static_cast<uint32_t>(odd), "calls differ", m.comm, nullptr});
        }
        arcs_[r].push_back({node, "in it", m.comm, front.op});
      }
    }
    in_circle_.resize(arcs_.size());
  }

  const std::string& ClassOf(uint32_t comm) const {
    static const std::string kNone;
    return comm == kNoIndex ? kNone : model_.comms[comm].klass;
  }
  std::string OpKind(const RankFront& front) const {
    return front.creation                         ? "making"
           : front.op == nullptr                  ? ""
           : ring::IsPointToPoint(front.op->kind) ? ring::CallName(front.op->kind)
                                                  : OpName(model_.bundle, *front.op);
  }

  // Hashes the rank's own properties, without those of the ranks that it waits for.
  size_t Attributes(uint32_t r, bool coarse) const {
    const RankWait& w = waits_[r];
    const bool apart = w.kind == WaitClass::IN_CYCLE && circle_ranks_ <= kCircleApart;
    const auto what = coarse ? size_t{0}
                             : absl::HashOf(static_cast<int>(model_.ranks[r].host), static_cast<int>(w.front.front),
                                            w.front.mismatch, OpKind(w.front));
    return absl::HashOf(static_cast<int>(w.kind), w.finding, apart ? r : kNoIndex, what, ClassOf(w.front.comm));
  }

  size_t CountColors() const {
    absl::flat_hash_set<size_t> seen;
    for (size_t r = 0; r < ranks_; ++r) seen.insert(color_[r]);
    for (size_t v = ranks_; v < color_.size(); ++v) {
      if (missing_[v] >= 0) seen.insert(color_[v]);
    }
    return seen.size();
  }

  void SetAttributes(bool coarse) {
    color_.assign(arcs_.size(), 0);
    for (uint32_t v = 0; v < color_.size(); ++v) {
      if (v < ranks_)
        color_[v] = Attributes(v, coarse);
      else if (missing_[v] >= 0)
        color_[v] = absl::HashOf(2, FindingOf(missing_[v]));
      else
        color_[v] = 1;
    }
  }
  int32_t FindingOf(int32_t rank) const {
    const auto it = finding_of_.find(rank);
    return it == finding_of_.end() ? -1 : it->second;
  }

  void Refine() {
    SetAttributes(false);
    std::vector<size_t> next(color_.size()), targets;
    size_t before = 0, parts = 0;
    for (int round = 0; round < kMostRounds; ++round) {
      absl::flat_hash_set<size_t> all(color_.begin(), color_.end());
      parts = all.size();
      if (parts == before || CountColors() > kMostClasses) break;
      before = parts;
      for (uint32_t v = 0; v < color_.size(); ++v) {
        targets.clear();
        for (const Arc& arc : arcs_[v]) targets.push_back(color_[arc.to]);
        SortUnique(&targets);
        next[v] = absl::HashOf(color_[v], targets);
      }
      color_.swap(next);
    }
    if (CountColors() <= kWantedClasses) return;
    // There are too many classes to show, so uses only the rank's own properties and its distance from the end of its
    // path.
    const std::vector<uint32_t> height = Heights();
    for (const bool coarse : {false, true}) {
      SetAttributes(coarse);
      for (uint32_t v = 0; v < ranks_; ++v) color_[v] = absl::HashOf(color_[v], height[v]);
      if (CountColors() <= kMostClasses) return;
    }
    SetAttributes(true);
  }

  // Returns, for each node, the length in ranks of the longest path to a node that waits for nothing. All nodes of a
  // cycle have the same height.
  std::vector<uint32_t> Heights() const {
    const auto n = static_cast<uint32_t>(arcs_.size());
    const Components found = FindComponents(
        n, [&](uint32_t v) { return arcs_[v].size(); }, [&](uint32_t v, size_t k) { return arcs_[v][k].to; });
    // Tarjan's algorithm numbers a component after all components that it leads to.
    std::vector<std::vector<uint32_t>> members(found.count);
    for (uint32_t v = 0; v < n; ++v) members[found.of[v]].push_back(v);
    std::vector<uint32_t> of_component(found.count, 0), height(n, 0);
    for (uint32_t c = 0; c < found.count; ++c) {
      uint32_t most = 0;
      for (const uint32_t v : members[c]) {
        for (const Arc& arc : arcs_[v]) {
          if (found.of[arc.to] != c) most = std::max(most, of_component[found.of[arc.to]] + (v < ranks_ ? 1 : 0));
        }
      }
      of_component[c] = most;
      for (const uint32_t v : members[c]) height[v] = most;
    }
    return height;
  }

  void WriteClasses() {
    // In this order: causes, cycles, ranks without data, victims nearest first, the rest.
    struct Group {
      std::vector<uint32_t> nodes;
      WaitClass::Kind kind = WaitClass::HEALTHY;
      uint32_t height = 0;
    };
    const std::vector<uint32_t> height = Heights();
    std::map<size_t, Group> groups;
    for (uint32_t v = 0; v < arcs_.size(); ++v) {
      if (v >= ranks_ && missing_[v] < 0) continue;
      Group& g = groups[color_[v]];
      g.nodes.push_back(v);
      g.kind = v < ranks_ ? waits_[v].kind : WaitClass::NO_DATA;
      g.height = std::max(g.height, height[v]);
    }
    std::vector<const Group*> order;
    order.reserve(groups.size());
    for (const auto& [color, g] : groups) order.push_back(&g);
    auto place = [](const Group& g) {
      static const int kPlace[] = {4, 3, 0, 1, 2};  // indexed by WaitClass::Kind
      return std::tuple(kPlace[g.kind], g.height, g.nodes[0]);
    };
    std::sort(order.begin(), order.end(), [&](const Group* a, const Group* b) { return place(*a) < place(*b); });
    class_of_.assign(arcs_.size(), -1);
    for (const Group* g : order) {
      const int32_t index = facts_->classes_size();
      WaitClass* out = facts_->add_classes();
      for (const uint32_t v : g->nodes) class_of_[v] = index;
      Describe(g->nodes, g->kind, out);
    }
    // Ranks that no rank certainly waits for: those without data, and those whose recording was stopped.
    AddRest(left_out_, "no data");
    absl::flat_hash_map<int32_t, int32_t> class_of_missing;
    for (size_t v = ranks_; v < arcs_.size(); ++v) {
      if (missing_[v] >= 0) class_of_missing[missing_[v]] = class_of_[v];
    }
    std::vector<int32_t> blind;
    for (size_t row = 0; row < in_.bundle.ranks.size(); ++row) {
      const int32_t rank = in_.bundle.ranks[row].rank;
      if (in_.model_of_row[row] < 0 && !class_of_missing.contains(rank)) blind.push_back(rank);
    }
    const int32_t rest = facts_->classes_size();
    AddRest(blind, "recording stopped");
    for (size_t row = 0; row < in_.bundle.ranks.size(); ++row) {
      const int32_t m = in_.model_of_row[row];
      const auto waited = class_of_missing.find(in_.bundle.ranks[row].rank);
      facts_->mutable_ranks(static_cast<int>(row))
          ->set_wait_class(m >= 0                             ? class_of_[static_cast<size_t>(m)]
                           : waited != class_of_missing.end() ? waited->second
                                                              : rest);
    }
  }

  void AddRest(const std::vector<int32_t>& ranks, const char* state) {
    if (ranks.empty()) return;
    WaitClass* out = facts_->add_classes();
    out->set_kind(WaitClass::NO_DATA);
    SetRuns(ranks, out->mutable_ranks());
    out->set_label(absl::StrCat(RanksLabel(ranks), ": ", state));
    out->set_state(state);
    out->set_comm(-1);
    out->set_sequence(-1);
    out->set_finding(FindingOf(ranks[0]));
  }

  static std::string RanksLabel(const std::vector<int32_t>& ranks) {
    return ranks.size() == 1 ? absl::StrCat("rank ", ranks[0])
                             : absl::StrCat(CountText(static_cast<int64_t>(ranks.size())), " ranks");
  }

  void Describe(const std::vector<uint32_t>& nodes, WaitClass::Kind kind, WaitClass* out) const {
    std::vector<int32_t> ranks;
    out->set_kind(kind);
    out->set_comm(-1);
    out->set_sequence(-1);
    out->set_finding(-1);
    if (nodes[0] >= ranks_) {
      for (const uint32_t v : nodes) ranks.push_back(missing_[v]);
      out->set_state("no data");
      out->set_finding(FindingOf(ranks[0]));
      SetRuns(ranks, out->mutable_ranks());
      out->set_label(absl::StrCat(RanksLabel(ranks), ": no data"));
      return;
    }
    std::set<uint32_t> comms;
    std::set<int64_t> seqs;
    std::set<std::string> operations;
    std::map<std::string, size_t> states;  // number of ranks in each state
    bool point_to_point = false;
    for (const uint32_t v : nodes) {
      const Rank& rank = model_.bundle.ranks[v];
      const RankFront& front = waits_[v].front;
      ranks.push_back(rank.rank);
      ++states[StateOf(v)];
      if (front.front == Front::kIdle) continue;
      if (front.comm != kNoIndex) comms.insert(front.comm);
      if (front.op != nullptr && front.op->seq >= 0) seqs.insert(front.op->seq);
      operations.insert(OpKind(front));
      point_to_point |= front.op != nullptr && ring::IsPointToPoint(front.op->kind);
    }
    SetRuns(ranks, out->mutable_ranks());
    out->set_finding(waits_[nodes[0]].finding);
    if (comms.size() == 1) out->set_comm(static_cast<int32_t>(*comms.begin()));
    const std::string operation = operations.size() == 1 ? *operations.begin() : "";
    if (operation != "making") out->set_operation(CleanUtf8(operation, 200));
    out->set_point_to_point(point_to_point && !operation.empty());
    // A sequence number only has a meaning on its own communicator.
    if (seqs.size() == 1 && comms.size() == 1) out->set_sequence(*seqs.begin());
    const auto& [state, in_state] = *std::max_element(states.begin(), states.end(),
                                                      [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::string share = states.size() == 1 ? "" : absl::StrCat(" (", in_state, " of ", ranks.size(), ")");
    out->set_state(absl::StrCat(CleanUtf8(state, 280), share));
    std::string label = RanksLabel(ranks);
    if (!operation.empty() && comms.size() >= 1) {
      absl::StrAppend(&label, " in ", operation == "making" ? "the creation" : operation,
                      seqs.size() == 1 && operation != "making" ? absl::StrCat(" #", *seqs.begin()) : "", " of ",
                      CommsLabel(comms));
    } else if (ranks.size() == 1) {
      const Rank& rank = model_.bundle.ranks[nodes[0]];
      if (!rank.host.empty())
        absl::StrAppend(&label, " (", Printable(rank.host, 64),
                        rank.gpu_index >= 0 ? absl::StrCat(", GPU ", rank.gpu_index) : "", ")");
    }
    out->set_label(CleanUtf8(label, 400));
  }

  std::string CommsLabel(const std::set<uint32_t>& comms) const {
    const Communicator& first = model_.bundle.comms[*comms.begin()];
    if (comms.size() == 1) return CommLabel(first);
    const std::string& names = model_.comms[*comms.begin()].names;
    const bool one = std::all_of(comms.begin(), comms.end(), [&](uint32_t c) {
      return model_.comms[c].klass == model_.comms[*comms.begin()].klass;
    });
    if (!one || names.empty()) return absl::StrCat(CountText(static_cast<int64_t>(comms.size())), " communicators");
    return absl::StrCat(Printable(names, 80), " (", CountText(static_cast<int64_t>(comms.size())), " communicators)");
  }

  std::string StateOf(uint32_t r) const {
    const Rank& rank = model_.bundle.ranks[r];
    const HostState host = model_.ranks[r].host;
    const std::string place = host == HostState::kElsewhere ? PlaceText(rank.process) : "";
    if (!place.empty()) return absl::StrCat("elsewhere: ", place);
    std::string words = HostStateText(rank, host);
    if (!words.empty()) return words;
    return waits_[r].front.front == Front::kIdle ? "not stuck" : "in an operation";
  }

  void WriteEdges() {
    if (graph_ == nullptr) return;
    // For nodes between ranks: the classes that they lead to.
    std::vector<std::map<int32_t, Arc>> leads(arcs_.size() - ranks_);
    std::map<std::pair<int32_t, int32_t>, Arc> edges;
    std::set<std::pair<int32_t, int32_t>> circles;
    auto reach = [&](auto&& self, uint32_t v, int depth) -> const std::map<int32_t, Arc>& {
      auto& out = leads[v - ranks_];
      if (!out.empty() || depth > 4) return out;
      for (const Arc& arc : arcs_[v]) {
        if (class_of_[arc.to] >= 0)
          out.try_emplace(class_of_[arc.to], arc);
        else
          for (const auto& [c, inner] : self(self, arc.to, depth + 1)) out.try_emplace(c, inner);
      }
      return out;
    };
    auto add = [&](uint32_t from, int32_t to, const Arc& own, const char* why, bool circle) {
      const int32_t c = class_of_[from];
      if (c == to || (edges.size() >= kMostEdges && !edges.contains({c, to}))) return;
      const auto [it, fresh] = edges.try_emplace({c, to}, own);
      if (fresh)
        it->second.why = why;
      else if (it->second.comm != own.comm)
        it->second.comm = kNoIndex;
      if (it->second.op == nullptr) it->second.op = own.op;
      if (circle) circles.insert({c, to});
    };
    for (uint32_t r = 0; r < ranks_; ++r) {
      for (const Arc& arc : arcs_[r]) {
        const bool circle = in_circle_[r] && in_circle_[arc.to];
        if (class_of_[arc.to] >= 0) {
          add(r, class_of_[arc.to], arc, arc.why, circle);
        } else {
          for (const auto& [c, inner] : reach(reach, arc.to, 0))
            add(r, c, arc, inner.why, circle && in_circle_[inner.to]);
        }
      }
    }
    for (const auto& [ends, arc] : edges) {
      WaitEdge* out = facts_->add_edges();
      out->set_from(static_cast<uint32_t>(ends.first));
      out->set_to(static_cast<uint32_t>(ends.second));
      out->set_why(arc.why);
      out->set_comm(arc.comm == kNoIndex ? -1 : static_cast<int32_t>(arc.comm));
      out->set_sequence(arc.comm != kNoIndex && arc.op != nullptr && arc.op->seq >= 0 ? arc.op->seq : -1);
      out->set_in_cycle(circles.contains(ends));
    }
  }

  const ViewInput& in_;
  const Model& model_;
  const WaitGraph* graph_;
  ViewFacts* facts_;
  const size_t ranks_;
  uint32_t first_extra_ = 0;
  std::vector<std::vector<Arc>> arcs_;
  std::vector<int32_t> missing_;  // indexed by node: global rank without data, else -1
  std::vector<RankWait> waits_;
  std::vector<bool> in_circle_;
  size_t circle_ranks_ = 0;
  absl::flat_hash_map<int32_t, int32_t> finding_of_;  // indexed by global rank: the first finding that names it
  std::vector<int32_t> left_out_;
  std::vector<size_t> color_;
  std::vector<int32_t> class_of_;
};

}  // namespace

void SetWaits(const ViewInput& in, ViewFacts* facts) { Folding(in, facts).Run(); }

}  // namespace lockstep
