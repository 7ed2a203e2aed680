// The page's data (web/data.ts reads it): texts and tables as JSON, and calls as base64 columns with one entry per
// call.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "analyzer/browser/explore/calls.h"
#include "analyzer/browser/explore/explore.h"
#include "analyzer/browser/explore/grids.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/model/rank_set.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/report.h"
#include "analyzer/report/words/start_up.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/viewdata/parts.h"
#include "analyzer/viewdata/state.h"
#include "analyzer/viewdata/words.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// Maximum bytes of the call columns, for a small and a large job.
constexpr size_t kSmallBytes = 500'000, kLargeBytes = 3'000'000, kBytesPerRank = 3'000;
constexpr size_t kBytesPerCall = 30;  // as base64
// A page with room for fewer than kFewestCalls per rank only contains calls of the ranks in the answer, at most
// kAnswerCalls for each.
constexpr size_t kFewestCalls = 16, kAnswerCalls = 400;
constexpr size_t kMostAnswerRanks = 64;
constexpr size_t kMostServedCalls = 8192;  // for each rank
constexpr size_t kTextColumns = 400;
constexpr const char* kWholeJob = "lockstep serve FOLDER or lockstep view FOLDER shows everything";

std::string Clean(std::string_view text, size_t limit = kTextColumns) { return Printable(text, limit); }

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

Json Runs(const RankRuns& runs) { return Json(std::vector<int32_t>(runs.bounds().begin(), runs.bounds().end())); }

template <typename List>
Json RunsOf(const List& ranks) {
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
                        {"frames", frames},
                        {"own", CodeFrame(evidence.frames())}});
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

