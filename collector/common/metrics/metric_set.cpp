#include <algorithm>
#include <iterator>

#include "collector/common/metrics/metrics.h"

namespace lockstep {
namespace {

constexpr size_t kMostLabelBytes = 64;

std::string Shortened(const std::string& text) {
  std::string value;
  for (const char c : text.substr(0, kMostLabelBytes)) value.push_back(c >= ' ' && c < 127 ? c : '_');
  return value;
}

}  // namespace

void MetricSet::Add(Kind kind, const std::string& name, const std::string& help, Labels labels, double value) {
  auto metric = std::find_if(metrics_.begin(), metrics_.end(), [&name](const Metric& m) { return m.name == name; });
  if (metric == metrics_.end()) {
    metrics_.push_back({name, help, kind, {}});
    metric = std::prev(metrics_.end());
  }
  std::vector<Series>& all = metric->series;
  for (auto& [label, of] : labels) of = Shortened(of);
  const auto find = [&] {
    return std::find_if(all.begin(), all.end(), [&labels](const Series& s) { return s.labels == labels; });
  };
  auto series = find();
  // The last slot of a counter holds the sum of all further series.
  if (series == all.end() && all.size() + 1 >= kMostSeries) {
    if (kind == Kind::kGauge && all.size() >= kMostSeries) return;
    if (kind == Kind::kCounter) labels = {{labels[0].first, "other"}};
    series = find();
  }
  if (series == all.end()) {
    all.push_back({std::move(labels), value});
  } else {
    series->value += value;
  }
}

}  // namespace lockstep
