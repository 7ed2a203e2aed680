#include "analyzer/viewdata/facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/formats/lsi/writer.h"
#include "analyzer/model/rank_set.h"
#include "analyzer/testing/job.h"
#include "analyzer/testing/timed_job.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ring::CallKind;
using testing::Call;
using testing::HostFault;
using testing::Job;

// Checks properties that hold for the facts of any bundle, and that the reader accepts them.
void ExpectSound(const Bundle& bundle, const ViewFacts& facts) {
  ASSERT_EQ(static_cast<size_t>(facts.ranks_size()), bundle.ranks.size());
  std::set<int32_t> in_classes;
  for (const WaitClass& c : facts.classes()) {
    EXPECT_FALSE(c.label().empty());
    for (const int32_t r : Ranks::Of(c.ranks()).List())
      EXPECT_TRUE(in_classes.insert(r).second) << "rank " << r << " is in two classes";
  }
  for (const RankFacts& r : facts.ranks()) {
    EXPECT_GE(r.wait_class(), 0);
    ASSERT_LT(r.wait_class(), facts.classes_size());
    const std::vector<int32_t> ranks = Ranks::Of(facts.classes(r.wait_class()).ranks()).List();
    EXPECT_TRUE(std::binary_search(ranks.begin(), ranks.end(), r.rank()));
    EXPECT_FALSE(r.state().empty()) << r.rank();
  }
  std::set<std::pair<uint32_t, uint32_t>> edges;
  for (const WaitEdge& e : facts.edges()) {
    EXPECT_NE(e.from(), e.to());
    EXPECT_TRUE(edges.insert({e.from(), e.to()}).second);
    EXPECT_FALSE(e.why().empty());
  }
  for (int i = 0; i < facts.verdict().findings_size(); ++i) {
    EXPECT_EQ(facts.anomalies(i).finding(), i);
    const auto& culprits = facts.verdict().findings(i).culprit_ranks();
    EXPECT_EQ(Ranks::Of(facts.anomalies(i).ranks()).List(), std::vector<int32_t>(culprits.begin(), culprits.end()));
  }
  EXPECT_LE(facts.first_ns(), facts.last_ns());
  const support::TempFolder folder;
  const std::string path = folder.path() + "/facts.lsi";
  ASSERT_TRUE(WriteIndex(bundle, 1, path, facts.SerializeAsString()).ok());
  auto index = IndexReader::Open(path);
  ASSERT_TRUE(index.ok()) << index.status();
  const auto read = ReadViewFacts(**index);
  EXPECT_TRUE(read.ok()) << read.status();
}

// Returns whether `to` can be reached from `from`.
bool Leads(const ViewFacts& facts, int from, int to) {
  std::set<int> seen{from};
  std::vector<int> left{from};
  while (!left.empty()) {
    const int at = left.back();
    left.pop_back();
    if (at == to) return true;
    for (const WaitEdge& e : facts.edges()) {
      if (static_cast<int>(e.from()) == at && seen.insert(static_cast<int>(e.to())).second)
        left.push_back(static_cast<int>(e.to()));
    }
  }
  return false;
}

