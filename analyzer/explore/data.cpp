// The data of the page (web/data.ts reads it): texts and tables as JSON, one entry a call as columns in base64.
#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "analyzer/explore/explore.h"
#include "analyzer/report/report.h"
#include "analyzer/util/printable.h"
#include "analyzer/viewdata/parts.h"
#include "analyzer/viewdata/state.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// The most bytes that the columns of calls take, for a small job and a large one.
constexpr size_t kSmallBytes = 500'000, kLargeBytes = 3'000'000, kBytesPerRank = 3'000;
constexpr size_t kBytesPerCall = 30;  // as text
// Calls of the culprits' communicator that are kept however old, of this many members.
constexpr size_t kFocusCalls = 40, kFocusMembers = 256;
constexpr size_t kTextColumns = 400;

std::string Clean(std::string_view text, size_t limit = kTextColumns) {
  return Printable(text, limit);
}

class Interned {
 public:
  size_t Of(const std::string& text) {
    const auto [it, fresh] = places_.try_emplace(text, texts_.size());
    if (fresh) texts_.push_back(Clean(text));
    return it->second;
  }
  const Json& texts() const { return texts_; }

 private:
  absl::flat_hash_map<std::string, size_t> places_;
  Json texts_ = Json::array();
};

template <typename T>
std::string Column(const std::vector<T>& values) {
  static_assert(std::endian::native == std::endian::little);
  return absl::Base64Escape(absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
}

Json Runs(const RankRuns& runs) {
  return Json(std::vector<int32_t>(runs.bounds().begin(), runs.bounds().end()));
}

template <typename Ranks>
Json RunsOf(const Ranks& ranks) {
  RankRuns runs;
  SetRuns(std::vector<int32_t>(ranks.begin(), ranks.end()), &runs);
  return Runs(runs);
}

Json Sections(const ViewFacts& facts) {
  Json out = Json::array();
  for (const ReportSection& section : facts.report()) {
    Json rows = Json::array();
    for (const ReportSection::Row& row : section.rows()) {
      Json lines = Json::array();
      for (const std::string& line : row.lines()) lines.push_back(Clean(line, 2000));
      rows.push_back({Clean(row.label()), lines});
    }
    out.push_back({{"title", Clean(section.title(), 2000)}, {"finding", section.finding()}, {"rows", rows}});
  }
  return out;
}

int32_t CommOf(const Bundle& bundle, const CommunicatorRef& ref) {
  for (size_t c = 0; c < bundle.comms.size(); ++c) {
    if (!ref.id().empty() && bundle.comms[c].id == ref.id()) return static_cast<int32_t>(c);
  }
  return -1;
}

Json Findings(const Bundle& bundle, const ViewFacts& facts) {
  Json out = Json::array();
  for (const Finding& finding : facts.verdict().findings()) {
    Json stacks = Json::array(), sites = Json::array(), chain = Json::array();
    for (const Evidence& evidence : finding.evidence()) {
      if (evidence.kind() != Evidence::STACK || stacks.size() >= 8) continue;
      Json frames = Json::array();
      for (const Frame& frame : evidence.frames())
        frames.push_back({Clean(frame.text()), static_cast<int>(frame.kind())});
      stacks.push_back({{"ranks", RunsOf(evidence.ranks())},
                        {"place", Clean(evidence.place())},
                        {"refused", Clean(evidence.refused())},
                        {"frames", frames}});
    }
    for (const CallSite& site : finding.call_sites())
      sites.push_back({RunsOf(site.ranks()), Clean(site.operation()), Clean(site.place())});
    int32_t comm = CommOf(bundle, finding.communicator());
    for (const ChainLink& link : finding.chain()) {
      if (chain.size() >= 20) break;
      if (comm < 0) comm = CommOf(bundle, link.communicator());
      chain.push_back(Clean(link.text()));
    }
    out.push_back({{"kind", FindingName(finding.kind())},
                   {"text", Clean(finding.summary(), 2000)},
                   {"ranks", RunsOf(finding.culprit_ranks())},
                   {"comm", comm},
                   {"seq", finding.sequence()},
                   {"op", Clean(finding.operation())},
                   {"victims", finding.victim_count()},
                   {"place", Clean(finding.place())},
                   {"stacks", stacks},
                   {"sites", sites},
                   {"chain", chain}});
  }
  return out;
}

Json Ranks(const Bundle& bundle, const ViewFacts& facts, Interned* texts) {
  std::map<std::string, std::vector<int64_t>> columns;
  for (int i = 0; i < facts.ranks_size(); ++i) {
    const RankFacts& fact = facts.ranks(i);
    const Rank& rank = bundle.ranks[static_cast<size_t>(i)];
    columns["rank"].push_back(rank.rank);
    columns["host"].push_back(static_cast<int64_t>(texts->Of(rank.host)));
    columns["gpu"].push_back(rank.gpu_index);
    columns["pid"].push_back(rank.pid);
    columns["state"].push_back(static_cast<int64_t>(texts->Of(fact.state())));
    columns["stage"].push_back(fact.stage());
    columns["cls"].push_back(fact.wait_class());
    columns["lag"].push_back(fact.lag());
    columns["lost"].push_back(static_cast<int64_t>(fact.records_lost()));
  }
  return columns;
}

Json Waits(const ViewFacts& facts) {
  Json classes = Json::array(), edges = Json::array();
  for (const WaitClass& one : facts.classes()) {
    classes.push_back({{"kind", static_cast<int>(one.kind())},
                       {"ranks", Runs(one.ranks())},
                       {"label", Clean(one.label())},
                       {"state", Clean(one.state())},
                       {"comm", one.comm()},
                       {"seq", one.sequence()},
                       {"op", Clean(one.operation())}});
  }
  for (const WaitEdge& edge : facts.edges())
    edges.push_back({edge.from(), edge.to(), Clean(edge.why()), edge.in_cycle() ? 1 : 0});
  return {{"classes", classes}, {"edges", edges}};
}

Json Mismatches(const ViewFacts& facts) {
  Json out = Json::array();
  for (const CallMismatch& mismatch : facts.mismatches()) {
    Json groups = Json::array();
    for (const CallMismatch::Group& group : mismatch.groups())
      groups.push_back({{"value", Clean(group.value())}, {"ranks", Runs(group.ranks())}, {"usual", group.reference()}});
    out.push_back({{"comm", mismatch.comm()},
                   {"seq", mismatch.sequence()},
                   {"field", Clean(mismatch.field())},
                   {"groups", groups}});
  }
  return out;
}

Json Stacks(const ViewFacts& facts, Interned* texts) {
  Json parents = Json::array(), frames = Json::array(), kinds = Json::array(), ranks = Json::array();
  for (const StackNode& node : facts.stacks()) {
    parents.push_back(node.parent());
    frames.push_back(texts->Of(node.frame()));
    kinds.push_back(static_cast<int>(node.kind()));
    ranks.push_back(Runs(node.ranks()));
  }
  return {{"parent", parents}, {"frame", frames}, {"kind", kinds}, {"ranks", ranks}};
}

Json Comms(const Bundle& bundle) {
  Json out = Json::array();
  for (const Communicator& comm : bundle.comms)
    out.push_back({{"name", Clean(CommLabel(comm))}, {"size", comm.size}, {"ranks", RunsOf(comm.members)}});
  return out;
}

// A number that a page can count with; -1 none, -2 not known.
int32_t Counted(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, kUnknown, INT32_MAX));
}

