#include "collector/detect/quiet_ranks.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "analyzer/util/time_units.h"
#include "proto/process.pb.h"

namespace lockstep {
namespace {

constexpr int64_t kTick = 250 * kMs;
const std::vector<std::string> kInLaunch = {"__sched_yield", "cudaLaunchKernel", "at::native::add (ops.cu:12)", "main"};

// Two ranks of one host that have stopped making recorded calls. The clock is simulated.
class QuietRanksTest : public ::testing::Test {
 protected:
  QuietRanksTest() : views_(2), processes_(2), threads_(2, std::vector<ring::ThreadSnapshot>(1)) {
    for (int32_t slot = 0; slot < 2; ++slot) {
      DigestComm comm;
      comm.id = 9;
      comm.active = true;
      comm.total = comm.collectives = 40;
      views_[static_cast<size_t>(slot)].slot = slot;
      views_[static_cast<size_t>(slot)].comms = {comm};
      Call(slot);
    }
  }
  void Call(int32_t slot) {
    const auto at = static_cast<size_t>(slot);
    threads_[at][0].last_call_ns = views_[at].activity_ns = views_[at].comms[0].issued_ns = now_;
    ++views_[at].progress_mark;
  }
  void Stacks(int32_t slot, const std::vector<std::string>& first, const std::vector<std::string>& later) {
    Process& process = processes_[static_cast<size_t>(slot)];
    process.stack = first;
    process.stack_later = later;
    auto evidence = std::make_shared<ProcessEvidence>();
    evidence->set_taken_ns(now_);
    process.evidence = evidence;
  }
  // Advances the time. Returns how many slots were sampled.
  size_t Pass(int64_t time) {
    size_t wanted = 0;
    for (const int64_t end = now_ + time; now_ < end;) {
      now_ += kTick;
      std::vector<DigestView> views = views_;
      for (size_t i = 0; i < views.size(); ++i) quiet_.AddWait(threads_[i], processes_[i], &views[i]);
      for (const LateEvent& event : lateness_.Observe(now_, views)) {
        late_ = !event.over;
        if (late_) doing_ = event.doing;
      }
      wanted_ = quiet_.Due(now_, views, lateness_);
      wanted += wanted_.size();
    }
    return wanted;
  }
  int64_t now_ = 1000 * kSecond;
  std::vector<DigestView> views_;
  std::vector<Process> processes_;
  std::vector<std::vector<ring::ThreadSnapshot>> threads_;
  std::vector<WantedLook> wanted_;
  bool late_ = false;
  std::string doing_;
  Lateness lateness_;
  QuietRanks quiet_;
};

TEST_F(QuietRanksTest, TwoLooksAtOneLaunchAreAWait) {
  EXPECT_EQ(Pass(5 * kSecond), 0U);
  Pass(kSecond);
  ASSERT_EQ(wanted_.size(), 2U);
  EXPECT_EQ(wanted_[0].since_ns, wanted_[1].since_ns);
  for (int32_t slot = 0; slot < 2; ++slot) Stacks(slot, kInLaunch, {});
  Pass(kSecond);
  EXPECT_FALSE(late_);
  for (int32_t slot = 0; slot < 2; ++slot) Stacks(slot, kInLaunch, kInLaunch);
  Pass(kSecond);
  EXPECT_TRUE(late_);
  EXPECT_EQ(doing_, "a kernel launch");
  Call(0);
  Call(1);
  Pass(kSecond);
  EXPECT_FALSE(late_);
}

TEST_F(QuietRanksTest, AThreadThatLaunchesAllTheTimeDoesNotWait) {
  Pass(6 * kSecond);
  for (int look = 0; look < 8; ++look) {
    for (int32_t slot = 0; slot < 2; ++slot) {
      Stacks(slot, {"pthread_cond_wait", "main"},
             look == 0 ? std::vector<std::string>() : std::vector<std::string>{"pthread_cond_wait", "main"});
      auto evidence = std::make_shared<ProcessEvidence>(*processes_[static_cast<size_t>(slot)].evidence);
      ThreadStack* thread = evidence->add_threads();
      thread->add_frames()->set_function("cudaLaunchKernel");
      thread->add_frames()->set_function(look % 2 == 0 ? "MmBackward0::apply" : "AddBackward0::apply");
      processes_[static_cast<size_t>(slot)].evidence = evidence;
    }
    Pass(2500 * kMs);
    EXPECT_FALSE(late_) << look;
  }
}

TEST_F(QuietRanksTest, LooksBecomeRarerWhileTheRankOnlyComputes) {
  const std::vector<std::string> computes = {"PyLong_Add", "main"};
  std::vector<int64_t> rounds;
  for (bool before = false; now_ < 1200 * kSecond;) {
    Pass(kTick);
    if (!wanted_.empty() && !before) rounds.push_back(now_);
    before = !wanted_.empty();
    for (int32_t slot = 0; slot < 2; ++slot) Stacks(slot, computes, computes);
  }
  EXPECT_GE(rounds.size(), 3U);
  EXPECT_LE(rounds.size(), 5U);
  EXPECT_FALSE(late_);
}

TEST_F(QuietRanksTest, NobodyIsLookedAtWhileAnotherRankMoves) {
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(Pass(kSecond), 0U);
    Call(1);
  }
}

TEST_F(QuietRanksTest, ARankThatWasQuietEarlierIsLookedAtWithTheOthers) {
  Pass(4 * kSecond);
  Call(1);
  EXPECT_EQ(Pass(5 * kSecond), 0U);
  Pass(3 * kSecond);
  ASSERT_EQ(wanted_.size(), 2U);
  EXPECT_EQ(wanted_[0].since_ns, wanted_[1].since_ns);
}

TEST_F(QuietRanksTest, WhereTheRingShowsTheWaitStacksAreNotTaken) {
  for (DigestView& view : views_) view.streams.push_back({0, 40, 40, 9, 0});
  EXPECT_EQ(Pass(60 * kSecond), 0U);
}

}  // namespace
}  // namespace lockstep
