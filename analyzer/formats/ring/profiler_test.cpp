// Tests how reports from NCCL's profiler interface become states and times of operations.

#include <gtest/gtest.h>

#include "analyzer/formats/ring/loader.h"

namespace lockstep {
namespace {

using ring::CallKind;

ring::KernelSnapshot Kernel(uint64_t seq, int64_t started_ns, int64_t completed_ns) {
  ring::KernelSnapshot kernel;
  kernel.comm = 0;
  kernel.kind = CallKind::kAllReduce;
  kernel.seq = kernel.order = seq;
  kernel.channels = 1;
  kernel.launched = kernel.gpu_times = true;
  kernel.started_channels = started_ns != 0 ? 1 : 0;
  kernel.completed_channels = completed_ns != 0 ? 1 : 0;
  kernel.ended = completed_ns != 0;
  kernel.started_ns = started_ns;
  kernel.completed_ns = completed_ns;
  kernel.uncertainty_ns = 700;
  return kernel;
}

RingInput Ring(uint32_t version) {
  RingInput input;
  input.path = "/rings/1.ring";
  input.snapshot.process.job = "train";
  input.snapshot.process.host = "node0";
  input.snapshot.process.rank = 0;
  input.snapshot.process.world_size = 2;
  input.snapshot.process.pid = 1000;
  input.snapshot.process.gpu_marks = ring::GpuMarks::kProfiler;
  input.snapshot.profiler.interface_version = version;
  input.snapshot.threads.emplace_back();
  ring::CommSnapshot comm;
  comm.id = 77;
  comm.state = ring::CommState::kReady;
  comm.origin = CallKind::kCommInitRank;
  comm.member_rank = 0;
  comm.size = 2;
  comm.device = 0;
  comm.issued_seq = comm.launched_seq = 4;
  input.snapshot.comms.push_back(comm);
  for (uint64_t seq = 1; seq <= 4; ++seq) {
    ring::OpSnapshot op;
    op.comm = 0;
    op.kind = CallKind::kAllReduce;
    op.stage = ring::OpStage::kLaunched;
    op.seq = op.index = seq;
    op.enter_ns = static_cast<int64_t>(seq) * 1000;
    op.return_ns = op.enter_ns + 10;
    input.snapshot.ops.push_back(op);
  }
  return input;
}

TEST(RingLoaderProfiler, KernelsGiveStatesTimesAndProgress) {
  RingInput input = Ring(6);
  input.snapshot.kernels = {Kernel(1, 1500, 1800), Kernel(2, 2500, 0), Kernel(3, 0, 0)};
  const Bundle bundle = BundleFromRings({input});
  ASSERT_EQ(bundle.ranks.size(), 1u);
  const Rank& rank = bundle.ranks[0];
  EXPECT_EQ(rank.time_source, TimeSource::kProfiler);
  EXPECT_TRUE(rank.start_recorded);
  EXPECT_EQ(rank.time_uncertainty_ns, 700);
  ASSERT_EQ(rank.ops.size(), 4u);
  EXPECT_EQ(rank.ops[0].state, OpState::kCompleted);
  EXPECT_EQ(rank.ops[0].started_ns, 1500);
  EXPECT_EQ(rank.ops[0].completed_ns, 1800);
  EXPECT_EQ(rank.ops[1].state, OpState::kStarted);
  EXPECT_EQ(rank.ops[1].completed_ns, 0);
  EXPECT_EQ(rank.ops[2].state, OpState::kEnqueued);
  EXPECT_EQ(rank.ops[3].state, OpState::kUnknown);
  EXPECT_EQ(rank.memberships[0].completed, 1);
  EXPECT_EQ(rank.memberships[0].started, 2);
}

TEST(RingLoaderProfiler, AMissingReportOfAnEarlierKernelProvesNothing) {
  RingInput input = Ring(4);
  input.snapshot.kernels = {Kernel(1, 0, 0), Kernel(2, 2500, 2600)};
  const Bundle bundle = BundleFromRings({input});
  EXPECT_EQ(bundle.ranks[0].ops[0].state, OpState::kUnknown);
  EXPECT_EQ(bundle.ranks[0].ops[1].state, OpState::kCompleted);
}

TEST(RingLoaderProfiler, InterfacesWithoutKernelsShowNothingAboutTheGpu) {
  RingInput input = Ring(2);
  input.snapshot.kernels = {Kernel(1, 0, 0)};
  const Bundle bundle = BundleFromRings({input});
  EXPECT_EQ(bundle.ranks[0].gpu_marks, ring::GpuMarks::kOff);
  EXPECT_EQ(bundle.ranks[0].ops[0].state, OpState::kUnknown);
  EXPECT_FALSE(bundle.ranks[0].start_recorded);
}

TEST(RingLoaderProfiler, OwnNetworkOperationsInProgressAreKept) {
  RingInput input = Ring(6);
  ring::ProxySnapshot proxy;
  proxy.comm = 0;
  proxy.kind = CallKind::kAllReduce;
  proxy.seq = 2;
  proxy.peer = 1;
  proxy.channel = 2;
  proxy.steps = 64;
  proxy.done = proxy.step = 13;
  proxy.state = ring::ProxyState::kRecvWait;
  proxy.changed_ns = 5000;
  input.snapshot.proxies = {proxy, proxy, proxy};
  input.snapshot.proxies[1].ended = true;
  input.snapshot.proxies[2].remote = true;
  const Bundle bundle = BundleFromRings({input});
  ASSERT_EQ(bundle.ranks[0].network.size(), 1u);
  const NetworkOp& op = bundle.ranks[0].network[0];
  EXPECT_EQ(op.membership, 0u);
  EXPECT_EQ(op.seq, 2);
  EXPECT_EQ(op.peer, 1);
  EXPECT_EQ(op.channel, 2u);
  EXPECT_EQ(op.step, 13u);
  EXPECT_EQ(op.steps, 64u);
  EXPECT_EQ(op.state, ring::ProxyState::kRecvWait);
  EXPECT_EQ(op.since_ns, 5000);
}

}  // namespace
}  // namespace lockstep
