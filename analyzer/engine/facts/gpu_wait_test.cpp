#include "analyzer/engine/facts/gpu_wait.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using lockstep::testing::Culprits;
using ring::CallKind;
using testing::HostFault;
using testing::Job;

TEST(GpuWait, IsRecognizedByTheNamesOfCudaAndHip) {
  const struct {
    const char* function;
    CallKind kind;
  } kCases[] = {
      {"cudaMemcpyAsync", CallKind::kMemcpyAsync},
      {"cudaMemcpyAsync_ptsz", CallKind::kMemcpyAsync},
      {"cuMemcpyDtoHAsync_v2", CallKind::kMemcpyAsync},
      {"cudaMemcpy2D", CallKind::kMemcpy},
      {"hipMemcpyWithStream", CallKind::kMemcpy},
      {"cudaLaunchKernel", CallKind::kLaunch},
      {"cudaLaunchKernelExC", CallKind::kLaunch},
      {"cuLaunchKernelEx", CallKind::kLaunch},
      {"hipModuleLaunchKernel", CallKind::kLaunch},
      {"cudaMemsetAsync", CallKind::kLaunch},
      {"cuStreamSynchronize", CallKind::kStreamSynchronize},
      {"cuCtxSynchronize", CallKind::kDeviceSynchronize},
      {"hipDeviceSynchronize", CallKind::kDeviceSynchronize},
      {"cudaGraphLaunch", CallKind::kGraphLaunch},
      // None of these waits for the GPU.
      {"cudaStreamQuery", CallKind::kNone},
      {"cuModuleLoadData", CallKind::kNone},
      {"cublasSgemm_v2", CallKind::kNone},
      {"curl_easy_perform", CallKind::kNone},
      {"my_cudaMemcpyAsync", CallKind::kNone},
      {"", CallKind::kNone},
  };
  for (const auto& each : kCases) EXPECT_EQ(GpuWaitOf(each.function), each.kind) << each.function;
}

// Eight ranks; rank 3 stops before a data-parallel operation. The other ranks wait for their GPUs after that operation,
// and no record shows this wait. They have not reached their next tensor-parallel operation.
Bundle Unseen() {
  Job job(2, 1, 4, 6);
  job.ranks[3].host_fault = HostFault::kStall;
  job.ranks[3].host_fault_at = job.Find(3, "dp", 3);
  for (int r = 0; r < 8; ++r) {
    auto& program = job.ranks[r].program;
    program.insert(program.begin() + static_cast<ptrdiff_t>(job.Find(r, "dp", 3)) + 1, testing::Call());
  }
  Bundle bundle = job.Run();
  for (Rank& rank : bundle.ranks) {
    for (ring::ThreadSnapshot& thread : rank.threads) {
      if (thread.wait == CallKind::kNone) continue;
      thread.last_call_ns = thread.wait_since_ns;
      thread.wait = CallKind::kNone;
      thread.wait_since_ns = 0;
    }
    rank.process.life = Life::kRunning;
    rank.process.state = "S";
    rank.process.stack = {"clock_nanosleep", "sleep", "main"};
  }
  return bundle;
}

void LetWait(Bundle* bundle, const std::string& inner) {
  for (Rank& rank : bundle->ranks) {
    if (rank.rank == 3) continue;
    rank.process.state = "R";
    rank.process.sample_gap_ns = 1'000'000'000;
    rank.process.cpu_ns_between_samples = 220'000'000;  // the thread spins and shares the processor
    rank.process.stack = {inner, "cudaLaunchKernel (libcudart.so.13)", "at::native::add (ops.cu:12)", "main"};
  }
}

TEST(GpuWait, AFullLaunchQueueMakesARankAVictim) {
  Bundle bundle = Unseen();
  const Verdict unseen = Analyze(bundle);
  int named = 0;
  for (const Finding& finding : unseen.findings()) named += finding.culprit_ranks_size();
  EXPECT_GT(named, 1);  // ranks that are not at fault are named, too
  LetWait(&bundle, "__sched_yield");
  const Verdict verdict = Analyze(bundle);
  ASSERT_EQ(verdict.findings_size(), 1) << verdict.DebugString();
  EXPECT_EQ(verdict.findings(0).kind(), HOST_STALL);
  EXPECT_EQ(Culprits(verdict.findings(0)), std::vector<int32_t>{3});
}

TEST(GpuWait, MustBeTheSameInBothSamples) {
  Bundle bundle = Unseen();
  LetWait(&bundle, "__sched_yield");
  Rank& rank = bundle.ranks[0];
  rank.process.stack_later = rank.process.stack;
  rank.process.stack_later[0] = "clock_gettime";  // the thread spins
  ASSERT_TRUE(GpuWaitInStacks(rank).has_value());
  EXPECT_EQ(GpuWaitInStacks(rank)->wait, CallKind::kLaunch);
  EXPECT_EQ(GpuWaitInStacks(rank)->wait_since_ns, rank.threads[0].last_call_ns);
  // A program that keeps launching is sampled in different launches.
  rank.process.stack_later[2] = "at::native::mul (ops.cu:40)";
  EXPECT_FALSE(GpuWaitInStacks(rank).has_value());
  rank.process.stack_later = {"clock_nanosleep", "main"};
  EXPECT_FALSE(GpuWaitInStacks(rank).has_value());
}

TEST(GpuWait, CountsOnlyForTheCallingThreadUntilItsNextCall) {
  Bundle bundle = Unseen();
  Rank& rank = bundle.ranks[0];
  rank.threads[0].tid = 71;
  rank.threads[0].last_call_ns = 1000;
  auto evidence = std::make_shared<ProcessEvidence>();
  ThreadStack* thread = evidence->add_threads();
  thread->set_inner_tid(72);
  thread->add_frames()->set_function("cudaEventSynchronize");
  evidence->set_taken_ns(2000);
  rank.process.evidence = evidence;
  EXPECT_FALSE(GpuWaitInStacks(rank).has_value());  // a helper thread's wait delays no other rank
  thread->set_inner_tid(71);
  EXPECT_TRUE(GpuWaitInStacks(rank).has_value());
  rank.threads[0].last_call_ns = 3000;
  EXPECT_FALSE(GpuWaitInStacks(rank).has_value());
}

TEST(GpuWait, AFileReadUnderACopyIsStorage) {
  Bundle bundle = Unseen();
  Rank& rank = bundle.ranks[0];
  rank.process.stack = {"[kernel] folio_wait_bit_common", "memcpy", "cudaMemcpyAsync", "main"};
  EXPECT_FALSE(GpuWaitInStacks(rank).has_value());
}

}  // namespace
}  // namespace lockstep
