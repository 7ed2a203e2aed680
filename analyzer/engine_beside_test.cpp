// Two independent faults, of which the first to bite stops everybody who would come to wait for the other.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine.h"
#include "analyzer/engine_test_job.h"

namespace lockstep {
namespace {

using testing::HostFault;
using testing::Job;

std::vector<int32_t> Culprits(const Finding& f) { return {f.culprit_ranks().begin(), f.culprit_ranks().end()}; }

// Rank 0 never comes to the first call of a step: the GPUs of all others wait in it, their hosts go on to later calls.
Job FirstFault() {
  Job job(8, 1, 1, 4);
  job.ranks[0].host_fault = HostFault::kStall;
  job.ranks[0].host_fault_at = job.Find(0, "tp", 2, 0);
  return job;
}

TEST(Beside, AHostThatStopsFurtherOnIsToldBehindTheOneThatAllWaitFor) {
  Job job = FirstFault();
  job.ranks[5].host_fault = HostFault::kStall;
  job.ranks[5].host_fault_at = job.Find(5, "tp", 2, 1);
  const Verdict v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 2) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{0});
  EXPECT_EQ(Culprits(v.findings(1)), std::vector<int32_t>{5});
  for (const Finding& f : v.findings()) EXPECT_EQ(f.kind(), HOST_STALL);
  EXPECT_LT(v.findings(1).confidence(), v.findings(0).confidence());
}

TEST(Beside, ACallThatWasLeftOutIsToldAlthoughNobodyMetItYet) {
  Job job = FirstFault();
  auto& program = job.ranks[5].program;
  program.erase(program.begin() + static_cast<std::ptrdiff_t>(job.Find(5, "tp", 2, 1)));
  const Verdict v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 2) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{0});
  EXPECT_EQ(Culprits(v.findings(1)), std::vector<int32_t>{5}) << v.DebugString();
}

TEST(Beside, VictimsAreNoSecondFault) {
  const Verdict v = Analyze(FirstFault().Run());
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  // Two that all wait for at once are one finding.
  Job job = FirstFault();
  job.ranks[5].host_fault = HostFault::kStall;
  job.ranks[5].host_fault_at = job.Find(5, "tp", 2, 0);
  const Verdict both = Analyze(job.Run());
  ASSERT_EQ(both.findings_size(), 1) << both.DebugString();
  EXPECT_EQ(Culprits(both.findings(0)), (std::vector<int32_t>{0, 5}));
}

}  // namespace
}  // namespace lockstep