TEST(ViewFactsTest, AllWaitsLeadToAStalledHost) {
  Job job(4, 4, 4, 6);
  const int culprit = 21;
  job.ranks[culprit].host_fault_at = job.Find(culprit, "tp", 4, 1);
  job.ranks[culprit].host_fault = HostFault::kStall;
  Bundle bundle = job.Run();
  bundle.ranks[culprit].process.python_stack = {"load (train.py:88)", "main (train.py:10)"};
  const ViewFacts facts = BuildViewFacts(bundle);
  ExpectSound(bundle, facts);
  const int cause = facts.ranks(culprit).wait_class();
  EXPECT_EQ(facts.classes(cause).kind(), WaitClass::CAUSE);
  EXPECT_EQ(facts.classes(cause).finding(), 0);
  EXPECT_EQ(Ranks::Of(facts.classes(cause).ranks()).List(), std::vector<int32_t>{culprit});
  EXPECT_EQ(facts.ranks(culprit).host_state(), RankFacts::ELSEWHERE);
  EXPECT_EQ(facts.ranks(culprit).state(), "elsewhere: load (train.py:88)");
  EXPECT_GE(facts.classes_size(), 3);
  EXPECT_LE(facts.classes_size(), 60);
  for (const WaitEdge& e : facts.edges()) EXPECT_FALSE(e.in_cycle());
  for (int i = 0; i < facts.classes_size(); ++i) {
    if (i == cause) continue;
    EXPECT_EQ(facts.classes(i).kind(), WaitClass::VICTIM) << facts.classes(i).label();
    EXPECT_TRUE(Leads(facts, i, cause)) << facts.classes(i).label();
    EXPECT_FALSE(Leads(facts, cause, i)) << facts.classes(i).label();
  }
  // The finding's communicator is the one with that index. Its send is numbered within a pair of ranks, so no column
  // has that number.
  const Anomaly& first = facts.anomalies(0);
  ASSERT_GE(first.comm(), 0);
  EXPECT_EQ(bundle.comms[static_cast<size_t>(first.comm())].id, facts.verdict().findings(0).communicator().id());
  ASSERT_EQ(facts.verdict().findings(0).operation(), "Send");
  EXPECT_EQ(first.sequence(), -1);
  for (const RankFacts& r : facts.ranks()) {
    EXPECT_EQ(r.stage(), r.rank() / 16) << r.rank();  // the pipeline stage changes slowest
    if (r.rank() != culprit) {
      EXPECT_NE(r.state().find("waiting in "), std::string::npos) << r.state();
    }
  }
  EXPECT_GE(facts.ranks(culprit).lag(), 1);
  EXPECT_EQ(facts.ranks(culprit).lag(),
            std::max_element(facts.ranks().begin(), facts.ranks().end(), [](auto& a, auto& b) {
              return a.lag() < b.lag();
            })->lag());
}

TEST(ViewFactsTest, HealthyRanksAreOneClassAndNoAnomalies) {
  const Bundle bundle = Job(2, 2, 4, 5).Run();
  const ViewFacts facts = BuildViewFacts(bundle);
  ExpectSound(bundle, facts);
  EXPECT_EQ(facts.verdict().verdict(), VERDICT_HEALTHY);
  EXPECT_EQ(facts.classes_size(), 1);
  EXPECT_EQ(facts.classes(0).kind(), WaitClass::HEALTHY);
  EXPECT_EQ(facts.edges_size(), 0);
  EXPECT_EQ(facts.anomalies_size(), 0);
}