// Calls of all ranks, one after the other.
struct Calls {
  std::vector<uint32_t> of_rank;  // how many
  std::vector<uint16_t> membership;
  std::vector<uint8_t> kind, state;
  std::vector<int32_t> seq, peer;
  std::vector<uint32_t> begin, end;  // in units from the first time; 0 not known
  std::vector<uint32_t> site;
  bool sites = false;
};

class CallColumns {
 public:
  CallColumns(const Bundle& bundle, const ViewFacts& facts) : bundle_(bundle), facts_(facts) {
    unit_ns_ = std::max<int64_t>(1000, (facts.last_ns() - facts.first_ns()) / (int64_t{1} << 31) + 1);
    for (const CallMismatch& mismatch : facts.mismatches()) {
      for (const CallMismatch::Group& group : mismatch.groups()) {
        if (!group.reference()) differs_[{mismatch.comm(), mismatch.sequence()}].push_back(&group.ranks());
      }
    }
    for (const Finding& finding : facts.verdict().findings()) {
      const int32_t comm = CommOf(bundle, finding.communicator());
      if (comm < 0) continue;
      focus_comms_.insert(static_cast<uint32_t>(comm));
      const std::vector<int32_t>& members = bundle.comms[static_cast<size_t>(comm)].members;
      focus_ranks_.insert(finding.culprit_ranks().begin(), finding.culprit_ranks().end());
      focus_ranks_.insert(members.begin(),
                          members.begin() + static_cast<ptrdiff_t>(std::min(members.size(), kFocusMembers)));
      break;
    }
    const size_t ranks = std::max<size_t>(bundle.ranks.size(), 1);
    per_rank_ =
        std::max<size_t>(1, std::clamp(ranks * kBytesPerRank, kSmallBytes, kLargeBytes) / kBytesPerCall / ranks);
  }

