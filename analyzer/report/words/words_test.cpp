#include "analyzer/report/words/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/report/words/chain.h"
#include "analyzer/report/words/evidence.h"
#include "analyzer/report/words/proof.h"
#include "analyzer/report/words/verdict.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Finding Of(Reason reason, int ranks) {
  Finding finding;
  finding.set_kind(HOST_STALL);
  finding.set_reason(reason);
  for (int r = 0; r < ranks; ++r) {
    finding.add_culprit_ranks(r);
    finding.add_culprits()->set_rank(r);
  }
  Detail* detail = finding.mutable_detail();
  detail->mutable_call()->set_text("AllReduce #7");
  detail->mutable_call()->set_on("tp_3");
  *detail->mutable_other() = detail->call();
  detail->set_name("NAME");
  detail->set_other_name("OTHER");
  detail->add_ranks(4);
  detail->add_ranks(5);
  detail->add_others(6);
  return finding;
}

// A sentence is complete if no part of it is empty.
void ExpectWhole(const std::string& text) {
  EXPECT_FALSE(text.empty());
  for (const char* hole : {"  ", " ,", " ;", "; ;"}) EXPECT_FALSE(absl::StrContains(text, hole)) << text;
  EXPECT_FALSE(absl::StartsWith(text, " ") || absl::EndsWith(text, " ")) << text;
}

TEST(WordsTest, EveryReasonHasItsWordsForOneRankAndForSeveral) {
  for (int i = 0; i < Reason_descriptor()->value_count(); ++i) {
    const auto reason = static_cast<Reason>(Reason_descriptor()->value(i)->number());
    if (reason == REASON_UNSPECIFIED) continue;
    for (const int ranks : {1, 3}) {
      SCOPED_TRACE(absl::StrCat(Reason_Name(reason), " of ", ranks));
      Finding finding = Of(reason, ranks);
      PutIntoWords(&finding);
      ExpectWhole(finding.summary());
      ExpectWhole(finding.refuted_by());
      EXPECT_GT(finding.advice_steps_size(), 0);
      for (const std::string& step : finding.advice_steps()) ExpectWhole(step);
      for (const std::string& rival : finding.alternatives()) ExpectWhole(rival);
    }
  }
}

// The third line of the text is "  do       1. " and the first step.
TEST(WordsTest, TheFirstStepFitsOnOneLineWithItsCommand) {
  const auto expect_short = [](Finding finding) {
    for (Culprit& culprit : *finding.mutable_culprits()) {
      culprit.set_host("gpu036");
      culprit.set_pid(432082);
      culprit.set_gpu(3);
    }
    for (const char* place : {"", "log_metrics (train.py:402)"}) {
      finding.set_place(place);
      PutIntoWords(&finding);
      EXPECT_LE(finding.advice_steps(0).size(), 66u) << finding.advice_steps(0);
    }
  };
  for (const int ranks : {1, 3}) {
    for (int i = 0; i < Reason_descriptor()->value_count(); ++i) {
      const auto reason = static_cast<Reason>(Reason_descriptor()->value(i)->number());
      if (reason == REASON_UNSPECIFIED) continue;
      for (const int64_t signal : {0, 6, 9}) {
        SCOPED_TRACE(absl::StrCat(Reason_Name(reason), " of ", ranks));
        Finding finding = Of(reason, ranks);
        finding.mutable_detail()->set_number(signal);
        expect_short(finding);
        finding.mutable_detail()->set_flag(true);
        finding.mutable_detail()->clear_name();
        expect_short(finding);
        finding.set_cpu_only(true);
        expect_short(finding);
      }
    }
    for (const char* activity : {"checkpoint", "storage", "data loading", "compilation", "garbage collection",
                                 "interpreter lock", "rendezvous"}) {
      Finding finding = Of(REASON_OUTSIDE_NCCL, ranks);
      finding.set_activity(activity);
      expect_short(finding);
      finding.set_activity_hosts(2);
      expect_short(finding);
    }
  }
}

