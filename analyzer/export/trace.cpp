#include "analyzer/export/trace.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/report.h"
#include "analyzer/report/state.h"
#include "analyzer/util/sorted.h"

namespace lockstep {
namespace {

constexpr size_t kMaxLanes = 64;  // rows that one thread or stream may use if its slices overlap
constexpr int64_t kMaxArrows = 4096;
constexpr int64_t kArrowStep = 1'000;  // nanoseconds from an arrow's start at the waiting rank to its end

// What the verdict reports about one rank.
struct Said {
  std::string culprit;  // why the rank is named; empty if it is not
  int level = 0;        // number of links between the rank and the cause
  std::string waits;    // "waits in AllReduce #40 on world for rank 5"
  std::vector<uint64_t> arrows_from, arrows_to;
};

class Walk {
 public:
  Walk(const Bundle& bundle, const Verdict& verdict, const ExportOptions& options, const ExportTime& time,
       TraceSink* sink)
      : bundle_(bundle), verdict_(verdict), options_(options), time_(time), sink_(*sink) {}

  absl::StatusOr<ExportCounts> Run();

 private:
  void ReadVerdict();
  void AddArrows(const ChainLink& link, int64_t most);
  absl::Status RunRank(size_t index);
  void RunVerdict(size_t index, const TraceRow& row);
  void RunThreads(size_t index, const TraceRow& parent);
  void RunStreams(size_t index, const TraceRow& parent);
  void Lanes(const TraceRow& parent, const std::string& name, std::vector<TraceSlice> slices);
  void Lane(const TraceRow& row, const std::vector<const TraceSlice*>& slices);
  TraceRow NewRow(TraceRow::Kind kind, uint64_t parent, std::string name, int32_t rank, int32_t order) {
    return {kind, ++rows_, parent, std::move(name), rank, order};
  }
  std::string SliceName(const Rank& rank, const Op& op) const;

