// Shared numerics of stages that compare times: medians, quantiles, and texts for times and shares.
#ifndef LOCKSTEP_ANALYZER_UTIL_NUMBERS_H_
#define LOCKSTEP_ANALYZER_UTIL_NUMBERS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "analyzer/util/time_text.h"

namespace lockstep {

// The upper one of an even count; 0 of none.
inline int64_t Median(std::vector<int64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The value that the share `q` (0 to 1) of them does not exceed; 0 of none. Reorders them.
inline int64_t Quantile(std::vector<int64_t>* values, double q) {
  if (values->empty()) return 0;
  const auto at = values->begin() + static_cast<ptrdiff_t>(q * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

// "40 %"
inline std::string Percent(double share) {
  return absl::StrFormat("%.0f %%", share * 100);
}

// "2.5 ms", "12 ms", "1.3 s"
inline std::string Milliseconds(int64_t ns) {
  return DurationText(ns, DurationDigits::kMilliseconds);
}

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_UTIL_NUMBERS_H_
