#include "analyzer/words/words.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

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

// A sentence is complete: no part of it is empty.
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

TEST(WordsTest, ASetOfRanksAlwaysComesWithAWayToTellThemApart) {
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
    finding.set_confidence(0.95);  // both are at fault, and that is sure
    PutIntoWords(&finding);
    EXPECT_TRUE(finding.tells_apart().empty());
  }
  EXPECT_GE(texts.size(), 8u);
}

TEST(WordsTest, WhatIsKnownOfTheCallIsSaid) {
  Finding finding = Of(REASON_OUTSIDE_NCCL, 1);
  finding.mutable_detail()->clear_ranks();
  finding.mutable_detail()->set_duration_ns(12'000'000'000);
  PutIntoWords(&finding);
  EXPECT_EQ(finding.summary(),
            "never entered AllReduce #7 on tp_3; its process is in no NCCL call and no GPU wait for 12 s");
  finding.mutable_detail()->Clear();
  PutIntoWords(&finding);
  EXPECT_EQ(finding.summary(), "its process is in no NCCL call and no GPU wait");
}

TEST(WordsTest, ProcessesThatEndedDifferentlyAreSaidOneByOne) {
  Finding finding = Of(REASON_KILLED, 3);
  finding.set_kind(RANK_DEAD);
  finding.mutable_detail()->set_number(9);
  for (Culprit& culprit : *finding.mutable_culprits()) culprit.set_state("died of signal 9 (SIGKILL)");
  PutIntoWords(&finding);
  EXPECT_EQ(finding.summary(), "died of signal 9 (SIGKILL)");
  finding.mutable_culprits(1)->set_state("exited with status 1");
  PutIntoWords(&finding);
  EXPECT_EQ(finding.summary(), "ended differently: ranks 0, 2 died of signal 9 (SIGKILL); rank 1 exited with status 1");
}

TEST(WordsTest, CommandsAreOfHostNamesAlone) {
  Finding finding = Of(REASON_PROCESS_STOPPED, 1);
  Culprit* culprit = finding.mutable_culprits(0);
  culprit->set_host("gpu036");
  culprit->set_pid(32082);
  PutIntoWords(&finding);
  EXPECT_EQ(finding.advice_steps(0), "Continue it: `ssh gpu036 kill -CONT 32082`");
  for (const char* evil : {"-oProxyCommand=x", "a;reboot", "a`b`", "$(x)", "a b"}) {
    culprit->set_host(evil);
    PutIntoWords(&finding);
    EXPECT_EQ(finding.advice_steps(0), "Continue it: kill -CONT PID") << evil;
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

TEST(WordsTest, WhereAProcessIsSeenDecidesTheAdvice) {
  Finding finding = Of(REASON_OUTSIDE_NCCL, 2);
  finding.set_activity("checkpoint");
  PutIntoWords(&finding);
  EXPECT_TRUE(absl::StrContains(finding.advice(), "1. Look at the file system that the checkpoint goes to"))
      << finding.advice();
  finding.set_activity_hosts(2);
  PutIntoWords(&finding);
  EXPECT_TRUE(absl::StrContains(finding.advice(), "Do not drain a host for it.")) << finding.advice();
}

}  // namespace
}  // namespace lockstep