  Json Make(Interned* texts) {
    for (size_t r = 0; r < bundle_.ranks.size(); ++r) AddRank(r, texts);
    Json out = {{"unitNs", unit_ns_},
                {"ofRank", Column(calls_.of_rank)},
                {"membership", Column(calls_.membership)},
                {"kind", Column(calls_.kind)},
                {"state", Column(calls_.state)},
                {"seq", Column(calls_.seq)},
                {"peer", Column(calls_.peer)},
                {"begin", Column(calls_.begin)},
                {"end", Column(calls_.end)},
                {"site", calls_.sites ? Column(calls_.site) : ""},
                {"perRank", per_rank_},
                {"leftOut", left_out_}};
    return out;
  }

 private:
  uint32_t Time(int64_t ns, int64_t offset) const {
    if (ns == 0) return 0;
    return static_cast<uint32_t>(std::clamp<int64_t>((ns + offset - facts_.first_ns()) / unit_ns_ + 1, 1, UINT32_MAX));
  }

  ViewState StateOf(const Rank& rank, const Op& op) const {
    const Membership* m = op.membership < rank.memberships.size() ? &rank.memberships[op.membership] : nullptr;
    if (m != nullptr) {
      const auto found = differs_.find({static_cast<int32_t>(m->comm), op.seq});
      if (found != differs_.end() && ring::IsCollective(op.kind)) {
        for (const RankRuns* runs : found->second) {
          for (int i = 0; i + 1 < runs->bounds_size(); i += 2) {
            if (rank.rank >= runs->bounds(i) && rank.rank <= runs->bounds(i + 1)) return ViewState::kMismatch;
          }
        }
      }
    }
    switch (op.state) {
      case OpState::kCompleted:
        return ViewState::kCompleted;
      case OpState::kFailed:
        return ViewState::kFailed;
      case OpState::kEntered:
      case OpState::kQueued:
      case OpState::kEnqueued:
        return ViewState::kEnqueued;
      case OpState::kStarted:
      case OpState::kIncomplete:
        return ViewState::kWaiting;
      case OpState::kUnknown:
      case OpState::kCaptured:
        break;
    }
    const bool counted = m != nullptr && ring::IsCollective(op.kind) && op.seq >= 0 && m->completed >= op.seq;
    return counted ? ViewState::kCompleted : ViewState::kIssued;
  }

  void AddRank(size_t r, Interned* texts) {
    const Rank& rank = bundle_.ranks[r];
    std::vector<const Op*> ops;
    for (const Op& op : rank.ops) {
      if (op.membership < rank.memberships.size()) ops.push_back(&op);
    }
    if (std::all_of(ops.begin(), ops.end(), [](const Op* op) { return op->enter_ns != 0; }))
      std::stable_sort(ops.begin(), ops.end(), [](const Op* a, const Op* b) { return a->enter_ns < b->enter_ns; });
    const bool focus = focus_ranks_.contains(rank.rank);
    size_t focus_kept = 0;
    std::vector<const Op*> kept;
    for (size_t i = ops.size(); i-- > 0;) {
      const bool of_focus = focus && focus_comms_.contains(rank.memberships[ops[i]->membership].comm);
      if (ops.size() - i <= per_rank_ || (of_focus && focus_kept < kFocusCalls)) kept.push_back(ops[i]);
      focus_kept += of_focus;
    }
    left_out_ += static_cast<int64_t>(ops.size() - kept.size());
    calls_.of_rank.push_back(static_cast<uint32_t>(kept.size()));
    const int64_t offset = facts_.ranks(static_cast<int>(r)).clock_offset_ns();
    for (auto it = kept.rbegin(); it != kept.rend(); ++it) Add(rank, **it, offset, texts);
  }

