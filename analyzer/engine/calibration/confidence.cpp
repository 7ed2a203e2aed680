#include "analyzer/engine/calibration/confidence.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace lockstep {
namespace {

struct Counted {
  Grade grade;
  Reason reason;
  bool several, framework;
  int cases, right;
};

constexpr Counted kCounted[] = {
#include "analyzer/engine/calibration/confidence_table.inc"
};

// Labeled cases are simulated and have fewer alternative explanations than reality. Each grade therefore has a limit
// that no number of correct cases raises. Indexed by Grade.
constexpr double kMost[] = {0.5, 0.35, 0.5, 0.6, 0.75, 0.85, 0.93, 0.97};
static_assert(std::size(kMost) == Grade_ARRAYSIZE);

// If there are few cases, the share moves towards the share of the wider group, as if this many of the group's cases
// were added.
constexpr double kPrior = 4;

}  // namespace

double ConfidenceOf(Grade grade, Reason reason, bool several, bool framework) {
  const double most = kMost[Grade_IsValid(grade) ? grade : GRADE_UNSPECIFIED];
  double share = most;
  const auto narrow = [&](auto belongs) {
    double cases = kPrior, right = kPrior * share;
    for (const Counted& c : kCounted) {
      if (c.grade != grade || !belongs(c)) continue;
      cases += c.cases;
      right += c.right;
    }
    share = right / cases;
  };
  narrow([](const Counted&) { return true; });
  narrow([&](const Counted& c) { return c.several == several && c.framework == framework; });
  narrow([&](const Counted& c) { return c.reason == reason && c.several == several && c.framework == framework; });
  return std::clamp(std::round(share * 100) / 100, 0.01, most);
}

}  // namespace lockstep