  const Bundle& bundle_;
  const Verdict& verdict_;
  const ExportOptions& options_;
  const ExportTime& time_;
  TraceSink& sink_;
  ExportCounts counts_;
  uint64_t rows_ = 0;
  int32_t lane_order_ = 0;
  std::map<int32_t, Said> said_;
  int levels_ = 0;
  int64_t arrow_ns_ = 0;  // time of the arrow ends at the causes
};

std::string NameOf(const Communicator& comm, size_t limit) {
  return Printable(comm.name.empty() ? comm.id : comm.name, limit);
}

std::string Walk::SliceName(const Rank& rank, const Op& op) const {
  std::string name = OperationName(bundle_, op);
  if (op.membership >= rank.memberships.size()) return name;
  return absl::StrCat(name, " on ", NameOf(bundle_.comms[rank.memberships[op.membership].comm], 64));
}

void Walk::AddArrows(const ChainLink& link, int64_t most) {
  // The awaited ranks by communicator. One link may cover all communicators with one role.
  absl::flat_hash_map<uint32_t, std::vector<int32_t>> targets;
  for (int32_t number : link.waits_for()) {
    const Rank* rank = FindRank(bundle_, number);
    if (rank == nullptr || !Wanted(options_, number)) continue;
    for (const Membership& membership : rank->memberships) targets[membership.comm].push_back(number);
  }
  for (int32_t number : link.ranks()) {
    if (counts_.arrows >= kMaxArrows || most-- <= 0) return;
    const Rank* rank = FindRank(bundle_, number);
    if (rank == nullptr || !Wanted(options_, number)) continue;
    int32_t target = -1;
    for (const Op& op : rank->ops) {
      if (!IsInFlight(op.state) || op.membership >= rank->memberships.size()) continue;
      auto it = targets.find(rank->memberships[op.membership].comm);
      if (it == targets.end() || it->second.empty()) continue;
      target = it->second.front();
      break;
    }
    // The link's first awaited rank, for ranks that wait in other communicators.
    if (target < 0 && link.waits_for_size() > 0 && FindRank(bundle_, link.waits_for(0)) != nullptr &&
        Wanted(options_, link.waits_for(0)))
      target = link.waits_for(0);
    if (target < 0 || target == number) continue;
    const auto arrow = static_cast<uint64_t>(++counts_.arrows);
    said_[number].arrows_from.push_back(arrow);
    said_[target].arrows_to.push_back(arrow);
  }
}

void Walk::ReadVerdict() {
  if (verdict_.findings().empty()) return;
  for (const Finding& finding : verdict_.findings()) {
    for (int32_t rank : finding.culprit_ranks()) {
      Said& said = said_[rank];
      if (said.culprit.empty())
        said.culprit = absl::StrCat(FindingName(finding.kind()), ": ", Printable(finding.summary(), 400));
    }
  }
  const Finding& first = verdict_.findings(0);
  absl::flat_hash_map<int32_t, int> level;
  for (int32_t rank : first.culprit_ranks()) level[rank] = 0;
  for (const ChainLink& link : first.chain()) {
    int nearest = 0;
    for (int32_t rank : link.waits_for()) {
      auto it = level.find(rank);
      if (it != level.end()) nearest = nearest == 0 ? it->second + 1 : std::min(nearest, it->second + 1);
    }
    nearest = std::max(nearest, 1);
    for (int32_t rank : link.ranks()) {
      if (!level.emplace(rank, nearest).second) continue;
      Said& said = said_[rank];
      said.level = nearest;
      const std::vector<int32_t> targets(link.waits_for().begin(), link.waits_for().end());
      said.waits = absl::StrCat("waits for ", RanksText(targets), " in ", Printable(link.operation(), 80), " on ",
                                CommName(link.communicator()));
    }
    levels_ = std::max(levels_, nearest);
    AddArrows(link, std::max<int64_t>(64, kMaxArrows / std::max(1, first.chain_size())));
  }
  // Arrows end after all waits have started and, if the clocks allow it, before the data of the involved ranks was
  // captured.
  int64_t begun = time_.stop_ns(), taken = INT64_MAX;
  for (const auto& [number, said] : said_) {
    const Rank* rank = FindRank(bundle_, number);
    if (rank == nullptr) continue;
    const auto index = static_cast<size_t>(rank - bundle_.ranks.data());
    taken = std::min(taken, time_.Captured(index));
    for (const Op& op : rank->ops) {
      if (IsInFlight(op.state)) begun = std::max(begun, time_.ToJob(index, op.enter_ns));
    }
  }
  arrow_ns_ = begun + (levels_ + 1) * kArrowStep;
  if (taken != INT64_MAX && taken > arrow_ns_)
    arrow_ns_ = begun + std::max((taken - begun) / 2, (levels_ + 1) * kArrowStep);
}

absl::StatusOr<ExportCounts> Walk::Run() {
  ReadVerdict();
  std::map<std::string, std::vector<size_t>> hosts;
  for (size_t r = 0; r < bundle_.ranks.size(); ++r) {
    if (Wanted(options_, bundle_.ranks[r].rank)) hosts[bundle_.ranks[r].host].push_back(r);
  }
  // Hosts ordered by their lowest rank.
  std::vector<const std::pair<const std::string, std::vector<size_t>>*> order;
  order.reserve(hosts.size());
  for (const auto& host : hosts) order.push_back(&host);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->second.front() < b->second.front(); });
  int32_t host_order = 0;
  for (const auto* host : order) {
    const TraceRow row = NewRow(TraceRow::Kind::kHost, 0,
                                host->first.empty() ? "unknown host" : Printable(host->first, 100), -1, host_order++);
    sink_.Row(row);
    for (size_t index : host->second) {
      if (!sink_.status().ok()) return sink_.status();
      const Rank& rank = bundle_.ranks[index];
      std::string name = absl::StrCat("rank ", rank.rank);
      if (rank.gpu_index >= 0) absl::StrAppend(&name, " gpu ", rank.gpu_index);
      if (rank.pid != 0) absl::StrAppend(&name, " pid ", rank.pid);
      const TraceRow of_rank = NewRow(TraceRow::Kind::kRank, row.id, std::move(name), rank.rank, rank.rank);
      sink_.Row(of_rank);
      ++counts_.ranks;
      lane_order_ = 0;
      RunVerdict(index, of_rank);
      RunThreads(index, of_rank);
      RunStreams(index, of_rank);
    }
  }
  if (!sink_.status().ok()) return sink_.status();
  return counts_;
}

void Walk::RunVerdict(size_t index, const TraceRow& row) {
  const Rank& rank = bundle_.ranks[index];
  auto it = said_.find(rank.rank);
  if (it == said_.end()) return;
  const Said& said = it->second;
  TraceSlice slice;
  slice.rank = &rank;
  slice.end = std::max(time_.Captured(index), arrow_ns_ + kArrowStep);
  if (!said.culprit.empty()) {
    slice.begin = time_.stop_ns();
    slice.name = "culprit";
    slice.category = "verdict";
    slice.text = said.culprit;
  } else {
    slice.begin = INT64_MAX;
    for (const Op& op : rank.ops) {
      const int64_t at = time_.ToJob(index, op.enter_ns);
      if (IsInFlight(op.state) && at != 0) slice.begin = std::min(slice.begin, at);
    }
    if (slice.begin == INT64_MAX) slice.begin = time_.stop_ns();
    slice.name = "waits";
    slice.category = "waiting";
    slice.text = said.waits;
  }
  slice.begin = std::min(slice.begin, slice.end);
  TraceMark mark;
  mark.at = arrow_ns_ - (said.culprit.empty() ? said.level : 0) * kArrowStep;
  mark.name = said.culprit.empty() ? said.waits : said.culprit;
  mark.category = "verdict";
  mark.arrows_from = said.arrows_from;
  mark.arrows_to = said.arrows_to;
  sink_.Begin(row, slice);
  sink_.Mark(row, mark);
  sink_.End(row, slice);
}

