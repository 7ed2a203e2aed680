#include "gui/view/transform.h"

#include "gui/model/safe_text.h"

namespace lockstep::gui {

std::vector<Tick> Ticks(double first, double last, double pixels_per_unit, double least) {
  std::vector<Tick> ticks;
  constexpr double kMost = 9e15;  // doubles represent all integers up to here
  if (!(last >= first) || !(pixels_per_unit > 0) || !(least > 0) || std::abs(first) > kMost || std::abs(last) > kMost)
    return ticks;
  const double wanted = least / pixels_per_unit;
  int64_t step = 1, decade = 1;
  while (static_cast<double>(step) < wanted && decade < int64_t{1'000'000'000'000'000}) {
    step = step == decade ? 2 * decade : step == 2 * decade ? 5 * decade : (decade *= 10);
  }
  constexpr size_t kMostTicks = 2000;
  for (int64_t value = static_cast<int64_t>(std::ceil(first / static_cast<double>(step))) * step;
       static_cast<double>(value) <= last && ticks.size() < kMostTicks; value += step) {
    ticks.push_back({value, Count(value)});
  }
  return ticks;
}

}  // namespace lockstep::gui
