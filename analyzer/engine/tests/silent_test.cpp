// Tests jobs in which only some ranks left data: which rank waits, and GPUs whose error explains everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using lockstep::testing::Culprits;

using testing::Call;
using testing::HostFault;
using testing::Job;

void Lose(std::vector<int> ranks, Bundle* b) {
  b->ranks_expected = static_cast<int32_t>(b->ranks.size());
  std::erase_if(b->ranks, [&](const Rank& r) { return std::find(ranks.begin(), ranks.end(), r.rank) != ranks.end(); });
}

// The others wait for rank 5 in a tensor-parallel call. Another rank without data also has a tensor-parallel peer,
// which waits elsewhere.
TEST(Silent, ARankWithoutDataWhosePeersWentPastItWaitsWhereTheyWait) {
  for (int other = 0; other < 16; ++other) {
    constexpr int kCulprit = 5;
    if (other / 4 == kCulprit / 4) continue;  // both have the same peers
    Job job(4, 2, 2, 4);
    job.ranks[kCulprit].host_fault = HostFault::kStall;
    job.ranks[kCulprit].host_fault_at = job.Find(kCulprit, "tp", 2);
    Bundle b = job.Run();
    Lose({kCulprit, other}, &b);
    const Verdict v = Analyze(b);
    ASSERT_EQ(v.findings_size(), 1) << other << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), RANK_NO_DATA) << v.DebugString();
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{kCulprit}) << other << v.DebugString();
  }
}

TEST(Silent, AGpuErrorNeedsNoOtherExplanation) {
  for (int lost : {0, 2, 3}) {
    constexpr int kFailed = 1;
    Job job(4, 1, 2, 4);
    job.ranks[kFailed].gpu_stall_at = job.Find(kFailed, "tp", 2);
    Bundle b = job.Run();
    for (auto& stream : b.ranks[kFailed].streams) stream.first_error = 719;
    Lose({lost}, &b);
    const Verdict v = Analyze(b);
    ASSERT_GE(v.findings_size(), 1) << lost;
    EXPECT_EQ(v.findings(0).kind(), GPU_STALL) << v.DebugString();
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{kFailed}) << lost << v.DebugString();
    EXPECT_GE(v.findings(0).confidence(), 0.9);
  }
}

// A GPU starts an operation as soon as it reaches it, even without its peers. A GPU that did not start is blocked by
// its own work, not by a partner without data. A GPU that did start waits for that partner.
TEST(Silent, AGpuThatDidNotStartIsNotHeldUpByARankWithoutData) {
  for (bool gpu : {true, false}) {
    Job job(2, 1, 4, 4);
    constexpr int kRank = 1, kPartner = 0;
    if (gpu) {
      job.ranks[kRank].gpu_stall_at = job.Find(kRank, "tp", 2);
    } else {
      job.ranks[kPartner].host_fault = HostFault::kStall;
      job.ranks[kPartner].host_fault_at = job.Find(kPartner, "tp", 2);
    }
    Bundle b = job.Run();
    Lose({kPartner}, &b);
    const Verdict v = Analyze(b);
    ASSERT_GE(v.findings_size(), 1);
    EXPECT_EQ(v.findings(0).kind(), gpu ? GPU_STALL : RANK_NO_DATA) << v.DebugString();
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{gpu ? kRank : kPartner}) << v.DebugString();
  }
}

// Without GPU progress markers, a CPU thread that waits for its GPU may be a victim. The mismatched calls show which
// rank is at fault.
TEST(Silent, WaitsForGpusWithoutMarkersAreNotCausesBesideMismatchedCalls) {
  for (int skips : {0, 6, 13}) {
    Job job(4, 2, 2, 6);
    auto& program = job.ranks[skips].program;
    program.erase(program.begin() + static_cast<std::ptrdiff_t>(job.Find(skips, "dp", 2)));
    const Verdict v = Analyze(testing::WithoutMarks(job.Run()));
    for (const Finding& f : v.findings()) {
      EXPECT_EQ(Culprits(f), std::vector<int32_t>{skips}) << v.DebugString();
    }
  }
}

}  // namespace
}  // namespace lockstep