  void Add(const Rank& rank, const Op& op, int64_t offset, Interned* texts) {
    const std::vector<int32_t>& members = bundle_.comms[rank.memberships[op.membership].comm].members;
    const bool known = op.root_or_peer >= 0 && static_cast<size_t>(op.root_or_peer) < members.size();
    calls_.membership.push_back(static_cast<uint16_t>(std::min<uint32_t>(op.membership, UINT16_MAX)));
    calls_.kind.push_back(static_cast<uint8_t>(op.kind));
    calls_.state.push_back(static_cast<uint8_t>(StateOf(rank, op)));
    calls_.seq.push_back(Counted(op.seq));
    calls_.peer.push_back(known ? members[static_cast<size_t>(op.root_or_peer)] : -1);
    calls_.begin.push_back(Time(op.started_ns != 0 ? op.started_ns : op.enter_ns, offset));
    calls_.end.push_back(Time(op.completed_ns != 0 ? op.completed_ns : 0, offset));
    const bool site = op.call_site < bundle_.strings.size();
    calls_.sites |= site;
    calls_.site.push_back(site ? static_cast<uint32_t>(texts->Of(bundle_.strings[op.call_site])) : UINT32_MAX);
  }

  const Bundle& bundle_;
  const ViewFacts& facts_;
  absl::flat_hash_map<std::pair<int32_t, int64_t>, std::vector<const RankRuns*>> differs_;
  absl::flat_hash_set<uint32_t> focus_comms_;
  absl::flat_hash_set<int32_t> focus_ranks_;
  int64_t unit_ns_ = 1000, left_out_ = 0;
  size_t per_rank_ = 1;
  Calls calls_;
};

Json Memberships(const Bundle& bundle) {
  std::vector<uint32_t> of_rank, comm;
  std::vector<int32_t> issued, completed;
  for (const Rank& rank : bundle.ranks) {
    of_rank.push_back(static_cast<uint32_t>(rank.memberships.size()));
    for (const Membership& m : rank.memberships) {
      comm.push_back(m.comm);
      issued.push_back(Counted(m.issued));
      completed.push_back(Counted(m.completed));
    }
  }
  return {{"ofRank", Column(of_rank)},
          {"comm", Column(comm)},
          {"issued", Column(issued)},
          {"completed", Column(completed)}};
}

// By number: the name, and 1 for a collective, 2 for a send or receive.
Json Kinds() {
  Json kinds = Json::array();
  for (int kind = 0; kind <= static_cast<int>(ring::CallKind::kProfilerComm); ++kind) {
    const auto value = static_cast<ring::CallKind>(kind);
    kinds.push_back({ring::CallName(value), ring::IsCollective(value) ? 1 : ring::IsPointToPoint(value) ? 2 : 0});
  }
  return kinds;
}

Json StateNames() {
  Json names = Json::array();
  for (int state = 0; state < static_cast<int>(ViewState::kCount); ++state)
    names.push_back(ViewStateName(static_cast<ViewState>(state)));
  return names;
}

}  // namespace

std::string ExploreData(const Bundle& bundle, const ViewFacts& facts) {
  Interned texts;
  Json unknown = Json::array();
  if (!facts.missing_text().empty()) unknown.push_back(Clean(facts.missing_text(), 2000));
  for (const std::string& line : facts.unknown()) {
    if (unknown.size() < 200) unknown.push_back(Clean(line));
  }
  Json data = {{"job", Clean(bundle.job)},
               {"verdict", VerdictName(facts.verdict().verdict())},
               {"expected", facts.verdict().ranks_expected()},
               {"sections", Sections(facts)},
               {"findings", Findings(bundle, facts)},
               {"ranks", Ranks(bundle, facts, &texts)},
               {"missing", facts.missing_size() > 0 ? Runs(facts.missing(0)) : Json::array()},
               {"comms", Comms(bundle)},
               {"memberships", Memberships(bundle)},
               {"calls", CallColumns(bundle, facts).Make(&texts)},
               {"waits", Waits(facts)},
               {"mismatches", Mismatches(facts)},
               {"stacks", Stacks(facts, &texts)},
               {"unknown", unknown},
               {"kinds", Kinds()},
               {"states", StateNames()}};
  data["texts"] = texts.texts();
  return absl::StrReplaceAll(data.dump(-1, ' ', true, Json::error_handler_t::replace), {{"<", "\\u003c"}});
}

}  // namespace lockstep
