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

void MetricSet::Add(Kind kind, const std::string& name, const std::string& help, const std::string& label,
                    const std::string& value_of, double value) {
  auto metric = std::find_if(metrics_.begin(), metrics_.end(), [&name](const Metric& m) { return m.name == name; });
  if (metric == metrics_.end()) {
    metrics_.push_back({name, help, kind, {}});
    metric = std::prev(metrics_.end());
  }
  std::vector<Series>& all = metric->series;
  const auto find = [&all](const std::string& wanted) {
    return std::find_if(all.begin(), all.end(), [&wanted](const Series& s) { return s.label_value == wanted; });
  };
  std::string shown = Shortened(value_of);
  auto series = find(shown);
  // The last place is for all others together.
  if (series == all.end() && all.size() + 1 >= kMostSeries) {
    shown = "other";
    series = find(shown);
  }
  if (series == all.end()) {
    all.push_back({label, shown, value});
  } else {
    series->value += value;
  }
}

}  // namespace lockstep