void Walk::RunThreads(size_t index, const TraceRow& parent) {
  const Rank& rank = bundle_.ranks[index];
  std::map<uint32_t, std::vector<TraceSlice>> threads;
  for (const Op& op : rank.ops) {
    if (op.recent_only && op.enter_ns == 0) continue;
    const int64_t begin = time_.ToJob(index, op.enter_ns);
    ++counts_.operations;
    if (begin == 0) {
      ++counts_.without_time;
      continue;
    }
    const bool inside = op.state == OpState::kEntered;
    const int64_t returned = time_.ToJob(index, op.return_ns);
    const int64_t end = inside ? std::max(begin, time_.Captured(index)) : std::max(begin, returned);
    if (!time_.Near(begin, end, options_)) {
      --counts_.operations;
      continue;
    }
    TraceSlice slice{begin,
                     end,
                     SliceName(rank, op),
                     inside          ? "in flight"
                     : returned == 0 ? "host call, end not recorded"
                                     : "host call",
                     &op,
                     &rank,
                     ""};
    if (inside) slice.text = "had not returned when the data was captured";
    threads[op.thread].push_back(std::move(slice));
  }
  for (auto& [number, slices] : threads) {
    std::string name = "calls";
    if (number < rank.threads.size()) {
      const ring::ThreadSnapshot& thread = rank.threads[number];
      name = absl::StrCat("thread", thread.tid != 0 ? absl::StrCat(" ", thread.tid) : "",
                          thread.name.empty() ? "" : " ", Printable(thread.name, 40));
    } else if (number != kNoIndex) {
      name = absl::StrCat("thread ", number);
    }
    Lanes(parent, name, std::move(slices));
  }
}

void Walk::RunStreams(size_t index, const TraceRow& parent) {
  const Rank& rank = bundle_.ranks[index];
  // Sources without real streams get one stream for each communicator, because NCCL orders a communicator's
  // operations.
  std::map<std::pair<bool, uint32_t>, std::vector<const Op*>> streams;
  for (const Op& op : rank.ops) {
    if (op.membership == kNoIndex || (!ring::IsCollective(op.kind) && !ring::IsPointToPoint(op.kind))) continue;
    const bool given = op.stream != kNoIndex;
    streams[{!given, given ? op.stream : op.membership}].push_back(&op);
  }
  for (auto& [key, ops] : streams) {
    std::stable_sort(ops.begin(), ops.end(), [](const Op* a, const Op* b) { return a->enter_ns < b->enter_ns; });
    std::vector<TraceSlice> slices;
    absl::flat_hash_set<uint32_t> comms;
    int64_t free_from = 0;  // a stream runs in order: an operation starts after the previous one has ended
    for (const Op* op : ops) {
      comms.insert(rank.memberships[op->membership].comm);
      const int64_t entered = time_.ToJob(index, op->enter_ns), started = time_.ToJob(index, op->started_ns);
      const int64_t completed = time_.ToJob(index, op->completed_ns);
      const bool flight = IsUnfinished(op->state);
      if (!flight && completed == 0) continue;
      TraceSlice slice{0, completed, "", "gpu", op, &rank, ""};
      slice.begin = started != 0 ? started : std::max(entered, free_from);
      if (flight) {
        slice.end = time_.Captured(index);
        slice.category = "in flight";
        slice.text = op->state == OpState::kEnqueued  ? "not reached by its stream when the data was captured"
                     : op->state == OpState::kStarted ? "started, not completed when the data was captured"
                                                      : "not completed when the data was captured";
      } else if (started == 0) {
        slice.category = "gpu, start not recorded";
      }
      if (slice.begin == 0 && slice.end == 0) continue;
      if (slice.begin == 0) slice.begin = slice.end;
      slice.end = std::max(slice.begin, slice.end);
      if (!flight) free_from = std::max(free_from, slice.end);
      if (!time_.Near(slice.begin, slice.end, options_)) continue;
      slice.name = SliceName(rank, *op);
      slices.push_back(std::move(slice));
    }
    if (slices.empty()) continue;
    std::vector<std::string> names;
    for (uint32_t comm : comms) names.push_back(NameOf(bundle_.comms[comm], 48));
    SortUnique(&names);
    std::string name = key.first ? "GPU:" : absl::StrCat("stream ", key.second, ":");
    for (size_t i = 0; i < names.size() && i < 3; ++i) absl::StrAppend(&name, i > 0 ? ", " : " ", names[i]);
    if (names.size() > 3) absl::StrAppend(&name, " and ", names.size() - 3, " more");
    Lanes(parent, name, std::move(slices));
  }
}

