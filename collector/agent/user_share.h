// Limits the CPU time that one user's rings take on the agent's main thread. Even many, large or damaged rings of one
// user hardly delay the rings of others.
#pragma once

#include <algorithm>
#include <cstdint>

#include "analyzer/util/clock.h"

namespace lockstep {

class UserShare {
 public:
  // For regular scans. LookIsDue: whether a scan may start. MayContinueLook: whether the scan's CPU time is still below
  // kMostOfLook. The pause after a scan is kPausePerCost times its CPU time, at most kLongestPause.
  bool LookIsDue(int64_t now) const { return now >= next_look_ns_; }
  bool MayContinueLook() const { return look_ns_ < kMostOfLook; }
  template <typename Work>
  void Look(Work work) {
    look_ns_ += CostOf(work);
  }
  void EndLook(int64_t now) {
    next_look_ns_ = std::max(next_look_ns_, now + std::min(kPausePerCost * look_ns_, kLongestPause));
    look_ns_ = 0;
  }
  // For other work (new rings, exited processes, requests), which may take half of a core. MayNow returns false if the
  // user has used up this share.
  bool MayNow(int64_t now) {
    debt_ns_ = std::max<int64_t>(0, debt_ns_ - (now - debt_at_ns_) / 2);
    debt_at_ns_ = now;
    return debt_ns_ < kMostDebt;
  }
  template <typename Work>
  void Now(Work work) {
    debt_ns_ += CostOf(work);
  }

 private:
  static constexpr int64_t kSecond = 1'000'000'000;
  static constexpr int64_t kPausePerCost = 100, kLongestPause = 10 * kSecond;
  static constexpr int64_t kMostOfLook = kSecond / 10, kMostDebt = kSecond / 2;

  template <typename Work>
  static int64_t CostOf(Work work) {
    const int64_t begin = ThreadCpuNs();
    work();
    return ThreadCpuNs() - begin;
  }

  int64_t next_look_ns_ = 0, look_ns_ = 0;
  int64_t debt_ns_ = 0, debt_at_ns_ = 0;
};

}  // namespace lockstep
