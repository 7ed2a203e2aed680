#include "collector/tools/top_view.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void AddRun(int32_t first, int32_t last, RankSet* set) {
  set->add_first(first);
  set->add_last(last);
}

JobStatus HungJob() {
  JobStatus job;
  job.mutable_job()->set_job("llama-70b");
  job.mutable_job()->set_restart_count(2);
  job.set_state("hung");
  job.set_since_real_ns(1'000'000'000);
  job.set_limit_ns(5'000'000'000);
  job.set_ranks(4088);
  job.set_ranks_expected(4096);
  job.set_agents(512);
  job.set_agents_silent(1);
  AddRun(1736, 1736, job.mutable_stopped());
  CommunicatorStatus* root = job.add_communicators();
  root->set_id(0xabc);
  root->set_name("tp_217");
  root->set_size(8);
  root->set_in(7);
  root->set_started(6);
  root->set_issued_max(9001423);
  root->set_doing("Broadcast #9,001,423");
  root->set_age_ns(14'000'000'000);
  root->set_limit_ns(5'000'000'000);
  AddRun(1736, 1736, root->mutable_missing());
  root->set_standing("root");
  CommunicatorStatus* victims = job.add_communicators();
  victims->set_name("dp_3");
  victims->set_size(512);
  victims->set_in(511);
  victims->set_doing("AllReduce #9,001,420");
  victims->set_standing("victim of tp_217");
  victims->set_alike(10000);
  victims->set_age_ns(13'000'000'000);
  job.set_communicators_total(10005);
  HostStatus* host = job.add_hosts();
  host->set_host("dgx0217");
  AddRun(1736, 1743, host->mutable_ranks());
  host->set_troubled(1);
  HostStatus* silent = job.add_hosts();
  silent->set_host("dgx0391");
  silent->set_silent(true);
  AddRun(3128, 3135, silent->mutable_ranks());
  job.set_hosts_total(512);
  job.add_blind("dgx0391: agent silent");
  return job;
}

std::string Screen(const std::vector<TopLine>& lines) {
  std::string text;
  for (const TopLine& line : lines) text += line.text + "\n";
  return text;
}

TEST(TopViewTest, FitsEveryWindowSize) {
  for (const size_t width : {40, 80, 81, 132, 300}) {
    for (const size_t height : {10, 24, 60}) {
      for (int group = 0; group < kTopGroups; ++group) {
        TopState state;
        state.group = static_cast<TopGroup>(group);
        for (const size_t jobs : {1, 2, 100}) {
          const std::vector<TopLine> lines = RenderTop(std::vector<JobStatus>(jobs, HungJob()), state, width, height);
          EXPECT_EQ(lines.size(), height);
          for (const TopLine& line : lines) EXPECT_LE(line.text.size(), width) << line.text;
        }
      }
    }
  }
}

TEST(TopViewTest, NamesTheMissingRankAt80Columns) {
  TopState state;
  state.now_real_ns = 15'000'000'000;
  const std::vector<TopLine> lines = RenderTop({HungJob()}, state, 80, 24);
  const std::string screen = Screen(lines);
  EXPECT_THAT(screen, HasSubstr("llama-70b restart 2"));
  EXPECT_THAT(screen, HasSubstr("hung for 14 s"));
  EXPECT_THAT(screen, HasSubstr("ranks 4,088 of 4,096"));
  EXPECT_THAT(screen, HasSubstr("stopped 1 (1736)"));
  EXPECT_THAT(screen, HasSubstr("dp_3 x10000"));
  EXPECT_THAT(screen, HasSubstr("and 4 more communicators"));
  EXPECT_THAT(screen, HasSubstr("dgx0391: agent silent"));
  const auto root =
      std::find_if(lines.begin(), lines.end(), [](const TopLine& line) { return line.text.rfind("tp_217", 0) == 0; });
  ASSERT_NE(root, lines.end());
  EXPECT_EQ(root->style, TopStyle::kBad);
  EXPECT_THAT(root->text, HasSubstr("1736 [root]"));
  EXPECT_THAT(root->text, HasSubstr(" 7/8   6 Broadcast #9,001,423  "));
  EXPECT_THAT(screen, HasSubstr("511/512   - AllReduce #9,001,420 "));
  EXPECT_THAT(screen, HasSubstr("[victim of tp_217]"));
  EXPECT_THAT(screen, HasSubstr("alive 4,088   dead 0"));
}

TEST(TopViewTest, AllJobsAreListedWithTheirLastVerdicts) {
  JobStatus moving;
  moving.mutable_job()->set_job("eval");
  moving.set_state("moving");
  moving.set_ranks(8);
  moving.set_ranks_expected(8);
  JobStatus hung = HungJob();
  hung.mutable_last_incident()->set_text("HUNG: rank 1736 never called Broadcast\nwhy: it is stopped");
  TopState state;
  state.now_real_ns = 15'000'000'000;
  state.job = 1;
  state.calls_a_second = {812.4, 0};
  const std::string list = Screen(RenderTop({moving, hung}, state, 100, 24));
  EXPECT_THAT(list, HasSubstr("lockstep top  2 jobs"));
  EXPECT_THAT(list, HasSubstr("SLOWEST RANK\n  eval                moving       -         8/8     812 unknown\n"));
  EXPECT_THAT(list, HasSubstr("> llama-70b restart 2 hung       14s 4,088/4,096     0.0 1736 in tp_217\n"
                              "    HUNG: rank 1736 never called Broadcast\n"));
  EXPECT_THAT(list, Not(HasSubstr("it is stopped")));
  EXPECT_THAT(list, Not(HasSubstr("COMMUNICATOR")));
  state.all_jobs = false;
  const std::string one = Screen(RenderTop({moving, hung}, state, 100, 24));
  EXPECT_THAT(one, HasSubstr("llama-70b restart 2  [2/2]"));
  EXPECT_THAT(one, HasSubstr("COMMUNICATOR"));
}

TEST(TopViewTest, WhatIsNotMeasuredIsUnknown) {
  JobStatus job;
  job.mutable_job()->set_job("eval");
  job.set_state("moving");
  EXPECT_THAT(TopText({job}, TopState()), HasSubstr("\ncalls/s unknown   slowest rank unknown\n"));
  EXPECT_THAT(TopJson(job, -1), HasSubstr(",\"calls_a_second\":null,\"slowest_ranks\":null}"));
  Verdict* verdict = job.mutable_last_incident()->mutable_verdict();
  verdict->set_verdict(VERDICT_SLOW);
  verdict->add_findings()->add_culprit_ranks(12);
  EXPECT_THAT(TopText({job}, TopState()), HasSubstr("slowest rank 12 (from the last verdict)"));
  EXPECT_THAT(TopJson(job, 41.5), HasSubstr(",\"calls_a_second\":41.500,\"slowest_ranks\":[12]}"));
  verdict->set_verdict(VERDICT_HUNG);
  EXPECT_THAT(TopText({job}, TopState()), HasSubstr("slowest rank unknown")) << "it moves again since";
  EXPECT_THAT(TopJson(HungJob(), 0), HasSubstr("\"slowest_ranks\":[1736]}"));
}

TEST(TopViewTest, TheSelectedJobStaysVisible) {
  std::vector<JobStatus> jobs(100);
  for (int i = 0; i < 100; ++i) jobs[static_cast<size_t>(i)].mutable_job()->set_job("job" + std::to_string(i));
  for (const size_t marked : {0, 57, 99}) {
    TopState state;
    state.job = marked;
    EXPECT_THAT(Screen(RenderTop(jobs, state, 80, 24)), HasSubstr("\n> job" + std::to_string(marked) + " "));
  }
}

TEST(TopViewTest, RanksCanBeSortedByTroubleRankOrHost) {
  TopState state;
  state.group = TopGroup::kRanks;
  JobStatus job = HungJob();
  job.set_ranks(4096);
  std::vector<TopLine> lines = RenderTop({job}, state, 100, 40);
  std::string screen = Screen(lines);
  EXPECT_THAT(screen, HasSubstr("MISSING FROM\n   1736 dgx0217                  stopped         14s tp_217\n"
                                "   3128 dgx0391                  agent silent      - \n"));
  EXPECT_THAT(screen, HasSubstr("and 4,080 more ranks, without trouble"));
  state.order = TopOrder::kRank;
  AddRun(7, 7, job.mutable_dead());
  EXPECT_THAT(Screen(RenderTop({job}, state, 100, 40)),
              HasSubstr("MISSING FROM\n      7 -                        dead"));
  state.order = TopOrder::kHost;
  EXPECT_THAT(Screen(RenderTop({job}, state, 100, 40)),
              HasSubstr("dead              - \n   1736 dgx0217                  stopped"));
}

TEST(TopViewTest, RestartsInsideTheProcessesAreCounted) {
  JobStatus job = HungJob();
  EXPECT_THAT(TopText({job}, TopState()), Not(HasSubstr("inside its processes")));
  TopState state;
  state.now_real_ns = 200'000'000'000;
  job.set_restarts_inside(1);
  job.set_restarted_real_ns(80'000'000'000);
  EXPECT_THAT(Screen(RenderTop({job}, state, 80, 24)), HasSubstr("\nrestarted inside its processes once, 2 min ago\n"));
  job.set_restarts_inside(1003);
  EXPECT_THAT(Screen(RenderTop({job}, state, 80, 24)),
              HasSubstr("\nrestarted inside its processes 1,003 times, last 2 min ago\n"));
  const std::string narrow = Screen(RenderTop({job}, state, 40, 24));
  EXPECT_THAT(narrow, HasSubstr("\nrestarted inside its processes 1,003\n  times, last 2 min ago\n"));
  EXPECT_THAT(narrow, HasSubstr("1736 [root]")) << "the missing rank must still be visible";
}

TEST(TopViewTest, WithoutMarkersThereIsNoGpuColumn) {
  JobStatus job = HungJob();
  EXPECT_THAT(TopText({job}, TopState()), HasSubstr("IN GPU IN FLIGHT"));
  job.mutable_communicators(0)->clear_started();
  EXPECT_THAT(TopText({job}, TopState()), HasSubstr("IN IN FLIGHT"));
}

TEST(TopViewTest, LateArrivalsHardwareAndDisagreementsFitIn80Columns) {
  JobStatus job = HungJob();
  job.add_late_arrivals("12 s ago: tp_217 #9,001,423: rank 1736 missing for 5.1 s (limit 5.0 s)");
  for (int i = 0; i < 20; ++i)
    job.add_late_arrivals("13 s ago: dp_3 #7: ranks 0-3 in it and unfinished for 5.1 s (limit 5.0 s)");
  job.add_hardware(
      "30 s ago: dgx0217: Xid 79 on GPU 0: NVRM: Xid (PCI:0000:1b:00): 79, pid=48211, GPU has fallen off the bus.");
  job.add_disagreements("2 s ago: rank 5 of dp_0 does otherwise");
  job.add_blind("hardware errors not read on dgx0001, dgx0002: /dev/kmsg: Operation not permitted");
  const std::vector<TopLine> lines = RenderTop({job}, TopState(), 80, 60);
  for (const TopLine& line : lines) EXPECT_LE(line.text.size(), 80u);
  const std::string screen = Screen(lines);
  EXPECT_THAT(screen, HasSubstr("\n  12 s ago: tp_217 #9,001,423: rank 1736 missing for 5.1 s (limit 5.0 s)\n"));
  EXPECT_THAT(screen, HasSubstr("  and 13 more"));
  EXPECT_THAT(screen, HasSubstr("  30 s ago: dgx0217: Xid 79 on GPU 0: NVRM: Xid"));
  EXPECT_THAT(screen, HasSubstr("RANKS DISAGREE, but nothing hangs so far\n  2 s ago: rank 5"));
  EXPECT_THAT(screen, HasSubstr("hardware errors not read on dgx0001, dgx0002: /dev/kmsg"));
}

TEST(TopViewTest, GroupsByRoleHostAndRail) {
  TopState state;
  state.group = TopGroup::kRoles;
  EXPECT_THAT(Screen(RenderTop({HungJob()}, state, 80, 24)), HasSubstr("tp_*"));
  state.group = TopGroup::kHosts;
  const std::string hosts = Screen(RenderTop({HungJob()}, state, 80, 24));
  EXPECT_THAT(hosts, HasSubstr("SILENT"));
  EXPECT_THAT(hosts, HasSubstr("and 510 more hosts"));
  state.group = TopGroup::kRails;
  const std::vector<TopLine> rails = RenderTop({HungJob()}, state, 80, 24);
  const auto first =
      std::find_if(rails.begin(), rails.end(), [](const TopLine& line) { return line.text.rfind("0 ", 0) == 0; });
  ASSERT_NE(first, rails.end());
  EXPECT_THAT(first->text, HasSubstr("1736"));
  EXPECT_EQ(first->style, TopStyle::kLate);
  state.group = TopGroup::kStages;
  EXPECT_THAT(Screen(RenderTop({HungJob()}, state, 80, 24)), HasSubstr("its stages are unknown"));
  JobStatus staged = HungJob();
  for (int32_t stage = 0; stage < 2; ++stage) {
    StageStatus* line = staged.add_stages();
    line->set_stage(stage);
    AddRun(stage * 2048, stage * 2048 + 2047, line->mutable_ranks());
  }
  const std::string stages = Screen(RenderTop({staged}, state, 80, 24));
  EXPECT_THAT(stages, HasSubstr("0        2,048         1 1736"));
  EXPECT_THAT(stages, HasSubstr("1        2,048         0"));
}

TEST(TopViewTest, ControlCharactersFromTheNetworkAreRemoved) {
  JobStatus job = HungJob();
  job.mutable_job()->set_job("x\x1b[2J\x07");
  job.mutable_communicators(0)->set_name("evil\x1b]0;t\x07");
  job.mutable_communicators(0)->set_doing("\n\n\n");
  job.add_blind("a\tb\x80");
  job.set_state("\x1b[31mhung");
  TopState state;
  state.endpoint = "\x1b[H";
  state.prompt = "\r";
  for (const TopLine& line : RenderTop({job}, state, 100, 40)) {
    for (const char c : line.text) EXPECT_TRUE(c >= ' ' && c <= '~') << line.text;
  }
  EXPECT_THAT(TopText({job}, TopState()), Not(HasSubstr("\x1b")));
}

TEST(TopViewTest, HostileSetsAreRejected) {
  JobStatus job = HungJob();
  AddRun(5, 2, job.mutable_dead());
  AddRun(-7, 2147483647, job.mutable_in_d());
  AddRun(0, 2147483647, job.mutable_hosts(0)->mutable_ranks());
  TopState state;
  state.group = TopGroup::kRails;
  EXPECT_EQ(RenderTop({job}, state, 80, 24).size(), 24u);
}

TEST(TopViewTest, ScrollsOnlyToTheEnd) {
  JobStatus job = HungJob();
  for (int i = 0; i < 200; ++i)
    job.add_communicators()->set_name("last_" + std::string(1, static_cast<char>('a' + i % 26)));
  TopState state;
  state.scroll = 100000;
  const std::string screen = Screen(RenderTop({job}, state, 80, 24, &state.scroll));
  EXPECT_THAT(screen, HasSubstr("agent silent"));
  EXPECT_THAT(screen, Not(HasSubstr("\ntp_217")));
  // One line up from the end is visible at once.
  --state.scroll;
  EXPECT_NE(Screen(RenderTop({job}, state, 80, 24)), screen);
}

TEST(TopViewTest, LongSentencesAreWrappedAndNotCut) {
  TopState state;
  state.text = {std::string(70, 'a') + std::string(20, 'b') + "END"};
  state.text_title = "why";
  const std::string screen = Screen(RenderTop({HungJob()}, state, 80, 24));
  EXPECT_THAT(screen, HasSubstr("END"));
}

TEST(TopViewTest, ReportsASilentCollectorAndAnEmptyList) {
  TopState state;
  state.silent_ns = 7'000'000'000;
  EXPECT_THAT(Screen(RenderTop({HungJob()}, state, 80, 24)), HasSubstr("NO RESPONSE for 7.0 s"));
  EXPECT_THAT(Screen(RenderTop({}, TopState(), 80, 24)), HasSubstr("The collector knows no job"));
  state.job = 9;
  EXPECT_THAT(Screen(RenderTop({HungJob()}, state, 80, 24)), HasSubstr("llama-70b"));
}

TEST(TopViewTest, OnlyReportsAreWrappedAgain) {
  TopState state;
  state.text = {"rank 1736", "  read", "    main",
                "    a very long name of a function that is wider than this narrow window"};
  std::vector<std::string> shown;
  for (const TopLine& line : RenderTop({HungJob()}, state, 60, 24)) shown.push_back(line.text);
  const std::vector<std::string> expected = {"rank 1736", "  read", "    main",
                                             "    a very long name of a function that is wider than this",
                                             "      narrow window"};
  EXPECT_EQ(
      std::vector<std::string>(shown.begin() + 2, shown.begin() + 2 + static_cast<std::ptrdiff_t>(expected.size())),
      expected);
}

TEST(TopView, ANarrowWindowShowsTheMissingRanks) {
  for (const size_t width : {40u, 60u, 71u, 80u}) {
    std::string all;
    for (const TopLine& line : RenderTop({HungJob()}, TopState(), width, 40)) {
      EXPECT_LE(line.text.size(), width);
      all += line.text + "\n";
    }
    EXPECT_NE(all.find("MISSING"), std::string::npos) << width << "\n" << all;
    EXPECT_NE(all.find("heartbeat lag"), std::string::npos) << width << "\n" << all;
  }
}

}  // namespace
}  // namespace lockstep