void Walk::Lanes(const TraceRow& parent, const std::string& name, std::vector<TraceSlice> slices) {
  std::stable_sort(slices.begin(), slices.end(), [](const TraceSlice& a, const TraceSlice& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<std::vector<const TraceSlice*>> lanes;
  std::vector<std::vector<int64_t>> open;  // end times of open slices, by lane
  for (const TraceSlice& slice : slices) {
    size_t lane = 0;
    for (; lane < lanes.size(); ++lane) {
      while (!open[lane].empty() && open[lane].back() <= slice.begin) open[lane].pop_back();
      if (open[lane].empty() || open[lane].back() >= slice.end) break;
    }
    if (lane == kMaxLanes) {
      ++counts_.left_out;
      continue;
    }
    if (lane == lanes.size()) lanes.emplace_back(), open.emplace_back();
    lanes[lane].push_back(&slice);
    open[lane].push_back(slice.end);
  }
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    const TraceRow row = NewRow(TraceRow::Kind::kLane, parent.id,
                                lane == 0 ? name : absl::StrCat(name, " (", lane + 1, ")"), parent.rank, lane_order_++);
    sink_.Row(row);
    Lane(row, lanes[lane]);
  }
}

void Walk::Lane(const TraceRow& row, const std::vector<const TraceSlice*>& slices) {
  std::vector<const TraceSlice*> open;
  const auto close_until = [&](int64_t at) {
    while (!open.empty() && open.back()->end <= at) {
      sink_.End(row, *open.back());
      open.pop_back();
    }
  };
  for (const TraceSlice* slice : slices) {
    close_until(slice->begin);
    sink_.Begin(row, *slice);
    open.push_back(slice);
  }
  close_until(INT64_MAX);
}

}  // namespace

absl::StatusOr<ExportCounts> WalkTrace(const Bundle& bundle, const Verdict& verdict, const ExportOptions& options,
                                       const ExportTime& time, TraceSink* sink) {
  return Walk(bundle, verdict, options, time, sink).Run();
}

std::string OperationName(const Bundle& bundle, const Op& op) {
  return op.name < bundle.strings.size() ? Printable(bundle.strings[op.name], 80) : ring::CallName(op.kind);
}

const char* StateName(OpState state) {
  switch (state) {
    case OpState::kUnknown: return "issued";
    case OpState::kEntered: return "CPU thread inside the call";
    case OpState::kQueued: return "in an open group";
    case OpState::kEnqueued: return "in flight, not reached";
    case OpState::kStarted: return "in flight, started";
    case OpState::kIncomplete: return "in flight";
    case OpState::kCompleted: return "completed";
    case OpState::kFailed: return "failed";
    case OpState::kCaptured: return "captured";
  }
  return "issued";
}

std::vector<TraceFact> FactsOf(const Bundle& bundle, const TraceSlice& slice) {
  std::vector<TraceFact> facts;
  if (!slice.text.empty()) facts.push_back({"what", 0, Printable(slice.text, 400)});
  if (slice.op == nullptr || slice.rank == nullptr) return facts;
  const Op& op = *slice.op;
  const bool transfer = ring::IsCollective(op.kind) || ring::IsPointToPoint(op.kind);
  if (transfer && op.seq >= 0) facts.push_back({"sequence", op.seq, ""});
  facts.push_back({"state", 0, StateName(op.state)});
  if (op.membership < slice.rank->memberships.size()) {
    const Membership& membership = slice.rank->memberships[op.membership];
    const Communicator& comm = bundle.comms[membership.comm];
    facts.push_back({"communicator", 0, Printable(comm.id, 100)});
    facts.push_back({"communicator size", comm.size, ""});
    if (membership.member_rank >= 0) facts.push_back({"member rank", membership.member_rank, ""});
  }
  if (transfer && op.root_or_peer >= 0)
    facts.push_back({ring::IsPointToPoint(op.kind) ? "peer" : "root", op.root_or_peer, ""});
  if (transfer && op.count >= 0) facts.push_back({"count", op.count, ""});
  if (op.datatype != ring::kNoDatatype) facts.push_back({"datatype", 0, DatatypeText(op.datatype)});
  if (op.reduction != ring::kNoReduction) facts.push_back({"reduction", 0, ReductionText(op.reduction)});
  if (op.group != 0) facts.push_back({"group", static_cast<int64_t>(op.group), ""});
  if (op.call_site < bundle.strings.size())
    facts.push_back({"call site", 0, Printable(bundle.strings[op.call_site], 200)});
  if (op.result != 0) facts.push_back({"result", op.result, ""});
  return facts;
}

}  // namespace lockstep
