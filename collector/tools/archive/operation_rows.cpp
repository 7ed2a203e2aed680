#include "collector/tools/archive/operation_rows.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/model/pipeline_name.h"
#include "analyzer/util/numbers.h"
#include "analyzer/util/printable.h"
#include "proto/view.pb.h"

namespace lockstep::archive {
namespace {

constexpr size_t kMostOperationRows = 1'000'000, kMostKeysOfHost = 20'000, kMostHosts = 32;
constexpr int64_t kMostFactsBytes = int64_t{256} << 20, kBelowIndex = 500;
const double kStep = std::log(1.04);

struct Key {
  std::string klass, operation;
  uint64_t size = 0;
  bool operator<(const Key& o) const {
    return std::tie(klass, operation, size) < std::tie(o.klass, o.operation, o.size);
  }
};

struct Group {
  uint64_t operations = 0;
  Durations gpu, host;
  std::vector<double> rates;
  std::string clock;
};

// Totals over the hosts of an incident. Durations are measured on the GPU or, if unknown, in the calls.
struct Total {
  uint64_t operations = 0;
  std::vector<int64_t> medians_ns;
  int64_t p95_ns = -1, slowest_ns = -1;
  std::string slowest_host;
  double rate = 0;
};

absl::Status AddTotals(const IncidentName& name, std::map<Key, Total>* totals, const RowSink& sink) {
  for (auto& [key, total] : *totals) {
    Json row = name.NewRow();
    row["comm_class"] = key.klass;
    row["operation"] = key.operation;
    row["size_class"] = key.size;
    row["hosts"] = total.medians_ns.size();
    row["operations"] = total.operations;
    row["median_ns"] = Median(total.medians_ns);
    row["p95_ns"] = total.p95_ns;
    row["slowest_host"] = total.slowest_host;
    row["slowest_ns"] = total.slowest_ns;
    row["bus_bytes_per_s"] = total.rate;
    if (absl::Status status = sink("operation_totals", row); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Returns whether this is a regular file. Links and pipes are rejected, because the folder is untrusted.
bool PlainFile(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Measured bandwidths by rank, and the hosts of each communicator that has one.
class Rates {
 public:
  Rates(const IndexReader& index, const std::unordered_map<int32_t, size_t>& by_rank, OperationFacts* facts) {
    const absl::Span<const char> bytes = index.facts();
    if (bytes.empty() || static_cast<int64_t>(bytes.size()) > kMostFactsBytes ||
        !view_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      view_.Clear();
      return;
    }
    for (int s = 0; s < view_.bandwidths_size(); ++s) {
      const BandwidthSeries& series = view_.bandwidths(s);
      for (int p = 0; p < series.points_size(); ++p) {
        const BandwidthSeries::Point& point = series.points(p);
        const auto rank = by_rank.find(point.rank());
        if (rank == by_rank.end() || point.comm() < 0 || static_cast<size_t>(point.comm()) >= index.comms().size())
          continue;
        of_rank_[rank->second].push_back({s, p});
        std::vector<std::string>& hosts =
            facts->comm_hosts[CleanUtf8(index.text(index.comms()[static_cast<size_t>(point.comm())].id), 200)];
        const std::string host = CleanUtf8(index.text(index.ranks()[rank->second].host), 256);
        if (!host.empty() && hosts.size() < kMostHosts && std::find(hosts.begin(), hosts.end(), host) == hosts.end())
          hosts.push_back(host);
      }
    }
  }

  void Add(const IndexReader& index, size_t rank, std::map<Key, Group>* groups) const {
    const auto at = of_rank_.find(rank);
    if (at == of_rank_.end()) return;
    for (const auto& [s, p] : at->second) {
      const BandwidthSeries& series = view_.bandwidths(s);
      const BandwidthSeries::Point& point = series.points(p);
      const IndexComm& comm = index.comms()[static_cast<size_t>(point.comm())];
      if (series.bytes() <= 0 || !std::isfinite(point.median_bytes_per_s()) || point.median_bytes_per_s() <= 0)
        continue;
      const auto group = groups->find(
          {ClassOf(index, comm), CleanUtf8(series.operation(), 64), SizeClass(static_cast<uint64_t>(series.bytes()))});
      if (group == groups->end()) continue;
      group->second.rates.push_back(point.median_bytes_per_s());
      group->second.clock = CleanUtf8(series.clock(), 64);
    }
  }

  static std::string ClassOf(const IndexReader& index, const IndexComm& comm) {
    const std::string name = CleanUtf8(index.text(comm.name), 200);
    return name.empty() ? absl::StrCat("of ", comm.size) : NamePattern(name);
  }

 private:
  ViewFacts view_;
  std::unordered_map<size_t, std::vector<std::pair<int, int>>> of_rank_;
};

}  // namespace

void Durations::Add(int64_t ns) {
  if (ns < 0) return;
  if (ns == 0) ns = kBelowIndex;
  ++bins_[static_cast<int>(std::floor(std::log(static_cast<double>(ns)) / kStep))];
  ++count_;
}

int64_t Durations::Quantile(double q) const {
  if (count_ == 0) return -1;
  const auto wanted = static_cast<uint64_t>(std::ceil(q * static_cast<double>(count_)));
  uint64_t seen = 0;
  for (const auto& [bin, count] : bins_) {
    seen += count;
    if (seen >= std::max<uint64_t>(wanted, 1)) return static_cast<int64_t>(std::llround(std::exp((bin + 0.5) * kStep)));
  }
  return -1;
}

absl::Status MakeOperationRows(const std::string& folder, const IncidentName& name, const RowSink& sink,
                               OperationFacts* facts, std::string* notes) {
  const std::string path = folder + "/index.lsi";
  if (!PlainFile(path)) {
    absl::StrAppend(notes, "no index.lsi in ", Printable(folder, 300),
                    ": no operation aggregates (lockstep view or a collector creates this file)\n");
    return absl::OkStatus();
  }
  const absl::StatusOr<std::unique_ptr<IndexReader>> opened = IndexReader::Open(path);
  if (!opened.ok()) {
    absl::StrAppend(notes, "no operation aggregates: ", Printable(std::string(opened.status().message()), 300), "\n");
    return absl::OkStatus();
  }
  const IndexReader& index = **opened;
  std::map<std::string, std::vector<size_t>> hosts;
  std::unordered_map<int32_t, size_t> by_rank;
  for (size_t r = 0; r < index.ranks().size(); ++r) {
    hosts[CleanUtf8(index.text(index.ranks()[r].host), 256)].push_back(r);
    by_rank.emplace(index.ranks()[r].rank, r);
  }
  const Rates rates(index, by_rank, facts);
  size_t rows = 0, left_out = 0;
  std::map<Key, Total> totals;
  for (const auto& [host, ranks] : hosts) {
    std::map<Key, Group> groups;
    for (const size_t r : ranks) {
      const IndexRank& rank = index.ranks()[r];
      // Names are computed once for each membership.
      std::vector<std::string> classes;
      for (uint64_t m = 0; m < rank.memberships; ++m) {
        const uint32_t comm = index.memberships()[rank.first_membership + m].comm;
        classes.push_back(comm < index.comms().size() ? Rates::ClassOf(index, index.comms()[comm]) : "");
      }
      std::map<std::tuple<uint64_t, int, uint64_t>, Group*> cache;
      for (uint64_t i = 0; i < rank.ops; ++i) {
        const IndexOp op = index.op(r, rank.first_op + i);
        if (!op.membership || op.kind == ring::CallKind::kNone) continue;
        const uint64_t member = *op.membership - rank.first_membership;
        if (member >= classes.size()) continue;
        Group*& group = cache[{member, static_cast<int>(op.kind), op.bytes_at_least}];
        if (group == nullptr) {
          Key key{classes[member], CleanUtf8(ring::CallName(op.kind), 64), op.bytes_at_least};
          if (groups.size() >= kMostKeysOfHost && groups.find(key) == groups.end()) key = {"(others)", "", 0};
          group = &groups[key];
        }
        ++group->operations;
        if (op.started_ns > 0 && op.completed_ns >= op.started_ns) group->gpu.Add(op.completed_ns - op.started_ns);
        if (op.enter_ns > 0 && op.return_ns >= op.enter_ns) group->host.Add(op.return_ns - op.enter_ns);
      }
      rates.Add(index, r, &groups);
    }
    for (auto& [key, group] : groups) {
      if (++rows > kMostOperationRows) {
        ++left_out;
        continue;
      }
      Json row = name.NewRow();
      row["comm_class"] = key.klass;
      row["operation"] = key.operation;
      row["size_class"] = key.size;
      row["host"] = host;
      row["operations"] = group.operations;
      row["measured"] = group.gpu.count();
      row["median_ns"] = group.gpu.Quantile(0.5);
      row["p95_ns"] = group.gpu.Quantile(0.95);
      row["host_median_ns"] = group.host.Quantile(0.5);
      row["host_p95_ns"] = group.host.Quantile(0.95);
      double rate = 0;
      if (!group.rates.empty()) {
        std::sort(group.rates.begin(), group.rates.end());
        rate = group.rates[group.rates.size() / 2];
      }
      row["bus_bytes_per_s"] = rate;
      const bool on_gpu = group.gpu.count() > 0;
      const int64_t median_ns = (on_gpu ? group.gpu : group.host).Quantile(0.5);
      Total& total = totals[key];
      total.operations += group.operations;
      total.medians_ns.push_back(median_ns);
      total.p95_ns = std::max(total.p95_ns, (on_gpu ? group.gpu : group.host).Quantile(0.95));
      total.rate = std::max(total.rate, rate);
      if (median_ns > total.slowest_ns) {
        total.slowest_ns = median_ns;
        total.slowest_host = host;
      }
      row["clock"] = group.clock;
      if (absl::Status status = sink("operations", row); !status.ok()) return status;
    }
  }
  if (left_out > 0)
    absl::StrAppend(notes, left_out, " operation rows are left out; the limit is ", kMostOperationRows, "\n");
  if (absl::Status status = AddTotals(name, &totals, sink); !status.ok()) return status;
  return index.Unchanged();
}

}  // namespace lockstep::archive
