// Checks that stuck network steps identify the link, but only if both ends wait for the network.
#include "analyzer/engine/facts/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using ring::ProxyState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Job;

// All members of the world are in one operation, which never ends.
struct Stuck {
  Bundle bundle;
  uint32_t world = kNoIndex;
  int64_t seq = 0;
  ring::CallKind kind = ring::CallKind::kNone;

  Stuck() {
    Job job(2, 2, 2, 4);
    job.full_marks = false;
    job.ranks[5].gpu_stall_at = job.Find(5, "world", 2);
    bundle = job.Run();
    for (uint32_t c = 0; c < bundle.comms.size(); ++c) {
      if (bundle.comms[c].size == 8) world = c;
    }
    const Rank& rank = bundle.ranks[5];
    for (const Op& op : rank.ops) {
      if (op.membership == kNoIndex || rank.memberships[op.membership].comm != world || op.state == OpState::kCompleted)
        continue;
      if (seq != 0 && op.seq >= seq) continue;
      seq = op.seq;
      kind = op.kind;
    }
  }
  void Wait(int rank, int peer, bool send, ProxyState state, uint32_t step) {
    Rank& of = bundle.ranks[static_cast<size_t>(rank)];
    NetworkOp op;
    for (uint32_t m = 0; m < of.memberships.size(); ++m) {
      if (of.memberships[m].comm == world) op.membership = m;
    }
    op.kind = kind;
    op.seq = seq;
    const std::vector<int32_t>& members = bundle.comms[world].members;
    op.peer = static_cast<int32_t>(std::find(members.begin(), members.end(), peer) - members.begin());
    op.channel = 3;
    op.send = send;
    op.steps = 64;
    op.done = op.step = step;
    op.state = state;
    op.since_ns = std::max<int64_t>(1, of.captured_ns - 31'000'000'000);
    of.network.push_back(op);
  }
};

bool AnyEvidence(const Finding& finding, const std::string& text) {
  return std::any_of(finding.evidence().begin(), finding.evidence().end(),
                     [&](const auto& evidence) { return evidence.text().find(text) != std::string::npos; });
}

TEST(EngineNetwork, TheLinkThatLosesAStepIsNamed) {
  Stuck stuck;
  ASSERT_NE(stuck.world, kNoIndex);
  stuck.Wait(2, 6, true, ProxyState::kSendWait, 13);
  stuck.Wait(6, 2, false, ProxyState::kRecvWait, 13);
  // Other steps wait because of ranks 2 and 6: rank 6 has nothing to send yet.
  stuck.Wait(0, 6, false, ProxyState::kRecvWait, 14);
  stuck.Wait(6, 0, true, ProxyState::kSendGpuWait, 14);
  const Verdict verdict = Analyze(stuck.bundle);
  ASSERT_GE(verdict.findings_size(), 1);
  const Finding& finding = verdict.findings(0);
  EXPECT_EQ(finding.kind(), COLLECTIVE_STUCK);
  EXPECT_THAT(finding.culprit_ranks(), ElementsAre(2, 6));
  EXPECT_TRUE(AnyEvidence(finding, "waits on the network for rank 2 for "));
  EXPECT_TRUE(AnyEvidence(finding, " s (channel 3, step 14 of 64, RecvWait)"));
  EXPECT_TRUE(AnyEvidence(finding, "waits on the network for rank 6 for "));
  EXPECT_TRUE(AnyEvidence(finding, " s (channel 3, step 14 of 64, SendWait)"));
}

TEST(EngineNetwork, OneEndAloneIsEvidenceButNoProof) {
  Stuck stuck;
  ASSERT_NE(stuck.world, kNoIndex);
  stuck.Wait(6, 2, false, ProxyState::kRecvWait, 13);
  const Verdict verdict = Analyze(stuck.bundle);
  ASSERT_GE(verdict.findings_size(), 1);
  EXPECT_EQ(verdict.findings(0).kind(), COLLECTIVE_STUCK);
  EXPECT_EQ(verdict.findings(0).culprit_ranks_size(), 8);
  EXPECT_TRUE(AnyEvidence(verdict.findings(0), "waits on the network for rank 2 for "));
  EXPECT_TRUE(AnyEvidence(verdict.findings(0), " s (channel 3, step 14 of 64, RecvWait)"));
}

TEST(EngineNetwork, StepsOfAnotherOperationAreIgnored) {
  Stuck stuck;
  ASSERT_NE(stuck.world, kNoIndex);
  stuck.seq += 1;
  stuck.Wait(2, 6, true, ProxyState::kSendWait, 13);
  stuck.Wait(6, 2, false, ProxyState::kRecvWait, 13);
  const Verdict verdict = Analyze(stuck.bundle);
  ASSERT_GE(verdict.findings_size(), 1);
  EXPECT_EQ(verdict.findings(0).culprit_ranks_size(), 8);
}

}  // namespace
}  // namespace lockstep