TEST(WordsTest, EveryRivalHasItsWords) {
  for (int i = 0; i < Rival::Kind_descriptor()->value_count(); ++i) {
    const auto kind = static_cast<Rival::Kind>(Rival::Kind_descriptor()->value(i)->number());
    if (kind == Rival::RIVAL_UNSPECIFIED) continue;
    SCOPED_TRACE(Rival::Kind_Name(kind));
    Finding finding = Of(REASON_NEVER_ENTERED, 1);
    Rival* rival = finding.add_rivals();
    rival->set_kind(kind);
    *rival->mutable_detail() = finding.detail();
    PutIntoWords(&finding);
    ASSERT_EQ(finding.alternatives_size(), 1);
    ExpectWhole(finding.alternatives(0));
    ExpectWhole(finding.tells_apart());
  }
}

// Sets every field that a sentence may need.
Evidence Filled(Evidence::Kind kind, int64_t count) {
  Evidence evidence;
  evidence.set_kind(kind);
  evidence.set_text("TEXT");
  evidence.add_ranks(5);
  evidence.add_frames()->set_text("read");
  evidence.mutable_process()->set_state("S");
  evidence.set_operation("AllReduce #7");
  evidence.mutable_communicator()->set_label("tp_3");
  evidence.set_duration_ns(2'500'000'000);
  evidence.mutable_replay()->set_graph(1);
  Detail* detail = evidence.mutable_detail();
  *detail = Of(REASON_NEVER_ENTERED, 1).detail();
  detail->mutable_call()->set_site("train.py:88");
  *detail->add_calls() = detail->call();
  *detail->add_calls() = detail->call();
  for (const char* name : {"tp_0", "tp_1"}) {
    detail->add_groups()->set_name(name);
    detail->add_members("0, 2");
  }
  detail->set_count(count);
  detail->set_of(8);
  detail->set_number(3);
  detail->set_other_number(4);
  detail->set_duration_ns(2'500'000'000);
  detail->set_other_duration_ns(1'500'000);
  detail->set_value(0.25);
  detail->set_other_value(0.5);
  return evidence;
}

TEST(WordsTest, EveryKindOfEvidenceHasItsSentence) {
  for (int i = 0; i < Evidence::Kind_descriptor()->value_count(); ++i) {
    const auto kind = static_cast<Evidence::Kind>(Evidence::Kind_descriptor()->value(i)->number());
    for (const int64_t count : {1, 3}) {
      for (const bool flag : {false, true}) {
        SCOPED_TRACE(absl::StrCat(Evidence::Kind_Name(kind), " of ", count, flag ? " with its flag" : ""));
        Evidence evidence = Filled(kind, count);
        evidence.mutable_detail()->set_flag(flag);
        const std::string text = EvidenceText(evidence);
        ExpectWhole(text);
        EXPECT_FALSE(absl::StrContains(text, "rank -1")) << text;
        EXPECT_EQ(text == "TEXT", kind == Evidence::FACT) << text;
      }
    }
  }
}

TEST(WordsTest, EvidenceTextsUseTheFields) {
  Finding finding;
  const auto add = [&finding](Evidence::Kind kind) {
    Evidence* evidence = finding.add_evidence();
    evidence->set_kind(kind);
    evidence->add_ranks(5);
    return evidence;
  };
  const auto text = [&finding](const Evidence* evidence) {
    PutIntoWords(&finding);
    return evidence->text();
  };
  Evidence* stack = add(Evidence::STACK);
  stack->add_frames()->set_text("read");
  stack->add_frames()->set_text("load (train.py:88)");
  EXPECT_EQ(text(stack), "rank 5 stack: read < load (train.py:88)");
  Evidence* refused = add(Evidence::STACK);
  refused->set_refused("ptrace is refused");
  EXPECT_EQ(text(refused), "rank 5 stack: ptrace is refused");
  Evidence* state = add(Evidence::PROCESS_STATE);
  state->mutable_process()->set_kernel_function("futex_wait");
  state->mutable_process()->set_between_ns(2'000'000'000);
  state->mutable_process()->set_cpu_ns(500'000'000);
  EXPECT_EQ(text(state), "rank 5: in kernel function futex_wait, CPU 25% of the last 2.0 s");
  Evidence* waiting = add(Evidence::WAITING);
  waiting->add_ranks(6);
  waiting->set_operation("AllReduce #41");
  waiting->mutable_communicator()->set_label("dp_1");
  waiting->mutable_communicator()->set_size(4);
  EXPECT_EQ(text(waiting), "2 of 4 members of dp_1 wait in AllReduce #41");
  waiting->set_duration_ns(1'250'000'000);
  EXPECT_EQ(text(waiting), "2 of 4 members of dp_1 wait in AllReduce #41 for 1.2 s");
  Evidence* call = add(Evidence::LAST_CALL);
  call->set_operation("AllReduce #41");
  call->mutable_communicator()->set_label("dp_1");
  EXPECT_EQ(text(call), "the last recorded call of rank 5: AllReduce #41 on dp_1");
  Evidence* motion = add(Evidence::MOTION);
  motion->mutable_detail()->add_ranks(5);
  motion->mutable_detail()->set_number(1);
  motion->mutable_process()->set_between_ns(2'000'000'000);
  EXPECT_EQ(text(motion), "rank 5: almost no CPU time or I/O in 2.0 s, same stack twice");
  motion->mutable_process()->set_cpu_ns(-1);
  EXPECT_EQ(text(motion), "rank 5: same stack twice");
  motion->mutable_detail()->set_flag(true);
  motion->mutable_process()->set_io_bytes(2'500'000);
  EXPECT_EQ(text(motion), "rank 5: 2.5 MB of I/O in 2.0 s");
  motion->mutable_process()->set_cpu_ns(1'900'000'000);
  EXPECT_EQ(text(motion), "rank 5: 2.5 MB of I/O in 2.0 s, 1.9 s of CPU in 2.0 s");
  motion->mutable_process()->set_io_bytes(-1);
  motion->mutable_process()->set_cpu_ns(-1);
  motion->mutable_detail()->set_count(2);
  motion->mutable_detail()->set_of(1);
  EXPECT_EQ(text(motion), "rank 5: the stack changed between two samples; 2 of the named ranks are moving, 1 are not");
  Evidence* activity = add(Evidence::ACTIVITY);
  activity->mutable_detail()->add_ranks(5);
  activity->mutable_detail()->set_name("checkpoint");
  activity->mutable_detail()->set_number(1);
  activity->mutable_process()->set_kernel_function("rpc_wait_bit_killable");
  EXPECT_EQ(text(activity), "checkpoint on rank 5: a thread in uninterruptible sleep (D) in rpc_wait_bit_killable");
  activity->mutable_detail()->clear_number();
  activity->mutable_detail()->mutable_call()->set_site("write_data (filesystem.py:512)");
  activity->mutable_detail()->set_other_name("/lustre/3.pt");
  activity->mutable_detail()->set_count(2);
  EXPECT_EQ(text(activity),
            "checkpoint on rank 5: waits in the kernel function rpc_wait_bit_killable, in write_data "
            "(filesystem.py:512), /lustre/3.pt open for writing; and 2 more ranks");
  Evidence* step = add(Evidence::NETWORK_STEP);
  step->mutable_detail()->add_ranks(5);
  step->mutable_detail()->set_number(1);
  step->mutable_detail()->set_count(2);
  step->mutable_detail()->set_other_number(14);
  step->mutable_detail()->set_of(64);
  step->mutable_detail()->set_name("RecvWait");
  EXPECT_EQ(text(step), "rank 5 waits on the network for member 1 (channel 2, step 14 of 64, RecvWait)");
  step->mutable_detail()->add_ranks(3);
  step->set_duration_ns(31'000'000'000);
  EXPECT_EQ(text(step), "rank 5 waits on the network for rank 3 for 31.0 s (channel 2, step 14 of 64, RecvWait)");
}

TEST(WordsTest, EveryUnseenFactHasASentence) {
  Verdict verdict;
  for (int i = 1; i < NotSeen::Kind_descriptor()->value_count(); ++i) {
    NotSeen* not_seen = verdict.add_not_seen();
    not_seen->set_kind(static_cast<NotSeen::Kind>(NotSeen::Kind_descriptor()->value(i)->number()));
    *not_seen->mutable_detail() = Filled(Evidence::FACT, 3).detail();
  }
  PutIntoWords(&verdict);
  PutIntoWords(&verdict);
  ASSERT_EQ(verdict.blind_size(), verdict.not_seen_size());
  for (const std::string& text : verdict.blind()) ExpectWhole(text);
}

TEST(WordsTest, SeveralSuspectsComeWithAFactThatDistinguishesThem) {
  std::map<std::string, int> texts;
  for (int i = 0; i < FindingKind_descriptor()->value_count(); ++i) {
    const auto kind = static_cast<FindingKind>(FindingKind_descriptor()->value(i)->number());
    if (kind == FINDING_UNSPECIFIED) continue;
    SCOPED_TRACE(FindingKind_Name(kind));
    Finding finding = Of(REASON_NEVER_ENTERED, 2);
    finding.set_kind(kind);
    finding.set_confidence(0.5);
    PutIntoWords(&finding);
    EXPECT_FALSE(finding.tells_apart().empty());
    ++texts[finding.tells_apart()];
    finding.set_confidence(0.95);  // both are certainly at fault
    PutIntoWords(&finding);
    EXPECT_TRUE(finding.tells_apart().empty());
  }
  EXPECT_GE(texts.size(), 8u);
}

TEST(WordsTest, KnownFactsAboutTheCallAreInTheSummary) {
  Finding finding = Of(REASON_OUTSIDE_NCCL, 1);
  finding.mutable_detail()->clear_ranks();
  finding.mutable_detail()->set_duration_ns(12'000'000'000);
  PutIntoWords(&finding);
  EXPECT_EQ(finding.summary(),
            "never called AllReduce #7 on tp_3; it has been outside NCCL for 12 s, not waiting for a GPU");
  finding.mutable_detail()->Clear();
  PutIntoWords(&finding);
  EXPECT_EQ(finding.summary(), "is outside NCCL, not waiting for a GPU");
}

TEST(WordsTest, ASummaryContinuesItsRankOrHasASubject) {
  EXPECT_FALSE(SummaryHasSubject(Of(REASON_KILLED, 1)));
  EXPECT_FALSE(SummaryHasSubject(Of(REASON_GPU_OR_OTHER_CALL, 2)));
  EXPECT_TRUE(SummaryHasSubject(Of(REASON_STREAM_BLOCKED, 1)));
  EXPECT_TRUE(SummaryHasSubject(Of(REASON_ALL_IN, 2)));
  EXPECT_TRUE(SummaryHasSubject(Finding()));
}

TEST(WordsTest, SplitsNameBothSides) {
  Finding finding = Of(REASON_SPLITS_UNLIKE_PEER, 2);
  finding.mutable_detail()->set_name("rank 1 sends 231,248");
  finding.mutable_detail()->set_other_name("rank 2 expects 165,200");
  PutIntoWords(&finding);
  EXPECT_EQ(
      finding.summary(),
      "disagree about split sizes of an all-to-all, in AllReduce #7 on tp_3: rank 1 sends 231,248 elements, rank 2 "
      "expects 165,200; the record does not show which side has the wrong split sizes");
  finding.mutable_detail()->set_flag(true);
  PutIntoWords(&finding);
  EXPECT_EQ(
      finding.summary(),
      "passed wrong split sizes to an all-to-all: AllReduce #7 on tp_3: rank 1 sends 231,248 elements, rank 2 expects "
      "165,200");
}

TEST(WordsTest, LargeNumbersHaveSeparators) {
  Evidence evidence = Filled(Evidence::IN_CREATION, 24'575);
  evidence.mutable_detail()->set_of(24'576);
  EXPECT_EQ(EvidenceText(evidence), "24,575 of 24,576 ranks wait in AllReduce #7 on tp_3, the longest for 2.5 s");
}

TEST(WordsTest, DifferentEndsAreListedByRank) {
  Finding finding = Of(REASON_KILLED, 3);
  finding.set_kind(RANK_DEAD);
  finding.mutable_detail()->set_number(9);
  for (Culprit& culprit : *finding.mutable_culprits()) {
    culprit.set_condition(Culprit::KILLED);
    culprit.set_code(9);
  }
  PutIntoWords(&finding);
  EXPECT_EQ(finding.summary(), "were killed by signal 9 (SIGKILL)");
  finding.mutable_culprits(1)->set_condition(Culprit::EXITED);
  finding.mutable_culprits(1)->set_code(1);
  PutIntoWords(&finding);
  EXPECT_EQ(finding.summary(),
            "ended differently: ranks 0, 2 were killed by signal 9 (SIGKILL); rank 1 exited with status 1");
}

TEST(WordsTest, AChainNamesItsCommunicators) {
  ChainLink link;
  for (const int rank : {1, 3}) link.add_ranks(rank);
  link.add_waits_for(5);
  link.set_operation("AllReduce #41");
  const auto text = [&link] {
    PutIntoWords(&link);
    return link.text();
  };
  EXPECT_EQ(text(), "ranks 1, 3 wait in AllReduce #41 for rank 5");
  link.set_communicators(1);
  link.mutable_communicator()->set_label("dp_1 (ranks 1, 3, 5)");
  EXPECT_EQ(text(), "ranks 1, 3 wait in AllReduce #41 on dp_1 (ranks 1, 3, 5) for rank 5");
  link.set_communicators(8);
  EXPECT_EQ(text(), "ranks 1, 3 wait in AllReduce #41 on 8 groups for rank 5");
  link.set_size(4);
  EXPECT_EQ(text(), "ranks 1, 3 wait in AllReduce #41 on 8 groups of 4 ranks for rank 5");
  for (const char* name : {"dp_0", "dp_1", "dp_2"}) link.add_names(name);
  link.set_more_names(5);
  EXPECT_EQ(text(), "ranks 1, 3 wait in AllReduce #41 on dp_0, dp_1, dp_2 and 5 more for rank 5");
  link.set_what(ChainLink::RENDEZVOUS);
  link.set_communicators(0);
  link.clear_communicator();
  EXPECT_EQ(text(), "ranks 1, 3 wait in a rendezvous outside NCCL for rank 5");
  link.set_what(ChainLink::SET_UP);
  link.clear_waits_for();
  EXPECT_EQ(text(), "ranks 1, 3 wait in communicator set-up");
}

TEST(WordsTest, RuledOutCausesComeWithAReason) {
  Verdict verdict;
  NotTheCause* out = verdict.add_ruled_out();
  const auto text = [&] {
    PutIntoWords(&verdict);
    return NotTheCauseText(*out);
  };
  out->set_what(NotTheCause::NETWORK);
  EXPECT_EQ(text(), "NOT network: in each stuck operation, at least one member is missing");
  out->set_what(NotTheCause::CRASH);
  out->mutable_detail()->add_ranks(3);
  out->mutable_detail()->set_duration_ns(600'000'000'000);
  EXPECT_THAT(text(),
              StartsWith("NOT an independent crash: a watchdog ended 1 process (rank 3; SIGABRT) after 10 min"));
  out->mutable_detail()->add_ranks(4);
  out->mutable_detail()->set_flag(true);
  EXPECT_THAT(text(), HasSubstr("PyTorch's watchdog ended 2 processes (ranks 3, 4; SIGABRT)"));
  out->set_what(NotTheCause::HANG);
  out->set_not_yet(NotTheCause::CONNECTING);
  *out->mutable_detail() = Detail();
  out->mutable_detail()->mutable_call()->set_text("AllReduce #0");
  EXPECT_EQ(text(),
            "NOT a hang yet: all members are in AllReduce #0, the first operation of its communicator; look "
            "again in a minute");
  out->mutable_detail()->set_flag(true);
  EXPECT_THAT(text(), HasSubstr("all members that left data are in AllReduce #0"));
  out->set_what(NotTheCause::PERSISTENT_STRAGGLER);
  out->set_not_yet(NotTheCause::NOT_YET_UNSPECIFIED);
  out->mutable_detail()->set_count(6);
  out->mutable_detail()->set_value(0.25);
  out->mutable_detail()->set_duration_ns(2'500'000);
  EXPECT_EQ(text(),
            "NOT a persistent straggler: a different rank is late each time (6 ranks, none of them "
            "in more than 25 % of these cases; all delays together cost 2.5 ms per step)");
}

TEST(WordsTest, AStartNamesTheCreationThatWaitedLongest) {
  Verdict verdict;
  StartUp* start = verdict.mutable_start_up();
  start->set_communicators(17);
  start->set_creations_total(3);
  start->set_total_ns(90'000'000'000);
  start->set_waiting_ns(30'000'000'000);
  start->set_open(1);
  Creation* latest = start->mutable_latest();
  latest->set_call("CommSplit");
  latest->set_last_rank(7);
  latest->set_last_by_ns(29'000'000'000);
  latest->set_made(16);
  for (const char* name : {"tp_0", "tp_1", "tp_2"}) latest->add_names(name);
  start->set_latest_host("node3");
  start->set_latest_times(2);
  Creation* empty = start->add_creations();
  empty->set_parent("world");
  PutIntoWords(&verdict);
  EXPECT_EQ(start->text(),
            "17 communicators in 3 creations, 90.0 s from the first entry to the last return; 1 is not complete. On "
            "average a rank spent 30.0 s of this time waiting for the last rank to arrive. Rank 7 (node3) arrived last "
            "in 2 creations, by 29.0 s in ncclCommSplit of tp_0, tp_1 and 14 more.");
  EXPECT_EQ(empty->communicator().name(), "no group, from world");
}

TEST(WordsTest, EndedProcessesAreNotExamined) {
  Finding finding = Of(REASON_OUTSIDE_NCCL, 1);
  Culprit* culprit = finding.mutable_culprits(0);
  culprit->set_host("gpu036");
  culprit->set_pid(32082);
  PutIntoWords(&finding);
  EXPECT_NE(finding.advice_steps(0).find("`ssh gpu036 lockstep evidence 32082`"), std::string::npos);
  culprit->set_ended(true);
  PutIntoWords(&finding);
  for (const std::string& step : finding.advice_steps()) EXPECT_EQ(step.find("32082"), std::string::npos) << step;
  EXPECT_EQ(finding.advice_steps(0), "Read the end of its log: its process has ended.");
}

TEST(WordsTest, OnlyValidHostNamesGetCommands) {
  Finding finding = Of(REASON_PROCESS_STOPPED, 1);
  Culprit* culprit = finding.mutable_culprits(0);
  culprit->set_host("gpu036");
  culprit->set_pid(32082);
  PutIntoWords(&finding);
  EXPECT_EQ(finding.advice_steps(1), "If nobody still needs that, resume rank 0: `ssh gpu036 kill -CONT 32082`");
  for (const char* evil : {"-oProxyCommand=x", "a;reboot", "a`b`", "$(x)", "a b"}) {
    culprit->set_host(evil);
    PutIntoWords(&finding);
    EXPECT_EQ(finding.advice_steps(1), "If nobody still needs that, resume rank 0: `kill -CONT PID`") << evil;
  }
}

TEST(WordsTest, AJobWithoutGpusGetsNoAdviceAboutThem) {
  for (const Reason reason : {REASON_KILLED, REASON_WAITS_FOR_OTHER_WORK, REASON_NEVER_ENTERED, REASON_ALL_IN}) {
    Finding finding = Of(reason, 1);
    finding.add_rivals()->set_kind(Rival::OWN_GPU);
    finding.mutable_detail()->set_number(9);
    finding.mutable_culprits(0)->set_host("cpu1");
    finding.set_cpu_only(true);
    PutIntoWords(&finding);
    for (const char* word : {"nvidia-smi", "sbatch", "cordon"})
      EXPECT_FALSE(absl::StrContains(finding.advice(), word)) << finding.advice();
    for (const std::string& rival : finding.alternatives()) EXPECT_FALSE(absl::StrContains(rival, "GPU")) << rival;
  }
}

TEST(WordsTest, TheNumberOfHostsChangesTheAdvice) {
  Finding finding = Of(REASON_OUTSIDE_NCCL, 2);
  finding.set_activity("checkpoint");
  PutIntoWords(&finding);
  EXPECT_TRUE(absl::StrContains(finding.advice(), "1. Check its file system.")) << finding.advice();
  finding.set_activity_hosts(2);
  PutIntoWords(&finding);
  EXPECT_TRUE(absl::StrContains(finding.advice(), "Do not drain a host for this.")) << finding.advice();
}

TEST(WordsTest, ACallFromTheSameLineIsNoBranch) {
  Finding finding = Of(REASON_UNLIKE_MEMBERS, 1);
  finding.set_kind(MISMATCH_COUNT);
  for (const int rank : {0, 1}) {
    CallSite* site = finding.add_call_sites();
    site->add_ranks(rank);
    site->set_place("step (train.py:88)");
  }
  PutIntoWords(&finding);
  EXPECT_EQ(finding.advice_steps(0), "One line makes all these calls: compare its tensors' sizes.");
  finding.mutable_call_sites(1)->set_place("step (train.py:90)");
  PutIntoWords(&finding);
  EXPECT_THAT(finding.advice_steps(0), HasSubstr("look for a branch"));
}

TEST(WordsTest, SidesThatDisagreeCompareWhatDiffers) {
  Finding finding = Of(REASON_UNLIKE_PEER, 2);
  finding.set_kind(MISMATCH_COUNT);
  PutIntoWords(&finding);
  EXPECT_EQ(finding.advice_steps(0), "Compare the sizes that both sides computed before this call.");
}

TEST(WordsTest, ASkippedCallNamesTheCallThatWasPairedWithIt) {
  Finding finding = Of(REASON_SKIPPED, 1);
  Evidence* issued = finding.add_evidence();
  issued->set_kind(Evidence::ROLE_ISSUED);
  issued->mutable_detail()->set_name("AllReduce of 1 x float32");
  issued->mutable_detail()->set_other_name("AllReduce of 1 x float32");
  PutIntoWords(&finding);
  EXPECT_EQ(finding.advice_steps_size(), 1);
  issued->mutable_detail()->set_flag(true);
  PutIntoWords(&finding);
  ASSERT_EQ(finding.advice_steps_size(), 2);
  EXPECT_THAT(finding.advice_steps(1), HasSubstr("paired with the others' AllReduce #7"));
}

TEST(WordsTest, ARankInACircleHasNotCalledWhatTheOthersWaitIn) {
  Finding finding = Of(REASON_ELSEWHERE_IN_CIRCLE, 1);
  finding.mutable_detail()->mutable_other()->set_text("AllGather #9");
  PutIntoWords(&finding);
  EXPECT_EQ(finding.summary(),
            "has not called AllGather #9 on tp_3, where the others wait; it called AllReduce #7 on tp_3 instead: an "
            "earlier call is missing or extra");
}

TEST(WordsTest, AStuckOperationMayBeAQuestionOfOrder) {
  Finding finding = Of(REASON_ALL_IN, 2);
  PutIntoWords(&finding);
  EXPECT_THAT(finding.advice_steps(1), Not(HasSubstr("order")));
  finding.add_rivals()->set_kind(Rival::GPU_ORDER);
  PutIntoWords(&finding);
  EXPECT_THAT(finding.advice_steps(1), HasSubstr("NCCL_LAUNCH_ORDER_IMPLICIT=1"));
}

TEST(WordsTest, ACheckpointThatDidNotMoveIsNotWaitedFor) {
  Finding finding = Of(REASON_OUTSIDE_NCCL, 1);
  finding.set_activity("checkpoint");
  finding.mutable_culprits(0)->set_host("gpu036");
  finding.set_activity_mount("/ckpt (nfs4)");
  PutIntoWords(&finding);
  EXPECT_EQ(finding.advice_steps(0), "Check its file system: `ssh gpu036 timeout 5 df -h /ckpt`");
  EXPECT_THAT(finding.advice_steps(1), HasSubstr("wait"));
  finding.set_moving("not moving");
  finding.set_activity_mount("/ckpt/$(x) (nfs4)");
  PutIntoWords(&finding);
  EXPECT_EQ(finding.advice_steps(0), "Check its file system: `ssh gpu036 timeout 5 df -h`");
  EXPECT_THAT(finding.advice_steps(1), StartsWith("If it stays like this, restart"));
}

TEST(WordsTest, AStackAtCreationIsFollowedUp) {
  Finding finding = Of(REASON_NEVER_CAME_TO_CREATION, 1);
  PutIntoWords(&finding);
  EXPECT_THAT(finding.advice_steps(1), HasSubstr("launcher"));
  finding.set_place("log_metrics (train.py:402)");
  PutIntoWords(&finding);
  EXPECT_EQ(finding.advice_steps(1), "Find out what keeps the process there.");
}

TEST(WordsTest, AnAddressIsNoPlace) {
  Evidence evidence;
  evidence.set_kind(Evidence::WAITS_IN);
  evidence.mutable_detail()->add_ranks(1);
  CallRef* call = evidence.mutable_detail()->add_calls();
  call->set_text("AllReduce #7");
  call->set_on("tp_3");
  call->set_site("called from 5ca1ab1e+0x1c6ac8");
  EXPECT_EQ(EvidenceText(evidence), "rank 1 waits in AllReduce #7 on tp_3");
}

TEST(WordsTest, AProofIsOneLine) {
  Proof proof;
  proof.set_result(Proof::PROVED);
  proof.set_correction(Proof::CONTINUE);
  proof.add_corrected_ranks(2);
  proof.set_candidates(14);
  EXPECT_EQ(ProofText(proof),
            "proved by replay: the recorded calls would complete if rank 2 made its next calls; "
            "changes at 14 others tried instead would not help");
  proof.set_others_corrected(true);
  EXPECT_THAT(ProofText(proof), StartsWith("proved by replay: with the further faults corrected, too, the recorded "
                                           "calls would complete if rank 2 made its next calls; "));
  proof.set_others_corrected(false);
  proof.set_candidates(1);
  EXPECT_EQ(ProofText(proof),
            "proved by replay: the recorded calls would complete if rank 2 made its next calls; a change at "
            "the other rank tried instead would not help");
  proof.set_candidates(14);
  proof.add_excluded(3);
  EXPECT_EQ(ProofText(proof),
            "proved by replay: the recorded calls would complete if rank 2 made its next calls; "
            "changes at 13 others tried instead would not help; a change at rank 3 would also help, but it made the "
            "usual calls of "
            "its role");
  proof.add_excluded(4);
  EXPECT_THAT(ProofText(proof), HasSubstr("; a change at any of ranks 3, 4 would also help, but they made the "
                                          "usual calls of their roles"));
  proof.add_corrected_ranks(5);
  proof.set_corrected_calls(2);
  proof.set_any_one(true);
  proof.set_correction(Proof::ADD_CALLS);
  EXPECT_THAT(ProofText(proof),
              StartsWith("proved by replay: the recorded calls would complete with the 2 missing calls at any one of "
                         "ranks 2, 5; "));
}

TEST(WordsTest, AReplayThatProvesNothingSaysWhy) {
  Proof proof;
  proof.add_why_ranks(5);
  proof.add_corrected_ranks(5);
  proof.set_corrected_calls(1);
  std::set<std::string> texts;
  for (int why = Proof::Why_MIN + 1; why <= Proof::Why_MAX; ++why) {
    proof.set_result(why == Proof::TOO_MANY_RANKS ? Proof::NOT_TRIED : Proof::NOT_PROVED);
    proof.set_why(static_cast<Proof::Why>(why));
    texts.insert(ProofText(proof));
    EXPECT_FALSE(absl::EndsWith(ProofText(proof), ": ")) << Proof::Why_Name(proof.why());
  }
  EXPECT_EQ(texts.size(), static_cast<size_t>(Proof::Why_MAX));
  proof.set_result(Proof::NOT_PROVED);
  proof.set_why(Proof::STILL_HANGS);
  proof.set_correction(Proof::GPU_CONTINUES);
  Proof::Open* open = proof.mutable_open();
  open->set_count(3);
  open->set_exchange(true);
  open->set_sender(1);
  open->set_receiver(-1);
  EXPECT_EQ(ProofText(proof),
            "not proved by replay: the recorded calls would still hang if the GPU of rank 5 continued: 3 operations "
            "remain unfinished, among them a send from rank 1 to a rank on a new communicator");
}

}  // namespace
}  // namespace lockstep
