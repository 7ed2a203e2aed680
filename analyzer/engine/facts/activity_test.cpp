#include "analyzer/engine/facts/activity.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/report/words/evidence.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using lockstep::testing::Culprits;

using testing::HostFault;
using testing::Job;

Process Sampled(int64_t cpu_ns, int64_t io_bytes) {
  Process p;
  p.life = Life::kRunning;
  p.state = "S";
  p.sample_gap_ns = 2'000'000'000;
  p.cpu_ns_between_samples = cpu_ns;
  p.io_bytes_between_samples = io_bytes;
  return p;
}

struct Case {
  const char* name;
  Stall stall;
  std::vector<std::string> native, python;
};

TEST(Activity, TheInnermostFrameDecidesTheActivity) {
  const Case cases[] = {
      {"loader",
       Stall::kDataLoading,
       {"poll", "PyEval_EvalFrame"},
       {"_try_get_data (torch/utils/data/dataloader.py:1133)", "_next_data (torch/utils/data/dataloader.py:1283)",
        "train (train.py:10)"}},
      {"gc inside the loader",
       Stall::kGarbageCollection,
       {"visit_decref", "gc_collect_main", "_PyEval_EvalFrameDefault"},
       {"__next__ (torch/utils/data/dataloader.py:630)"}},
      {"lock",
       Stall::kInterpreterLock,
       {"pthread_cond_timedwait", "take_gil", "PyEval_RestoreThread"},
       {"step (train.py:4)"}},
      {"inductor",
       Stall::kCompilation,
       {},
       {"compile (torch/_inductor/graph.py:1)", "_fn (torch/_dynamo/eval_frame.py:574)"}},
      {"running what was compiled",
       Stall::kUnknown,
       {},
       {"__call__ (torch/_inductor/output_code.py:1)", "_fn (torch/_dynamo/eval_frame.py:574)", "train (train.py:10)"}},
      {"llvm", Stall::kCompilation, {"llvm::SelectionDAGISel::runOnMachineFunction"}, {}},
      {"torch.save", Stall::kCheckpoint, {"__write"}, {"_save (torch/serialization.py:850)", "train (train.py:10)"}},
      {"dcp", Stall::kCheckpoint, {}, {"write_data (torch/distributed/checkpoint/filesystem.py:598)"}},
      {"unique id",
       Stall::kRendezvous,
       {"poll", "c10d::detail::TCPClient::receiveValueWithTimeout", "c10d::TCPStore::doWait", "c10d::TCPStore::get"},
       {}},
      {"barrier of a checkpoint",
       Stall::kRendezvous,
       {"gloo::transport::tcp::UnboundBuffer::waitRecv", "gloo::barrier"},
       {"barrier (torch/distributed/checkpoint/utils.py:99)"}},
      {"mpi", Stall::kRendezvous, {"opal_progress", "PMPI_Bcast", "main"}, {}},
      {"torchrun", Stall::kRendezvous, {}, {"_create_c10d_store (torch/distributed/rendezvous.py:189)"}},
      {"own code", Stall::kUnknown, {"clock_nanosleep"}, {"wait (train.py:10)"}},
  };
  for (const Case& c : cases) {
    Process p = Sampled(0, 0);
    p.stack = c.native;
    p.python_stack = c.python;
    const ActivityView view = ClassifyActivity(p);
    EXPECT_STREQ(StallName(view.stall), StallName(c.stall)) << c.name;
    EXPECT_EQ(view.evidence.kind() == Evidence::FACT, c.stall == Stall::kUnknown) << c.name;
  }
}

TEST(Activity, ALockThatChangesOwnersIsNotAWait) {
  Process p = Sampled(0, 0);
  p.stack = {"futex", "take_gil"};
  p.stack_later = {"epoll_wait"};
  EXPECT_EQ(ClassifyActivity(p).stall, Stall::kUnknown);
  p.stack_later = {"futex", "take_gil"};
  EXPECT_EQ(ClassifyActivity(p).stall, Stall::kInterpreterLock);
}

