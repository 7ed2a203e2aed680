// Each rank's bandwidth, by kind and size of the operation and by class of communicators.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/report/phrases.h"
#include "analyzer/viewdata/parts.h"

namespace lockstep {
namespace {

constexpr size_t kMostSeries = 256;
constexpr int kMostPoints = 400'000;

int64_t MedianOf(std::vector<int64_t> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

std::string ClassName(const CommView& view, const Communicator& comm) {
  return view.names.empty() ? CommLabel(comm) : Printable(view.names, 80);
}

struct Key {
  std::string klass;
  int kind = 0;
  int64_t bytes = 0;
  bool operator<(const Key& o) const { return std::tie(klass, kind, bytes) < std::tie(o.klass, o.kind, o.bytes); }
};

}  // namespace

void SetBandwidths(const ViewInput& in, ViewFacts* facts) {
  const Timing& timing = in.analysis.timing;
  const Model& model = in.analysis.model;
  std::vector<int64_t> noise;
  for (uint32_t r = 0; r < timing.ranks.size(); ++r) noise.push_back(in.analysis.slowness.Noise(r));
  const std::vector<LinkUse> uses = FindLinkUses(timing, noise);
  std::map<Key, std::vector<const LinkUse*>> series;
  for (const LinkUse& use : uses) {
    if (use.bytes > 0 && BusBandwidth(use, model.bundle.comms[use.comm].size, use.usual_ns) > 0) {
      series[{model.comms[use.comm].klass, static_cast<int>(use.kind), use.bytes}].push_back(&use);
    }
  }
  std::vector<std::pair<const Key*, const std::vector<const LinkUse*>*>> order;
  order.reserve(series.size());
  for (const auto& [key, list] : series) order.emplace_back(&key, &list);
  auto ranks_of = [](const auto* list) {
    size_t n = 0;
    for (const LinkUse* use : *list) n += use->ranks.size();
    return n;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto& a, const auto& b) { return ranks_of(a.second) > ranks_of(b.second); });
  int left = kMostPoints;
  for (const auto& [key, list] : order) {
    if (facts->bandwidths_size() >= static_cast<int>(kMostSeries) || static_cast<size_t>(left) < ranks_of(list)) break;
    const LinkUse& first = *list->front();
    const Communicator& comm = model.bundle.comms[first.comm];
    BandwidthSeries* out = facts->add_bandwidths();
    std::set<uint32_t> comms;
    std::vector<BandwidthSeries::Point> points;
    double best = 0;
    for (const LinkUse* use : *list) {
      const int32_t size = model.bundle.comms[use->comm].size;
      comms.insert(use->comm);
      const size_t worst = static_cast<size_t>(std::max_element(use->transfers_ns.begin(), use->transfers_ns.end()) -
                                               use->transfers_ns.begin());
      BandwidthSeries::Point point;
      point.set_comm(static_cast<int32_t>(use->comm));
      point.set_median_bytes_per_s(BusBandwidth(*use, size, MedianOf(use->transfers_ns)));
      point.set_worst_bytes_per_s(BusBandwidth(*use, size, use->transfers_ns[worst]));
      point.set_worst_sequence(use->seqs[worst]);
      point.set_operations(static_cast<int32_t>(use->transfers_ns.size()));
      best = std::max(best, point.median_bytes_per_s());
      for (const uint32_t r : use->ranks) {
        point.set_rank(model.bundle.ranks[r].rank);
        points.push_back(point);
      }
    }
    std::stable_sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
    left -= static_cast<int>(points.size());
    for (BandwidthSeries::Point& point : points) *out->add_points() = std::move(point);
    const std::string kind = ring::CallName(static_cast<ring::CallKind>(key->kind));
    out->set_label(absl::StrCat(
        kind, " ", BytesText(key->bytes), " on ",
        comms.size() == 1 ? CommLabel(comm) : ClassName(model.comms[first.comm], comm),
        comms.size() == 1 ? "" : absl::StrCat(" (", CountText(static_cast<int64_t>(comms.size())), " communicators)")));
    out->set_operation(kind);
    out->set_bytes(key->bytes);
    out->set_clock(ClockText(model.bundle.ranks[first.ranks[0]], timing.ranks[first.ranks[0]]));
    out->set_best_bytes_per_s(best);
  }
}

}  // namespace lockstep