Json RankColumns(const Bundle& bundle, const ViewFacts& facts, Interned* texts) {
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

// Returns the first finding's picture.
Json FocusOf(const ViewFacts& facts) {
  if (facts.focuses().empty()) return nullptr;
  const Focus& focus = facts.focuses(0);
  Json rows = Json::array();
  for (const Focus::Row& row : focus.rows()) {
    Json cells = Json::array();
    for (const Focus::Cell& cell : row.cells()) cells.push_back({cell.state(), Clean(cell.call()), Clean(cell.text())});
    rows.push_back({{"label", Clean(row.label())},
                    {"place", Clean(row.place())},
                    {"ranks", Runs(row.ranks())},
                    {"culprit", row.culprit()},
                    {"state", Clean(row.state())},
                    {"kind", static_cast<int>(row.kind())},
                    {"cells", cells}});
  }
  return {{"comm", focus.comm()},
          {"title", Clean(focus.title())},
          {"fault", Clean(focus.fault())},
          {"columns", focus.columns()},
          {"faultColumn", focus.fault_column()},
          {"firstSeq", focus.first_sequence()},
          {"rows", rows}};
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

// For each node at which a stack may end, finds the node of the user's code on the path to that node; -1 if there is
// none.
std::vector<int> OwnNodes(const ViewFacts& facts) {
  std::vector<int> own(static_cast<size_t>(facts.stacks_size()), -1);
  std::vector<int64_t> ending;  // indexed by node: ranks whose stacks end there
  std::vector<Frame> frames;
  for (const StackNode& node : facts.stacks()) {
    const auto ranks = static_cast<int64_t>(Ranks::Of(node.ranks()).size());
    ending.push_back(ranks);
    if (node.parent() >= 0) ending[static_cast<size_t>(node.parent())] -= ranks;
    frames.push_back(ParseFrame(node.frame()));
    frames.back().set_kind(node.kind());
  }
  for (int end = 0; end < facts.stacks_size(); ++end) {
    if (ending[static_cast<size_t>(end)] == 0) continue;
    std::vector<int> path;
    google::protobuf::RepeatedPtrField<Frame> stack;
    for (int node = end; node >= 0; node = facts.stacks(node).parent()) {
      path.push_back(node);
      *stack.Add() = frames[static_cast<size_t>(node)];
    }
    if (const int code = CodeFrame(stack); code >= 0) own[static_cast<size_t>(end)] = path[static_cast<size_t>(code)];
  }
  return own;
}

Json Stacks(const ViewFacts& facts, Interned* texts) {
  Json parents = Json::array(), frames = Json::array(), kinds = Json::array(), ranks = Json::array();
  for (const StackNode& node : facts.stacks()) {
    parents.push_back(node.parent());
    frames.push_back(texts->Of(node.frame()));
    kinds.push_back(static_cast<int>(node.kind()));
    ranks.push_back(Runs(node.ranks()));
  }
  return {{"parent", parents}, {"frame", frames}, {"kind", kinds}, {"ranks", ranks}, {"own", OwnNodes(facts)}};
}

Json Comms(const Bundle& bundle, const Lanes& lanes) {
  Json out = Json::array();
  for (size_t c = 0; c < bundle.comms.size(); ++c) {
    const Communicator& comm = bundle.comms[c];
    out.push_back({{"name", Clean(CommLabel(comm))},
                   {"size", comm.size},
                   {"lane", lanes.of_comm[c]},
                   {"ranks", RunsOf(comm.members)}});
  }
  return out;
}

Json LaneNames(const Lanes& lanes) {
  Json out = Json::array();
  for (const std::string& name : lanes.names) out.push_back(Clean(name));
  return out;
}

// Limits a number to 32 bits. -1 means none, -2 unknown.
int32_t Counted(int64_t value) { return static_cast<int32_t>(std::clamp<int64_t>(value, kUnknown, INT32_MAX)); }

// Calls of some ranks, one rank after the other.
class CallColumns {
 public:
  // `texts` is null if the source has no call sites.
  CallColumns(const Bundle& bundle, const ViewFacts& facts, const CallSource& source, Interned* texts)
      : bundle_(bundle), facts_(facts), source_(source), states_(bundle, facts), texts_(texts) {
    unit_ns_ = std::max<int64_t>(1000, (facts.last_ns() - facts.first_ns()) / (int64_t{1} << 31) + 1);
  }

  // Adds the rank's newest calls.
  void Add(size_t rank, size_t most) {
    source_.Get(rank, &calls_);
    const size_t kept = std::min(calls_.size(), most);
    left_out_ += static_cast<int64_t>(calls_.size() - kept);
    of_rank_.push_back(static_cast<uint32_t>(kept));
    for (size_t i = calls_.size() - kept; i < calls_.size(); ++i) AddCall(rank, calls_[i]);
  }

  Json Take() const {
    return {{"unitNs", unit_ns_},
            {"span", (facts_.last_ns() - facts_.first_ns()) / unit_ns_ + 1},
            {"ofRank", Column(of_rank_)},
            {"membership", Column(membership_)},
            {"kind", Column(kind_)},
            {"state", Column(state_)},
            {"seq", Column(seq_)},
            {"peer", Column(peer_)},
            {"begin", Column(begin_)},
            {"end", Column(end_)},
            {"site", any_site_ ? Column(site_) : ""}};
  }
  int64_t left_out() const { return left_out_; }

 private:
  uint32_t Time(int64_t ns, int64_t offset) const {
    if (ns == 0) return 0;
    return static_cast<uint32_t>(std::clamp<int64_t>((ns + offset - facts_.first_ns()) / unit_ns_ + 1, 1, UINT32_MAX));
  }

  void AddCall(size_t rank, const PageCall& call) {
    const Membership& m = bundle_.ranks[rank].memberships[call.membership];
    const std::vector<int32_t>& members = bundle_.comms[m.comm].members;
    const bool known = call.peer >= 0 && static_cast<size_t>(call.peer) < members.size();
    const int64_t offset = facts_.ranks(static_cast<int>(rank)).clock_offset_ns();
    membership_.push_back(static_cast<uint16_t>(std::min<uint32_t>(call.membership, UINT16_MAX)));
    kind_.push_back(static_cast<uint8_t>(call.kind));
    state_.push_back(static_cast<uint8_t>(states_.Of(rank, call)));
    seq_.push_back(Counted(call.seq));
    peer_.push_back(known ? members[static_cast<size_t>(call.peer)] : -1);
    begin_.push_back(Time(call.started_ns != 0 ? call.started_ns : call.enter_ns, offset));
    end_.push_back(Time(call.completed_ns, offset));
    const bool site = texts_ != nullptr && call.site < bundle_.strings.size();
    any_site_ |= site;
    site_.push_back(site ? static_cast<uint32_t>(texts_->Of(bundle_.strings[call.site])) : UINT32_MAX);
  }

  const Bundle& bundle_;
  const ViewFacts& facts_;
  const CallSource& source_;
  const CallStates states_;
  Interned* const texts_;
  std::vector<PageCall> calls_;
  int64_t unit_ns_ = 1000, left_out_ = 0;
  std::vector<uint32_t> of_rank_;  // number of calls of each rank
  std::vector<uint16_t> membership_;
  std::vector<uint8_t> kind_, state_;
  std::vector<int32_t> seq_, peer_;
  std::vector<uint32_t> begin_, end_;  // in units since the first time; 0 if unknown
  std::vector<uint32_t> site_;
  bool any_site_ = false;
};

Json GridJson(const PageGrid& grid) {
  std::vector<uint32_t> rows, runs;  // rows: pairs of a count and the pattern + 1, or 0
  std::vector<int32_t> from;
  std::vector<uint16_t> length;
  std::vector<uint8_t> state;
  for (const int32_t pattern : grid.pattern_of) {
    const uint32_t number = static_cast<uint32_t>(pattern + 1);
    if (rows.empty() || rows.back() != number) {
      rows.push_back(0);
      rows.push_back(number);
    }
    ++rows[rows.size() - 2];
  }
  for (const PageGrid::Pattern& pattern : grid.patterns) {
    from.push_back(static_cast<int32_t>(pattern.first));
    runs.push_back(static_cast<uint32_t>(pattern.runs.size()));
    for (const PageGrid::Run& run : pattern.runs) {
      length.push_back(run.length);
      state.push_back(run.state);
    }
  }
  return {{"columns", grid.columns}, {"firstSeq", grid.first_seq}, {"rows", Column(rows)},  {"from", Column(from)},
          {"runs", Column(runs)},    {"length", Column(length)},   {"state", Column(state)}};
}

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

// Returns each kind of call: its name, and 1 for a collective, 2 for a send or receive, 0 for others.
Json Kinds() {
  Json kinds = Json::array();
  for (int kind = 0; kind <= static_cast<int>(ring::CallKind::kProfilerComm); ++kind) {
    const auto value = static_cast<ring::CallKind>(kind);
    kinds.push_back({ring::CallName(value), ring::IsCollective(value) ? 1 : ring::IsPointToPoint(value) ? 2 : 0});
  }
  return kinds;
}

Json WaitKindNames() {
  Json names = Json::array();
  for (int kind = WaitClass::Kind_MIN; kind <= WaitClass::Kind_MAX; ++kind)
    names.push_back(WaitKindName(static_cast<WaitClass::Kind>(kind)));
  return names;
}

// Returns each state's name and meaning. The last state exists only on the page.
Json StateNames() {
  Json names = Json::array();
  for (int state = 0; state < static_cast<int>(ViewState::kCount); ++state)
    names.push_back({ViewStateName(static_cast<ViewState>(state)), ViewStateMeaning(static_cast<ViewState>(state))});
  names.push_back({kNotCalledYet, "neither this rank nor the rank that it waits for has made this call yet"});
  return names;
}

Json ColumnNames() {
  const std::pair<const char*, columns::Column> all[] = {
      {"rank", columns::kRank},   {"host", columns::kHost},   {"gpu", columns::kGpu},  {"pid", columns::kPid},
      {"stage", columns::kStage}, {"class", columns::kClass}, {"lag", columns::kLag},  {"lost", columns::kLost},
      {"state", columns::kState}, {"comm", columns::kComm},   {"size", columns::kSize}};
  Json names = Json::object();
  for (const auto& [key, column] : all) names[key] = {column.name, column.meaning};
  return names;
}

template <typename Measured>
Json RateJson(const Measured& of) {
  return {of.operations(), of.low_bus_bytes_per_s(), of.bus_bytes_per_s(), of.high_bus_bytes_per_s()};
}

Json Speeds(const ViewFacts& facts) {
  Json out = Json::array();
  for (const Speed& speed : facts.verdict().speeds()) {
    Json hosts = Json::array();
    for (const HostSpeed& host : speed.by_host()) {
      Json one = {Clean(host.host())};
      for (Json& value : RateJson(host)) one.push_back(std::move(value));
      hosts.push_back(std::move(one));
    }
    out.push_back({{"op", Clean(speed.operation())},
                   {"bytes", speed.bytes()},
                   {"ranks", speed.ranks()},
                   {"hosts", speed.hosts()},
                   {"comms", speed.communicators()},
                   {"rate", RateJson(speed)},
                   {"roof", speed.roofline_bus_bytes_per_s()},
                   {"roofName", Clean(speed.roofline())},
                   {"clock", Clean(speed.clock())},
                   {"hostRates", hosts},
                   {"hostsMeasured", speed.hosts_measured()}});
  }
  return out;
}

Json StartOf(const ViewFacts& facts) {
  if (!facts.verdict().has_start_up()) return nullptr;
  const auto seconds = [](int64_t ns) { return ns < 0 ? -1 : std::round(static_cast<double>(ns) / 1e3) / 1e6; };
  const StartUp& start = facts.verdict().start_up();
  Json phases = Json::array(), ranks = Json::array();
  for (const StartUpPhase& phase : start.phases()) {
    phases.push_back({{"name", Clean(PhaseText(phase.name()))},
                      {"column", Clean(phase.name())},
                      {"ranks", phase.ranks()},
                      {"median", seconds(phase.median_ns())},
                      {"longest", seconds(phase.longest_ns())},
                      {"longestRank", phase.longest_rank()}});
  }
  for (const StartUpRank& rank : start.ranks()) {
    Json times = Json::array();
    for (int i = 0; i < start.phases_size(); ++i)
      times.push_back(i < rank.phases_ns_size() ? seconds(rank.phases_ns(i)) : -1);
    ranks.push_back({{"rank", rank.rank()},
                     {"host", Clean(rank.host())},
                     {"last", rank.last()},
                     {"creations", rank.creations()},
                     {"late", seconds(rank.last_by_ns())},
                     {"seconds", times}});
  }
  return {{"text", Clean(start.text(), 2000)}, {"phases", phases}, {"ranks", ranks}};
}

std::string Dump(const Json& data) {
  return absl::StrReplaceAll(data.dump(-1, ' ', true, Json::error_handler_t::replace), {{"<", "\\u003c"}});
}

// Keeps the first entries of the list that fit into `limit` bytes.
void Shorten(size_t limit, Json* list) {
  size_t bytes = 0, keep = 0;
  for (; keep < list->size(); ++keep) {
    bytes += Dump((*list)[keep]).size();
    if (bytes > limit) break;
  }
  while (list->size() > keep) list->erase(list->size() - 1);
}

// The parts of the page's data that may be omitted.
struct Parts {
  Json calls;
  Json grids = nullptr;  // null: the page requests them, and single ranks' calls, from a server
  std::string note;      // what the page does not contain
};

std::string WholeData(const Bundle& bundle, const ViewFacts& facts, const Lanes& lanes, Interned* texts,
                      const Parts& parts) {
  Json unknown = Json::array();
  if (!facts.missing_text().empty()) unknown.push_back(Clean(facts.missing_text(), 2000));
  for (const std::string& line : facts.unknown()) {
    if (unknown.size() < 200) unknown.push_back(Clean(line));
  }
  Json data = {{"job", Clean(bundle.job)},
               {"verdict", VerdictName(facts.verdict().verdict())},
               {"read", RanksReadText(facts.verdict())},
               {"note", parts.note},
               {"sections", Sections(facts)},
               {"findings", Findings(bundle, facts)},
               {"ranks", RankColumns(bundle, facts, texts)},
               {"missing", facts.missing_size() > 0 ? Runs(facts.missing(0)) : Json::array()},
               {"comms", Comms(bundle, lanes)},
               {"lanes", LaneNames(lanes)},
               {"memberships", Memberships(bundle)},
               {"calls", parts.calls},
               {"grids", parts.grids},
               {"waits", Waits(facts)},
               {"mismatches", Mismatches(facts)},
               {"stacks", Stacks(facts, texts)},
               {"speeds", Speeds(facts)},
               {"start", StartOf(facts)},
               {"unknown", unknown},
               {"kinds", Kinds()},
               {"states", StateNames()},
               {"waitKinds", WaitKindNames()},
               {"columns", ColumnNames()},
               {"focus", FocusOf(facts)}};
  data["texts"] = texts->texts();
  return Dump(data);
}

// Returns the verdict and its picture, without any rank's data.
std::string VerdictData(const Bundle& bundle, const ViewFacts& facts, size_t limit) {
  ViewFacts verdict;
  *verdict.mutable_verdict() = facts.verdict();
  verdict.mutable_verdict()->clear_speeds();
  verdict.mutable_verdict()->clear_start_up();
  *verdict.mutable_report() = facts.report();
  if (!facts.focuses().empty()) *verdict.add_focuses() = facts.focuses(0);
  Bundle none;
  none.job = bundle.job;
  Interned texts;
  const BundleCalls calls(none);
  const Parts parts{CallColumns(none, verdict, calls, &texts).Take(), Json::array(),
                    absl::StrCat("only the verdict fits into this page; ", kWholeJob)};
  Json data = Json::parse(WholeData(none, verdict, {}, &texts, parts));
  if (data["focus"].is_object() && Dump(data["focus"]).size() > limit / 4) data["focus"] = nullptr;
  Shorten(limit / 2, &data["sections"]);
  Shorten(limit / 8, &data["findings"]);
  return Dump(data);
}

// Returns the culprits, and the ranks in the answer's picture.
std::set<int32_t> AnswerRanks(const ViewFacts& facts) {
  std::set<int32_t> out;
  const auto add = [&](const auto& ranks) {
    for (const int32_t rank : ranks) {
      if (out.size() < kMostAnswerRanks) out.insert(rank);
    }
  };
  if (facts.verdict().findings_size() > 0) add(facts.verdict().findings(0).culprit_ranks());
  if (facts.focuses().empty()) return out;
  for (const Focus::Row& row : facts.focuses(0).rows()) {
    if (!row.cells().empty()) add(Ranks::Of(row.ranks()).List(2 * kMostAnswerRanks));
  }
  return out;
}

// Creates the data, and omits more at each step until it fits.
class Fitting {
 public:
  Fitting(const Bundle& bundle, const ViewFacts& facts)
      : bundle_(bundle), facts_(facts), lanes_(LanesOf(bundle)), calls_(bundle) {
    for (const PageGrid& grid : MakeGrids(bundle, facts, lanes_, calls_)) grids_.push_back(GridJson(grid));
    const size_t ranks = std::max<size_t>(bundle.ranks.size(), 1);
    usual_ = std::clamp(ranks * kBytesPerRank, kSmallBytes, kLargeBytes) / kBytesPerCall / ranks;
    size_t most = 1;
    for (const Rank& rank : bundle.ranks) most = std::max(most, rank.ops.size());
    usual_ = std::min(usual_, most);
    fewest_ = std::min(kFewestCalls, most);
  }

  // Returns the data with each rank's newest calls: `share` of the usual number.
  std::string NewestCalls(double share) const {
    const size_t most = std::max<size_t>(1, static_cast<size_t>(static_cast<double>(usual_) * share));
    return Make([&](int32_t) { return most; }, grids_,
                [&](int64_t left_out) {
                  if (left_out == 0) return std::string();
                  return absl::StrCat("the newest ", most, " calls of each rank are on this page, ",
                                      CountText(left_out), " older ones only as states; ", kWholeJob);
                });
  }
  bool Enough(double share) const { return static_cast<double>(usual_) * share >= static_cast<double>(fewest_); }

  std::string CallsOfTheAnswer() const {
    const std::set<int32_t> ranks = AnswerRanks(facts_);
    return Make([&](int32_t rank) { return ranks.contains(rank) ? kAnswerCalls : 0; }, grids_,
                [&](int64_t) {
                  return absl::StrCat("individual calls of ", ranks.size(), ranks.size() == 1 ? " rank" : " ranks",
                                      " are on this page, and only states of the others; ", kWholeJob);
                });
  }
  std::string NoCalls(bool with_grids) const {
    return Make([](int32_t) { return size_t{0}; }, with_grids ? grids_ : Json::array(),
                [](int64_t) { return absl::StrCat("the calls do not fit into this page; ", kWholeJob); });
  }

 private:
  // most(rank): the maximum number of its calls on the page. note(left_out): the page's text about the remaining
  // calls.
  template <typename Most, typename Note>
  std::string Make(const Most& most, const Json& grids, const Note& note) const {
    Interned texts;
    CallColumns columns(bundle_, facts_, calls_, &texts);
    for (size_t r = 0; r < bundle_.ranks.size(); ++r) columns.Add(r, most(bundle_.ranks[r].rank));
    return WholeData(bundle_, facts_, lanes_, &texts, {columns.Take(), grids, note(columns.left_out())});
  }

  const Bundle& bundle_;
  const ViewFacts& facts_;
  const Lanes lanes_;
  const BundleCalls calls_;
  Json grids_ = Json::array();
  size_t usual_ = 0, fewest_ = 0;  // calls of each rank
};

}  // namespace

std::string ExploreData(const Bundle& bundle, const ViewFacts& facts, size_t most_bytes) {
  const Fitting fitting(bundle, facts);
  std::string none = fitting.NoCalls(true);
  if (none.size() <= most_bytes) {
    double share = 1;
    for (int attempt = 0; attempt < 2 && fitting.Enough(share); ++attempt) {
      std::string data = fitting.NewestCalls(share);
      if (data.size() <= most_bytes) return data;
      share *= 0.9 * static_cast<double>(most_bytes - none.size()) / static_cast<double>(data.size() - none.size());
    }
    std::string answer = fitting.CallsOfTheAnswer();
    return answer.size() <= most_bytes ? answer : none;
  }
  none = fitting.NoCalls(false);
  return none.size() <= most_bytes ? none : VerdictData(bundle, facts, most_bytes);
}

std::string ExploreServedData(const Bundle& bundle, const ViewFacts& facts, const CallSource& calls) {
  Interned texts;
  return WholeData(bundle, facts, LanesOf(bundle), &texts,
                   {CallColumns(bundle, facts, calls, nullptr).Take(), nullptr, ""});
}

std::string ExploreGrids(const Bundle& bundle, const ViewFacts& facts, const CallSource& calls) {
  Json grids = Json::array();
  for (const PageGrid& grid : MakeGrids(bundle, facts, LanesOf(bundle), calls)) grids.push_back(GridJson(grid));
  return Dump(grids);
}

std::string ExploreCalls(const Bundle& bundle, const ViewFacts& facts, const CallSource& calls,
                         const std::vector<size_t>& rows) {
  CallColumns columns(bundle, facts, calls, nullptr);
  for (const size_t row : rows) columns.Add(row, kMostServedCalls);
  return Dump(columns.Take());
}

}  // namespace lockstep