TEST(Activity, ACollectionThatEndsIsNoActivity) {
  Process p = Sampled(0, 0);
  p.stack = {"visit_decref", "gc_collect_main"};
  p.stack_later = {"_PyEval_EvalFrameDefault"};
  p.python_stack = {"_compile (torch/_dynamo/convert_frame.py:9)"};
  EXPECT_EQ(ClassifyActivity(p).stall, Stall::kCompilation);
  p.stack_later = {"subtract_refs", "gc_collect_main"};
  EXPECT_EQ(ClassifyActivity(p).stall, Stall::kGarbageCollection);
}

TEST(Activity, StorageAndCheckpointsAreRecognizedByStateAndOpenFiles) {
  Process p = Sampled(0, 0);
  p.state = "D";
  p.threads_in_d = 2;
  p.wchan = "rpc_wait_bit_killable";
  p.written_files = {"/var/log/train.log"};
  ActivityView view = ClassifyActivity(p);
  EXPECT_EQ(view.stall, Stall::kStorage);
  EXPECT_EQ(view.moving, Moving::kNo);
  EXPECT_EQ(EvidenceText(view.evidence),
            "storage on a rank: 2 threads in uninterruptible sleep (D) in rpc_wait_bit_killable");
  p.written_files.push_back("/lustre/run7/ckpt/iter_0001000/3.distcp");
  view = ClassifyActivity(p);
  EXPECT_EQ(view.stall, Stall::kCheckpoint);
  EXPECT_NE(EvidenceText(view.evidence).find("3.distcp open for writing"), std::string::npos);

  // A file that merely stays open is no activity, but a file that is being written is.
  Process open = Sampled(0, 0);
  open.written_files = {"/data/checkpoint.pt"};
  EXPECT_EQ(ClassifyActivity(open).stall, Stall::kUnknown);
  open.io_bytes_between_samples = 400 << 20;
  view = ClassifyActivity(open);
  EXPECT_EQ(view.stall, Stall::kCheckpoint);
  EXPECT_EQ(view.moving, Moving::kYes);

  // A sleep in a GPU driver is not a wait for storage.
  Process driver = Sampled(0, 0);
  driver.state = "D";
  driver.wchan = "uvm_va_space_mm_shutdown";
  EXPECT_EQ(ClassifyActivity(driver).stall, Stall::kUnknown);
}

