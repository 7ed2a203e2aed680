// Numerics for stages that compare times: medians, quantiles, and texts for times and shares.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "analyzer/util/time_text.h"

namespace lockstep {

// Returns the upper median if the count is even; 0 if there are no values.
inline int64_t Median(std::vector<int64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Returns the value that the share `q` (0 to 1) of the values does not exceed; 0 if there are none. Reorders them.
inline int64_t Quantile(std::vector<int64_t>* values, double q) {
  if (values->empty()) return 0;
  const auto at = values->begin() + static_cast<ptrdiff_t>(q * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

// A hash of one number: each input bit changes about half of the result's bits.
constexpr uint64_t Mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// "40 %"
inline std::string Percent(double share) { return absl::StrFormat("%.0f %%", share * 100); }

// "2.5 ms", "12 ms", "1.3 s"
inline std::string Milliseconds(int64_t ns) { return DurationText(ns, DurationDigits::kMilliseconds); }

}  // namespace lockstep
