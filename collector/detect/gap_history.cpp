#include "collector/detect/gap_history.h"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

constexpr int64_t kGapFactor = 8;

}  // namespace

void GapHistory::Add(int64_t gap_ns) {
  const auto us = static_cast<uint32_t>(std::clamp<int64_t>(gap_ns / 1000, 0, UINT32_MAX));
  if (gaps_us_.size() < kMost) {
    gaps_us_.push_back(us);
    return;
  }
  gaps_us_[next_++] = us;
}

int64_t GapHistory::P99() const {
  if (gaps_us_.empty()) return 0;
  std::array<uint32_t, kMost> sorted;
  std::copy(gaps_us_.begin(), gaps_us_.end(), sorted.begin());
  const size_t used = gaps_us_.size();
  const size_t at = std::max<size_t>(used * 99 / 100, 1) - 1;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(at),
                   sorted.begin() + static_cast<std::ptrdiff_t>(used));
  return int64_t{sorted[at]} * 1000;
}

int64_t LearnedLimit(int64_t floor_ns, int64_t p99_ns) { return std::max(floor_ns, kGapFactor * p99_ns); }

bool GapMeter::Look(int64_t now, uint64_t total, int64_t issued_ns, int64_t rebased_ns) {
  if (total <= total_) {
    quiet_ns_ = now;
    return false;
  }
  if (total_ >= kWarmTotal) {
    int64_t gap = std::max<int64_t>(0, quiet_ns_ - std::max(advanced_ns_, rebased_ns));
    if (issued_ns_ > 0 && issued_ns_ >= rebased_ns && issued_ns > issued_ns_) {
      gap = std::max(gap, (issued_ns - issued_ns_) / static_cast<int64_t>(total - total_));
    }
    gaps_.Add(gap);
  }
  total_ = total;
  advanced_ns_ = quiet_ns_ = now;
  issued_ns_ = issued_ns;
  return true;
}

}  // namespace lockstep