TEST(Activity, UnknownMotionIsNotGuessed) {
  EXPECT_EQ(ClassifyActivity(Process{}).moving, Moving::kUnknown);
  EXPECT_EQ(ClassifyActivity(Sampled(1'900'000'000, 0)).moving, Moving::kYes);
  EXPECT_EQ(ClassifyActivity(Sampled(10'000'000, 512)).moving, Moving::kNo);  // a watchdog's share
  Process p;
  p.stack = {"a", "b"};
  EXPECT_EQ(ClassifyActivity(p).moving, Moving::kUnknown);
  p.stack_later = {"c", "b"};
  EXPECT_EQ(ClassifyActivity(p).moving, Moving::kYes);
}

// Returns a job of 8 ranks on two hosts. The given ranks stop before step 3's first tensor-parallel call.
Bundle StalledHosts(const std::vector<int>& ranks) {
  Job job(2, 2, 2, 6);
  for (int r : ranks) {
    job.ranks[r].host_fault = HostFault::kStall;
    job.ranks[r].host_fault_at = job.Find(r, "tp", 3);
  }
  Bundle b = job.Run();
  for (Rank& r : b.ranks) r.host = r.rank < 4 ? "node0" : "node1";
  return b;
}

TEST(Activity, StorageThatStallsOneHostIsOneFinding) {
  Bundle b = StalledHosts({4, 5, 6, 7});
  for (int r : {4, 5, 6, 7}) {
    Process& p = b.ranks[r].process;
    p = Sampled(0, 0);
    p.state = "D";
    p.wchan = "nfs_wait_bit_killable";
    if (r == 5) p.written_files = {"/nfs/ckpt/5.pt"};
  }
  const Verdict v = Analyze(b);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  const Finding& f = v.findings(0);
  EXPECT_EQ(f.kind(), HOST_STALL);
  EXPECT_EQ(Culprits(f), (std::vector<int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(f.activity(), "checkpoint");
  EXPECT_EQ(f.moving(), "not moving");
  EXPECT_EQ(f.common_factor().kind(), "host");
  EXPECT_EQ(f.common_factor().name(), "node1");
  EXPECT_EQ(f.common_factor().members(), 4);
  EXPECT_EQ(v.verdict(), VERDICT_HUNG);
}

TEST(Activity, AStallOnFilesIsLessCertainIfItsHostLeftIncompleteData) {
  for (const bool lost : {false, true}) {
    for (const bool files : {false, true}) {
      Bundle b = StalledHosts({5});
      Process& p = b.ranks[5].process;
      p = Sampled(0, 0);
      if (files) p.state = "D", p.wchan = "nfs_wait_bit_killable";
      b.ranks_expected = static_cast<int32_t>(b.ranks.size());
      if (lost) b.ranks.erase(b.ranks.begin() + 6);
      const Verdict v = Analyze(b);
      ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
      EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5});
      EXPECT_EQ(v.findings(0).confidence() < 0.9, lost && files) << v.DebugString();
    }
  }
}

TEST(Activity, StorageThatStallsSeveralHostsIsNotBlamedOnAHost) {
  Bundle b = StalledHosts({1, 2, 5, 6});
  for (int r : {1, 2, 5, 6}) {
    Process& p = b.ranks[r].process;
    p = Sampled(0, 0);
    p.state = "D";
    p.wchan = "nfs_wait_bit_killable";
    p.written_files = {"/nfs/ckpt/" + std::to_string(r) + ".pt"};
  }
  const Verdict v = Analyze(b);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  const Finding& f = v.findings(0);
  EXPECT_EQ(Culprits(f), (std::vector<int32_t>{1, 2, 5, 6}));
  EXPECT_EQ(f.activity() + ", " + f.moving(), "checkpoint, not moving");
  EXPECT_NE(f.common_factor().kind(), "host");
  bool told = false;
  for (const Evidence& e : f.evidence())
    told |=
        e.text() == "4 ranks on 2 hosts wait for files at the same time: suspect the shared file system, not one host";
  EXPECT_TRUE(told) << f.DebugString();
  EXPECT_NE(f.advice().find("Do not drain a host"), std::string::npos);
}

TEST(Activity, AMovingRankIsLateUnlessTheJobIsKnownToBeStuck) {
  Bundle b = StalledHosts({0});
  b.ranks[0].process = Sampled(1'950'000'000, 0);
  b.ranks[0].process.python_stack = {"compile_fx_inner (torch/_inductor/compile_fx.py:475)", "forward (model.py:3)"};
  Verdict v = Analyze(b);
  EXPECT_EQ(v.verdict(), VERDICT_HUNG);
  ASSERT_EQ(v.findings_size(), 1);
  EXPECT_EQ(v.findings(0).activity(), "compilation");
  EXPECT_EQ(v.findings(0).moving(), "moving");
  b.known_stalled = false;
  v = Analyze(b);
  EXPECT_EQ(v.verdict(), VERDICT_LATE);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{0});
}

TEST(Activity, DifferentStallsAreTwoFindings) {
  Bundle b = StalledHosts({1, 6});
  b.ranks[1].process = Sampled(0, 0);
  b.ranks[1].process.python_stack = {"_next_data (torch/utils/data/dataloader.py:1283)"};
  b.ranks[6].process = Sampled(1'990'000'000, 0);
  b.ranks[6].process.stack = {"visit_reachable", "gc_collect_main"};
  const Verdict v = Analyze(b);
  ASSERT_EQ(v.findings_size(), 2) << v.DebugString();
  EXPECT_EQ(v.findings(0).activity() + "/" + v.findings(1).activity(), "data loading/garbage collection");
}

}  // namespace
}  // namespace lockstep