TEST(ViewFactsTest, DeadAndMissingRanksHaveTheirClasses) {
  Job job(2, 2, 4, 5);
  job.ranks[3].host_fault_at = job.Find(3, "dp", 3);
  job.ranks[3].host_fault = HostFault::kDie;
  Bundle bundle = job.Run();
  std::erase_if(bundle.ranks, [](const Rank& r) { return r.rank == 9 || r.rank == 10; });
  bundle.ranks_expected = 16;
  const ViewFacts facts = BuildViewFacts(bundle);
  ExpectSound(bundle, facts);
  EXPECT_EQ(facts.ranks(3).host_state(), RankFacts::DEAD);
  EXPECT_EQ(facts.ranks(3).state(), "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(facts.classes(facts.ranks(3).wait_class()).kind(), WaitClass::CAUSE);
  std::vector<int32_t> silent;
  for (const WaitClass& c : facts.classes()) {
    if (c.kind() != WaitClass::NO_DATA) continue;
    for (const int32_t r : Ranks::Of(c.ranks()).List()) silent.push_back(r);
  }
  std::sort(silent.begin(), silent.end());
  EXPECT_EQ(silent, (std::vector<int32_t>{9, 10}));
  ASSERT_EQ(facts.missing_size(), 1);
  EXPECT_EQ(Ranks::Of(facts.missing(0)).List(), (std::vector<int32_t>{9, 10}));
  bool told = false;
  for (const Anomaly& a : facts.anomalies())
    told |= a.finding() < 0 && Ranks::Of(a.ranks()).List() == std::vector<int32_t>{9, 10};
  EXPECT_TRUE(told);
  EXPECT_EQ(facts.missing_text(), "no data from ranks 9, 10 (2 of 16)");
}

TEST(ViewFactsTest, MismatchesHaveTheirGroups) {
  Job job(1, 1, 8, 5);
  job.ranks[5].program[job.Find(5, "dp", 3)].count *= 2;
  const Bundle bundle = job.Run();
  const ViewFacts facts = BuildViewFacts(bundle);
  ExpectSound(bundle, facts);
  ASSERT_GE(facts.mismatches_size(), 1);
  const CallMismatch& m = facts.mismatches(0);
  EXPECT_EQ(m.field(), "count");
  ASSERT_EQ(m.groups_size(), 2);
  EXPECT_TRUE(m.groups(0).reference());
  EXPECT_EQ(Ranks::Of(m.groups(0).ranks()).List().size(), 7u);
  EXPECT_FALSE(m.groups(1).reference());
  EXPECT_EQ(Ranks::Of(m.groups(1).ranks()).List(), std::vector<int32_t>{5});
  EXPECT_NE(m.groups(0).value(), m.groups(1).value());
  EXPECT_EQ(m.comm(), facts.anomalies(0).comm());
  EXPECT_EQ(m.sequence(), facts.anomalies(0).sequence());
  // All other ranks wait for the rank that differs.
  const int cause = facts.ranks(5).wait_class();
  EXPECT_EQ(facts.classes(cause).kind(), WaitClass::CAUSE);
  for (const RankFacts& r : facts.ranks()) EXPECT_TRUE(Leads(facts, r.wait_class(), cause)) << r.rank();
}

// Three ranks, each in a communicator that the next one enters last, and a fourth rank that waits for all of them.
TEST(ViewFactsTest, CyclesAreMarked) {
  Job job(1, 1, 4, 0);
  job.comms = {{"a", {0, 1}}, {"b", {1, 2}}, {"c", {2, 0}}, {"all", {0, 1, 2, 3}}};
  const auto on = [](int comm) {
    Call call;
    call.comm = comm;
    call.kind = CallKind::kAllReduce;
    call.count = 4096;
    call.reduction = 0;
    return call;
  };
  job.ranks[0].program = {on(0), on(2), on(3), {}};
  job.ranks[1].program = {on(1), on(0), on(3), {}};
  job.ranks[2].program = {on(2), on(1), on(3), {}};
  job.ranks[3].program = {on(3), {}};
  const Bundle bundle = job.Run();
  const ViewFacts facts = BuildViewFacts(bundle);
  ExpectSound(bundle, facts);
  ASSERT_EQ(facts.verdict().findings(0).kind(), DEADLOCK_CYCLE);
  int circle_classes = 0, circle_edges = 0;
  for (const WaitClass& c : facts.classes()) circle_classes += c.kind() == WaitClass::IN_CYCLE;
  for (const WaitEdge& e : facts.edges()) {
    circle_edges += e.in_cycle();
    if (!e.in_cycle()) continue;
    EXPECT_TRUE(Leads(facts, static_cast<int>(e.to()), static_cast<int>(e.from())));
  }
  EXPECT_EQ(circle_classes, 3) << facts.DebugString().substr(0, 3000);
  EXPECT_EQ(circle_edges, 3);
  EXPECT_EQ(facts.classes(facts.ranks(3).wait_class()).kind(), WaitClass::VICTIM);
  EXPECT_TRUE(Leads(facts, facts.ranks(3).wait_class(), facts.ranks(0).wait_class()));
}

TEST(ViewFactsTest, StacksMergeIntoOneTree) {
  Bundle bundle = Job(1, 1, 4, 3).Run();
  for (size_t r = 0; r < 4; ++r) {
    bundle.ranks[r].process.python_stack = {r == 2 ? "save (ckpt.py:7)" : "step (train.py:9)", "main (train.py:1)"};
    bundle.ranks[r].process.stack = {"[kernel] do_poll+0x1", "poll+0x4f", "main+0x20"};
  }
  auto evidence = std::make_shared<ProcessEvidence>();
  ThreadStack* thread = evidence->add_threads();
  for (const auto& [name, kind] :
       {std::pair("futex_wait", StackFrame::KERNEL), {"save", StackFrame::PYTHON}, {"main", StackFrame::NATIVE}}) {
    StackFrame* frame = thread->add_frames();
    frame->set_function(name);
    frame->set_kind(kind);
  }
  bundle.ranks[3].process.evidence = evidence;
  const ViewFacts facts = BuildViewFacts(bundle);
  ExpectSound(bundle, facts);
  auto node = [&](const std::string& frame) -> const StackNode* {
    for (const StackNode& n : facts.stacks()) {
      if (n.frame() == frame) return &n;
    }
    return nullptr;
  };
  ASSERT_NE(node("save (ckpt.py:7)"), nullptr);
  EXPECT_EQ(Ranks::Of(node("save (ckpt.py:7)")->ranks()).List(), std::vector<int32_t>{2});
  EXPECT_EQ(node("save (ckpt.py:7)")->kind(), StackFrame::PYTHON);
  EXPECT_EQ(Ranks::Of(node("main (train.py:1)")->ranks()).List(), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(facts.stacks(node("step (train.py:9)")->parent()).frame(), "main (train.py:1)");
  ASSERT_NE(node("poll"), nullptr);
  EXPECT_EQ(node("poll")->kind(), StackFrame::NATIVE);
  ASSERT_NE(node("[kernel] do_poll"), nullptr);
  EXPECT_EQ(node("[kernel] do_poll")->kind(), StackFrame::KERNEL);
  bool kernel = false;
  for (const StackNode& n : facts.stacks())
    kernel |= n.kind() == StackFrame::KERNEL && Ranks::Of(n.ranks()).List() == std::vector<int32_t>{3};
  EXPECT_TRUE(kernel);
  EXPECT_EQ(facts.ranks(3).evidence().threads_size(), 1);
}

TEST(ViewFactsTest, MergedStacksOfLowerRanksJoinThoseOfHigherOnes) {
  Bundle bundle = Job(1, 1, 4, 3).Run();
  bundle.ranks[2].process.python_stack = {"main (train.py:1)"};
  ViewFacts facts = BuildViewFacts(bundle);
  MergedStacks merged;
  merged.stacks = {{{"main (train.py:1)"}, {0, 3}}};
  AddMergedStacks(merged, &facts);
  ASSERT_EQ(facts.stacks_size(), 1);
  EXPECT_EQ(Ranks::Of(facts.stacks(0).ranks()).List(), (std::vector<int32_t>{0, 2, 3}));
}

TEST(ViewFactsTest, RanksWhoseRecordingStoppedAreNeitherCausesNorVictims) {
  Job job(2, 1, 4, 5);
  job.ranks[2].host_fault_at = job.Find(2, "dp", 3);
  job.ranks[2].host_fault = HostFault::kStall;
  Bundle bundle = job.Run();
  bundle.ranks[6].recorder_state = ring::RecorderState::kStopped;
  bundle.ranks[6].stop_reason = "over its budget";
  const ViewFacts facts = BuildViewFacts(bundle);
  ExpectSound(bundle, facts);
  EXPECT_EQ(facts.ranks(6).recorder(), "stopped: over its budget");
  EXPECT_EQ(facts.classes(facts.ranks(6).wait_class()).kind(), WaitClass::NO_DATA);
  EXPECT_EQ(facts.classes(facts.ranks(2).wait_class()).kind(), WaitClass::CAUSE);
}

// Sixty-four independently stuck hosts give too many wait states. They are combined, and none is lost.
TEST(ViewFactsTest, ManyCausesAreCombinedAndNoRankIsLost) {
  Job job(4, 4, 16, 6);
  for (int rank = 1; rank < 256; rank += 4) {
    job.ranks[static_cast<size_t>(rank)].host_fault_at = job.Find(rank, "tp", 3 + rank % 3, 1);
    job.ranks[static_cast<size_t>(rank)].host_fault = HostFault::kStall;
  }
  const Bundle bundle = job.Run();
  const ViewFacts facts = BuildViewFacts(bundle);
  ExpectSound(bundle, facts);
  EXPECT_GE(facts.classes_size(), 2);
  EXPECT_LE(facts.classes_size(), 200);
  EXPECT_LE(facts.edges_size(), 4000);
  size_t ranks = 0;
  for (const WaitClass& c : facts.classes()) ranks += Ranks::Of(c.ranks()).List().size();
  EXPECT_EQ(ranks, 256u);
  // Combining keeps ranks that wait for no rank separate from ranks that wait.
  int causes = 0;
  for (const RankFacts& rank : facts.ranks()) {
    // The other ranks wait, because faults of ranks before them stopped them.
    const bool stands = rank.host_state() == RankFacts::ELSEWHERE;
    EXPECT_EQ(facts.classes(rank.wait_class()).kind(), stands ? WaitClass::CAUSE : WaitClass::VICTIM) << rank.rank();
    causes += stands;
  }
  EXPECT_GE(causes, 4);
  for (int i = 0; i < facts.classes_size(); ++i) {
    const auto& c = facts.classes(i);
    const bool waits = std::any_of(facts.edges().begin(), facts.edges().end(),
                                   [&](const WaitEdge& e) { return static_cast<int>(e.from()) == i; });
    EXPECT_EQ(waits, c.kind() == WaitClass::VICTIM) << c.label();
    for (const WaitEdge& e : facts.edges()) EXPECT_FALSE(e.in_cycle());
  }
}

// One series for each kind, size and class of communicators, with one point for each rank. The two ranks on the slow
// link are the outliers.
TEST(ViewFactsTest, BandwidthOfEachRankBySizeAndClass) {
  testing::TimedJob job;
  job.tp = 2, job.dp = 8, job.gpus_per_host = 2, job.transfer_ns = 4'000'000;
  job.transfer_factor = [](const std::vector<int>& members, int) {
    return members == std::vector<int>{6, 7} ? 3.0 : 1.0;
  };
  const Bundle bundle = job.Run();
  const ViewFacts facts = BuildViewFacts(bundle);
  const auto tp = std::find_if(facts.bandwidths().begin(), facts.bandwidths().end(),
                               [](const BandwidthSeries& s) { return s.label().find("tp_*") != std::string::npos; });
  ASSERT_NE(tp, facts.bandwidths().end());
  EXPECT_EQ(tp->label(), "AllReduce 4 MiB on tp_* (8 communicators)");
  EXPECT_EQ(tp->operation(), "AllReduce");
  EXPECT_FALSE(tp->clock().empty());
  ASSERT_EQ(tp->points_size(), 16);
  for (int i = 0; i < 16; ++i) {
    const BandwidthSeries::Point& point = tp->points(i);
    EXPECT_EQ(point.rank(), i);
    EXPECT_NEAR(point.median_bytes_per_s(), 4194304.0 / (i == 6 || i == 7 ? 0.012 : 0.004), 2e7) << i;
    EXPECT_LE(point.worst_bytes_per_s(), point.median_bytes_per_s());
    EXPECT_GT(point.operations(), 0);
    ASSERT_GE(point.comm(), 0);
    EXPECT_EQ(bundle.comms[static_cast<size_t>(point.comm())].size, 2);
  }
  EXPECT_NEAR(tp->best_bytes_per_s(), 4194304.0 / 0.004, 2e7);
  // Without times there is nothing to plot.
  Bundle blind = bundle;
  for (Rank& rank : blind.ranks) {
    for (Op& op : rank.ops) op.started_ns = op.completed_ns = 0;
  }
  EXPECT_EQ(BuildViewFacts(blind).bandwidths_size(), 0);
}

TEST(ViewFactsTest, AGivenVerdictIsKept) {
  Job job(2, 1, 2, 4);
  job.ranks[1].host_fault_at = job.Find(1, "dp", 3);
  job.ranks[1].host_fault = HostFault::kStall;
  const Bundle bundle = job.Run();
  Verdict verdict = Analyze(bundle);
  verdict.set_job("as given");
  EXPECT_EQ(BuildViewFacts(bundle, verdict).verdict().job(), "as given");
}

}  // namespace
}  // namespace lockstep
