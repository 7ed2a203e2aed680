#include "analyzer/report/report.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/report/recommended.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "analyzer/report/checkpoint.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/start.h"
#include "analyzer/testing/report_samples.h"

namespace lockstep {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n'); }

TEST(Report, JsonHasEveryKeyOfTheContract) {
  const nlohmann::json json = nlohmann::json::parse(ReportJson(MakeHung()));
  EXPECT_EQ(json["verdict"], "HUNG");
  EXPECT_EQ(json["ranks_expected"], 8);
  EXPECT_EQ(json["ranks_read"], 8);
  EXPECT_EQ(json["stalled_ns"], 31'000'000'000);
  EXPECT_TRUE(json["problems"].is_array());
  const nlohmann::json& finding = json["findings"][0];
  for (const char* key : {"kind",
                          "culprit_ranks",
                          "culprits",
                          "communicator",
                          "operation",
                          "sequence",
                          "victim_count",
                          "chain",
                          "confidence",
                          "evidence",
                          "advice",
                          "summary",
                          "refuted_by",
                          "cause",
                          "common_factor",
                          "activity",
                          "moving",
                          "alternatives",
                          "tells_apart",
                          "cost_ns_per_step",
                          "cost_uncertainty_ns",
                          "pattern",
                          "slowdown",
                          "hypothesis",
                          "graph_replay"}) {
    EXPECT_TRUE(finding.contains(key)) << key;
  }
  for (const char* key :
       {"clocks", "arrivals", "bandwidths", "start_up", "not_measured", "blind", "not_the_cause", "job"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(finding["kind"], "HOST_STALL");
  EXPECT_EQ(finding["culprit_ranks"], nlohmann::json({5}));
  EXPECT_EQ(finding["culprits"][0]["gpu"], 5);
  EXPECT_EQ(finding["communicator"]["size"], 4);
  EXPECT_EQ(finding["sequence"], 41);
  EXPECT_DOUBLE_EQ(finding["confidence"], 0.93);
  EXPECT_EQ(finding["chain"][0]["ranks"], nlohmann::json({1, 3, 7}));
}

TEST(Report, AProcessStateHasItsOwnRowOnceItsLetterIsKnown) {
  Evidence evidence;
  evidence.set_kind(Evidence::PROCESS_STATE);
  EXPECT_FALSE(HasOwnRow(evidence));
  evidence.mutable_process()->set_state("S");
  EXPECT_TRUE(HasOwnRow(evidence));
}

TEST(Report, JsonOfAnEmptyVerdictHasTheKeysToo) {
  Verdict verdict;
  verdict.add_findings();
  const nlohmann::json json = nlohmann::json::parse(ReportJson(verdict));
  EXPECT_EQ(json["verdict"], "UNSPECIFIED");
  EXPECT_EQ(json["findings"][0]["kind"], "UNSPECIFIED");
  EXPECT_EQ(json["findings"][0]["communicator"]["name"], "");
  EXPECT_TRUE(json["findings"][0]["culprit_ranks"].is_array());
}

TEST(Report, JsonDoesNotDependOnTheOrderOfProblems) {
  Verdict a = MakeHung(), b = MakeHung();
  for (int i = 0; i < 3; ++i) {
    a.add_problems()->set_rank(i);
    b.add_problems()->set_rank(2 - i);
  }
  EXPECT_EQ(ReportJson(a), ReportJson(b));
}

TEST(Report, JsonSurvivesBytesThatAreNoText) {
  Verdict verdict = MakeHung();
  verdict.mutable_findings(0)->mutable_culprits(0)->set_host("bad\xff\x1b[31m");
  const std::string json = ReportJson(verdict);
  EXPECT_TRUE(nlohmann::json::accept(json));
  EXPECT_THAT(json, Not(HasSubstr("\x1b")));
}

TEST(Report, AProofStandsBesideTheConfidence) {
  const Bundle bundle = MakeBundle(8);
  Verdict verdict = MakeHung();
  EXPECT_FALSE(nlohmann::json::parse(ReportJson(verdict))["findings"][0].contains("proof"));
  Proof* proof = verdict.mutable_findings(0)->mutable_proof();
  proof->set_result(Proof::PROVED);
  proof->set_text("proved by replay: it completes");
  EXPECT_THAT(Lines(VerdictText(verdict, bundle)), Contains("           proved by replay: it completes"));
  EXPECT_THAT(Lines(ReportText(verdict, bundle)), Contains("           proved by replay: it completes"));
  EXPECT_THAT(ReportHtml(verdict, bundle), HasSubstr("<p>proved by replay: it completes</p>"));
  const nlohmann::json json = nlohmann::json::parse(ReportJson(verdict));
  EXPECT_EQ(json["findings"][0]["proof"]["result"], "PROVED");
  EXPECT_EQ(json["findings"][0]["proof"]["text"], "proved by replay: it completes");
  // A replay without a result does not help a reader in a hurry.
  proof->set_result(Proof::NOT_JUDGED);
  EXPECT_THAT(VerdictText(verdict, bundle), Not(HasSubstr("by replay")));
  EXPECT_THAT(ReportText(verdict, bundle), HasSubstr("by replay"));
}

TEST(Report, TextSaysWhoWhatAndWhyFirst) {
  Bundle bundle = MakeBundle(8);
  Rank& culprit = bundle.ranks[5];
  culprit.process.state = "S";
  culprit.process.cpu_ns_between_samples = 0;
  culprit.process.io_bytes_between_samples = 0;
  culprit.process.sample_gap_ns = 1'000'000'000;
  culprit.process.stack = {"read", "load_batch"};
  const std::string text = ReportText(MakeHung(), bundle);
  const std::vector<std::string> lines = Lines(text);
  EXPECT_EQ(lines[0],
            "HUNG 31 s  rank 5 (node0, GPU 5): never called AllReduce #41 on dp_1. 7 other ranks are waiting for");
  EXPECT_THAT(lines, Contains("  group    dp_1, 4 ranks, id 00000000000000ab"));
  EXPECT_THAT(lines, Contains("  cause    host"));
  EXPECT_THAT(lines, Contains("  stack    read < load_batch"));
  EXPECT_THAT(lines, Contains("  moving   no: 0 ms of CPU, 0 bytes of I/O in 1.0 s"));
  EXPECT_THAT(lines, Contains("  chain    ranks 1, 3, 7 wait in AllReduce #41 on dp_1 for rank 5"));
  EXPECT_THAT(lines, Contains("  NOT      network: no collective has all members inside"));
  EXPECT_THAT(lines, Contains("  sure     high; would be refuted by its own record of it"));
  EXPECT_THAT(lines, Contains("  do       1. Look at the stacks."));
  EXPECT_THAT(lines, Contains("           2. Restart."));
  EXPECT_THAT(lines, Contains("  DATA     8 of 8 ranks read"));
  EXPECT_THAT(lines, Contains("  files    /incident"));
}

TEST(Report, TheFirstScreenHasOneSizeAndNamesTheNextStep) {
  Bundle bundle;
  for (const Verdict& verdict : {MakeHuge(&bundle), MakeRich(&bundle), MakeHostile(&bundle)}) {
    const std::vector<std::string> lines = Lines(VerdictText(verdict, bundle));
    EXPECT_LE(lines.size(), 25u);  // the last one is empty
    for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
  }
  const std::vector<std::string> lines = Lines(VerdictText(MakeHung(), MakeBundle(8)));
  EXPECT_EQ(lines[0], "HUNG 31 s  rank 5 (node0, GPU 5): never called AllReduce #41 on dp_1. 7 other");
  EXPECT_EQ(lines[1], "           ranks are waiting for it.");
  EXPECT_EQ(lines[2], "  do       1. Look at the stacks.");
  EXPECT_THAT(VerdictText(MakeHung(), MakeBundle(8), {}, {.width = 80, .color = true}),
              StartsWith("\x1b[1;31mHUNG\x1b[0m"));
}

TEST(Report, TheFirstScreenAccountsForEveryRankThatWaits) {
  Verdict verdict = MakeHung();
  Finding* finding = verdict.mutable_findings(0);
  const auto link = [finding](std::vector<int32_t> ranks, int32_t waits_for) {
    ChainLink* out = finding->add_chain();
    for (const int32_t rank : ranks) out->add_ranks(rank);
    out->add_waits_for(waits_for);
    out->set_operation("AllReduce #7");
  };
  const auto screen = [&] { return VerdictText(verdict, MakeBundle(8)); };
  finding->set_victim_count(3);
  EXPECT_THAT(screen(), Not(HasSubstr(" more rank")));
  link({2}, 5);
  finding->set_victim_count(4);
  EXPECT_THAT(screen(), Not(HasSubstr(" more rank")));
  link({4}, 5);
  finding->set_victim_count(5);
  EXPECT_THAT(screen(), HasSubstr("           1 more rank waits for rank 5\n"));
  link({0, 6}, 4);
  finding->set_victim_count(1000);
  EXPECT_THAT(screen(), HasSubstr("           996 more ranks wait: 995 behind other waiting ranks, 1 for rank 5\n"));
}

TEST(Report, TheSendAndTheReceiveOfAPairAreOneLink) {
  Verdict verdict = MakeHung();
  Finding* finding = verdict.mutable_findings(0);
  finding->clear_chain();
  for (const char* operation : {"Recv #4", "Send #4"}) {
    ChainLink* link = finding->add_chain();
    link->add_ranks(2);
    link->add_waits_for(5);
    link->set_operation(operation);
  }
  finding->set_victim_count(2);
  const std::string text = VerdictText(verdict, MakeBundle(8));
  EXPECT_THAT(text, HasSubstr("rank 2 waits for rank 5 in Recv #4 and Send #4"));
  EXPECT_THAT(text, HasSubstr("1 more rank waits behind other waiting ranks"));
}

TEST(Report, AnEndedRankNeedsNoReplayToSayThatItsCallsAreMissing) {
  Verdict verdict = MakeHung();
  Finding* finding = verdict.mutable_findings(0);
  finding->mutable_proof()->set_result(Proof::PROVED);
  finding->mutable_proof()->set_text("PROOF");
  EXPECT_THAT(VerdictText(verdict, MakeBundle(8)), HasSubstr("PROOF"));
  finding->set_kind(RANK_DEAD);
  EXPECT_THAT(VerdictText(verdict, MakeBundle(8)), Not(HasSubstr("PROOF")));
}

TEST(Report, AnOperationThatDoesNotFinishIsNoCause) {
  Verdict verdict = MakeHung();
  Finding* finding = verdict.mutable_findings(0);
  for (const double confidence : {0.4, 0.7}) {
    finding->set_confidence(confidence);
    finding->set_kind(COLLECTIVE_STUCK);
    EXPECT_THAT(Headline(*finding), StartsWith("cause open: "));
    finding->set_kind(HOST_STALL);
    EXPECT_THAT(Headline(*finding), Not(HasSubstr("cause open")));
  }
}

TEST(Report, OnlyEvidenceIsAReason) {
  Verdict verdict = MakeHung();
  EXPECT_THAT(VerdictText(verdict, MakeBundle(8)), Not(HasSubstr("PID ")));
  EXPECT_THAT(VerdictText(verdict, MakeBundle(8)), HasSubstr("not the network (each stuck operation"));
  verdict.mutable_findings(0)->set_kind(MISMATCH_COUNT);
  EXPECT_THAT(VerdictText(verdict, MakeBundle(8)), Not(HasSubstr("not the network")));
}

TEST(Report, ASecondProvenFindingComesWithItsOwnSteps) {
  Verdict verdict = MakeHung();
  Finding* second = verdict.add_findings();
  *second = verdict.findings(0);
  second->set_kind(GPU_STALL);
  second->set_summary("its GPU has not started AllReduce #41 on dp_1");
  second->set_advice("1. Read the GPU's errors.");
  second->clear_advice_steps();
  second->add_advice_steps("Read the GPU's errors.");
  EXPECT_THAT(VerdictText(verdict, MakeBundle(8)), HasSubstr("  and do   1. Read the GPU's errors.\n"));
  // The first lines announce another rank, even where the headline must leave something out.
  EXPECT_THAT(VerdictText(verdict, MakeBundle(8)), Not(HasSubstr("Also at fault")));
  second->set_culprit_ranks(0, 6);
  EXPECT_THAT(Lines(VerdictText(verdict, MakeBundle(8)))[1], HasSubstr("Also at fault: rank 6."));
  EXPECT_THAT(ReportText(verdict, MakeBundle(8)), HasSubstr("Also at fault: rank 6."));
  EXPECT_THAT(ReportHtml(verdict, MakeBundle(8)), HasSubstr("Also at fault: rank 6."));
  Culprit* culprit = second->mutable_culprits(0);
  culprit->set_rank(6);
  culprit->set_host("node1");
  culprit->set_gpu(2);
  EXPECT_THAT(Lines(VerdictText(verdict, MakeBundle(8)))[1], HasSubstr("Also at fault: rank 6 (node1, GPU 2)."));
  second->set_hypothesis(true);
  EXPECT_THAT(VerdictText(verdict, MakeBundle(8)), Not(HasSubstr("and do")));
  EXPECT_THAT(Lines(VerdictText(verdict, MakeBundle(8)))[1], HasSubstr("Also suspected: rank 6 (node1, GPU 2)."));
}

TEST(Report, OnlyAHungVerdictSaysHungSince) {
  Verdict verdict = MakeHung();
  verdict.set_hung_since_real_ns(1'795'702'442'000'000'000);
  EXPECT_THAT(VerdictText(verdict, MakeBundle(8)), HasSubstr("hung since 2026-"));
  verdict.set_verdict(VERDICT_CRASHED);
  EXPECT_THAT(VerdictText(verdict, MakeBundle(8)), HasSubstr("no progress since 2026-"));
}

TEST(Report, TextRowsHaveAFixedOrder) {
  Verdict verdict = MakeHung();
  Bundle bundle = MakeBundle(8);
  Finding* finding = verdict.mutable_findings(0);
  finding->set_activity("checkpoint");
  finding->set_moving("not moving");
  finding->add_alternatives("the file system of node0 is slow");
  finding->set_tells_apart("a second sample of its I/O");
  finding->set_hypothesis(true);
  verdict.add_blind("GPU progress markers were off: what the GPUs did is not seen");
  verdict.add_not_measured("bandwidth: no clock; LOCKSTEP_GPU=events would");
  bundle.ranks[5].process.python_stack = {"torch/save.py:12 write", "train.py:8 main"};
  const std::string text = ReportText(verdict, bundle);
  EXPECT_THAT(text, StartsWith("HUNG 31 s  possible cause: rank 5 (node0"));
  finding->set_hypothesis(false);
  finding->set_confidence(0.7);
  EXPECT_THAT(ReportText(verdict, bundle), StartsWith("HUNG 31 s  likely cause: rank 5 (node0"));
  size_t last = 0;
  for (const char* row :
       {"  cause    host, in checkpoint\n", "  python   torch/save.py:12 write < train.py:8 main\n", "  evidence ",
        "  moving   no\n", "  chain ", "  NOT ", "  maybe    or: the file system of node0 is slow\n",
        "would decide: a second sample of its I/O\n", "  sure     high; a hypothesis that ",
        "  blind    GPU progress markers", "not measured: bandwidth", "  do       1. "}) {
    const size_t at = text.find(row);
    ASSERT_NE(at, std::string::npos) << row << text;
    EXPECT_GT(at, last) << row;
    last = at;
  }
}

TEST(Report, StacksOmitOffsetsAndSystemCallEntries) {
  Bundle bundle = MakeBundle(8);
  bundle.ranks[5].process.stack = {"[kernel] folio_wait_bit+0x13d/0x350", "[kernel] do_syscall_64+0x71/0x280",
                                   "[kernel] entry_SYSCALL_64_after_hwframe+0x76/0x7e", "write+0x4d", "main+0x10"};
  bundle.ranks[5].process.stack_later = {"[kernel] folio_wait_bit+0x13d/0x350"};
  const std::string text = ReportText(MakeHung(), bundle);
  EXPECT_THAT(text, HasSubstr("  stack    [kernel] folio_wait_bit < write < main\n"));
  EXPECT_THAT(text, HasSubstr("  moving   no: same frame in both samples\n"));
}

TEST(Report, ASharedPartIsNamedBeforeTheCulprits) {
  Verdict verdict = MakeHung();
  Finding* finding = verdict.mutable_findings(0);
  finding->clear_culprits();
  finding->clear_culprit_ranks();
  for (int rank = 8; rank < 40; ++rank) {
    finding->add_culprit_ranks(rank);
    Culprit* culprit = finding->add_culprits();
    culprit->set_rank(rank);
    culprit->set_host(absl::StrCat("node", rank / 8));
    culprit->set_state("its network card does not answer");
  }
  finding->mutable_common_factor()->set_kind("switch");
  finding->mutable_common_factor()->set_name("leaf3");
  finding->mutable_common_factor()->set_culprits(32);
  finding->mutable_common_factor()->set_members(32);
  std::string text = ReportText(verdict, MakeBundle(8));
  EXPECT_THAT(text, HasSubstr("all 32 ranks on switch leaf3 (8-39): never called"));
  EXPECT_THAT(text, HasSubstr("  who      ranks 8-15 (node1)\n           ranks 16-23 (node2)\n"));
  EXPECT_THAT(text, HasSubstr("  state    all: its network card does not answer\n"));
  finding->mutable_common_factor()->set_culprits(31);
  text = ReportText(verdict, MakeBundle(8));
  EXPECT_THAT(text, HasSubstr("ranks 8-39, 31 of them on switch leaf3: never called"));
}

TEST(Report, FindingsThatDifferOnlyInNamesAreListedOnce) {
  Verdict verdict = MakeHung();
  for (int i = 0; i < 12; ++i) {
    Finding* finding = verdict.add_findings();
    *finding = verdict.findings(0);
    finding->set_culprit_ranks(0, 10 + i);
    finding->mutable_culprits(0)->set_rank(10 + i);
    finding->set_summary(absl::StrCat("never called AllReduce #", 50 + i, " on dp_", i));
  }
  verdict.mutable_findings(12)->set_kind(P2P_UNMATCHED);
  verdict.mutable_findings(12)->set_summary("sends to nobody");
  const std::string text = ReportText(verdict, MakeBundle(8));
  EXPECT_THAT(
      text,
      HasSubstr("  likewise 11 more findings that differ only in names and numbers: rank 10; rank 11; rank 12; rank"));
  EXPECT_THAT(text, HasSubstr("and 3 more\n"));
  EXPECT_THAT(text, HasSubstr("also: rank 21 (node0, GPU 5): sends to nobody\n"));
  EXPECT_EQ(text.find("also: "), text.rfind("also: "));
}

TEST(Report, SpinningIsNotMoving) {
  Bundle bundle = MakeBundle(8);
  Process& process = bundle.ranks[5].process;
  process.cpu_ns_between_samples = 1'990'000'000;
  process.io_bytes_between_samples = 0;
  process.sample_gap_ns = 2'000'000'000;
  process.stack = process.stack_later = {"clock_gettime", "cudaStreamSynchronize"};
  EXPECT_THAT(
      ReportText(MakeHung(), bundle),
      HasSubstr("moving   not seen: 1990 ms of CPU, 0 bytes of I/O in 2.0 s, same frame in both samples: it may"));
  process.stack_later = {"memcpy"};
  EXPECT_THAT(ReportText(MakeHung(), bundle), HasSubstr("moving   yes: 1990 ms"));
  process.stack_later.clear();
  EXPECT_THAT(ReportText(MakeHung(), bundle), HasSubstr("moving   yes: 1990 ms"));
  bundle.ranks[5].threads.emplace_back().wait = ring::CallKind::kStreamSynchronize;
  EXPECT_THAT(ReportText(MakeHung(), bundle), HasSubstr("moving   not seen: 1990 ms"));
  process.cpu_ns_between_samples = 1'000'000;
  EXPECT_THAT(ReportText(MakeHung(), bundle), HasSubstr("moving   no: 1 ms"));
}

TEST(Report, OnlyMovingJobsGetSpeedRows) {
  Verdict verdict = MakeHung();
  Finding* finding = verdict.mutable_findings(0);
  finding->set_kind(STRAGGLER);
  finding->set_cost_ns_per_step(12'000'000);
  finding->mutable_detail()->set_flag(true);
  finding->set_cost_uncertainty_ns(400'000);
  finding->set_pattern("persistent");
  finding->set_slowdown(1.25);
  Arrival* arrival = verdict.add_arrivals();
  arrival->set_rank(5);
  arrival->set_operations(900);
  arrival->set_last(812);
  arrival->set_lateness_ns(3'200'000'000);
  Bandwidth* bandwidth = verdict.add_bandwidths();
  bandwidth->mutable_communicator()->set_name("dp_1");
  bandwidth->set_operation("AllReduce");
  bandwidth->set_bytes(64 << 20);
  bandwidth->set_bus_bytes_per_s(21e9);
  bandwidth->set_peer_bus_bytes_per_s(42e9);
  bandwidth->set_best_bus_bytes_per_s(84e9);
  ClockOffset* clock = verdict.add_clocks();
  clock->set_host("node0");
  clock = verdict.add_clocks();
  clock->set_host("node1");
  clock->set_offset_ns(-5'000'000'000);
  clock->set_uncertainty_ns(12'000);
  verdict.mutable_start_up()->set_text("Start-up took 4 min.");
  verdict.mutable_start_up()->set_total_ns(240'000'000'000);
  std::string text = ReportText(verdict, MakeBundle(8));
  EXPECT_THAT(text, Not(HasSubstr("arrived last")));
  verdict.set_verdict(VERDICT_SLOW);
  text = ReportText(verdict, MakeBundle(8));
  EXPECT_THAT(text,
              HasSubstr("  costs    12 ms lost in each step (+- 400 us); 1.25 times as long as peers; persistent\n"));
  EXPECT_THAT(text, HasSubstr("  last     rank 5 arrived last in 812 of 900 operations, late by 3.2 s in total\n"));
  EXPECT_THAT(text,
              HasSubstr("AllReduce of 64 MiB on dp_1: 21.0 GB/s, 0.50 of its peers' rate, 0.25 of the best rate\n"));
  EXPECT_THAT(text, HasSubstr("  clocks   2 hosts aligned to +- 12 us\n"));
  EXPECT_THAT(text, HasSubstr("node1 5.0 s ahead\n"));
  EXPECT_THAT(text, HasSubstr("  start-up Start-up took 4 min.\n"));
  bandwidth->set_bus_bytes_per_s(0);
  EXPECT_THAT(ReportText(verdict, MakeBundle(8)), HasSubstr("  rates    not measured"));
  // Record clocks may start at zero when each host boots, so the report compares wall clocks.
  Bundle bundle = MakeBundle(8);
  for (int i = 0; i < 8; ++i) {
    bundle.ranks[i].host = i < 4 ? "node0" : "node1";
    bundle.ranks[i].real_minus_mono_ns = i < 4 ? 1'000'000'000'000 : 1'000'000'000'000 - 4'000'000'000;
  }
  EXPECT_THAT(ReportText(verdict, bundle), HasSubstr("node1 1.0 s ahead\n"));
}

TEST(Report, TheStartOfTheJobByPhaseAndRank) {
  Bundle bundle;
  const Verdict verdict = MakeRich(&bundle);
  const std::string text = StartUpReport(verdict);
  EXPECT_THAT(text, HasSubstr("\ncreating communicators        12.000     51.000  rank 3         rank 7, 4.000\n"));
  EXPECT_THAT(text, HasSubstr("\nbetween creations             12.000     51.000  rank 3         -\n"));
  EXPECT_THAT(text, HasSubstr("\nfirst operations          not recorded\n"));
  EXPECT_THAT(
      text,
      HasSubstr("\n      7     2/6     4.000      0.000     3.000     6.000     9.000    12.000         -  node1\n"));
  EXPECT_THAT(text, HasSubstr("and others that were last less often or took less time\n"));
  for (size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    EXPECT_LE(end - at, 120u) << text.substr(at, end - at);
  }
  const std::string html = ReportHtml(verdict, bundle);
  EXPECT_THAT(html, HasSubstr("<b>creating communicators</b><small>median rank 12 s, longest 51 s (rank 3); last: rank "
                              "7 by 4.0 s</small>"));
  EXPECT_THAT(
      html,
      HasSubstr(
          "Others waited for: rank 7 (node1), last to 2 of 6 by 4.0 s; rank 6 (node1), last to 1 of 6 by 4.0 s.</p>"));
  EXPECT_THAT(StartUpReport(Verdict()), HasSubstr("not recorded"));
}

TEST(Report, TextOfAHugeJobStaysOneScreenOrTwo) {
  Verdict verdict = MakeHung();
  verdict.set_ranks_expected(24576);
  Finding* finding = verdict.mutable_findings(0);
  for (int rank = 6; rank < 24576; rank += 1 + rank % 3) {
    finding->add_culprit_ranks(rank);
    Culprit* culprit = finding->add_culprits();
    culprit->set_rank(rank);
    culprit->set_host(absl::StrCat("node", rank / 8));
    culprit->set_state(absl::StrCat("stands still for ", rank, " s"));
    verdict.add_problems()->set_text(absl::StrCat("byte ", rank, " is damaged"));
    verdict.mutable_problems()->rbegin()->set_like("damaged");
    finding->mutable_chain(0)->add_ranks(rank);
    finding->add_evidence()->set_text(absl::StrCat("fact ", rank));
  }
  for (int i = 0; i < 20; ++i) *verdict.add_findings() = *finding;
  const std::string text = ReportText(verdict, MakeBundle(8));
  EXPECT_LT(Lines(text).size(), 300u);
  EXPECT_LT(Lines(text.substr(0, text.find("\nalso: "))).size(), 60u);
  EXPECT_THAT(text, HasSubstr("byte 6 is damaged - and "));
}

TEST(Report, TextNamesWhoseDataIsMissingAndWhetherThatMatters) {
  Bundle bundle = MakeBundle(8);
  bundle.ranks.erase(bundle.ranks.begin() + 6, bundle.ranks.end());
  Verdict verdict = MakeHung();
  verdict.set_ranks_read(6);
  const std::string text = ReportText(verdict, bundle);
  EXPECT_THAT(text, StartsWith("HUNG 31 s  rank 5"));
  EXPECT_THAT(text, HasSubstr("no data from ranks 6, 7: nothing shows that they are the cause"));
  verdict.mutable_findings(0)->add_culprit_ranks(7);
  EXPECT_THAT(ReportText(verdict, bundle),
              HasSubstr("no data from rank 7, which others wait for; no data from rank 6"));
}

TEST(Report, TheHeadlineNamesTheHostsOfASet) {
  Verdict verdict = MakeHung();
  Finding* finding = verdict.mutable_findings(0);
  const auto add = [&](int32_t rank, const char* host) {
    finding->add_culprit_ranks(rank);
    Culprit* culprit = finding->add_culprits();
    culprit->set_rank(rank);
    culprit->set_host(host);
  };
  add(6, "node0");
  EXPECT_THAT(ReportText(verdict, MakeBundle(8)), StartsWith("HUNG 31 s  ranks 5, 6 (both on node0)"));
  EXPECT_THAT(nlohmann::json::parse(ReportJson(verdict))["findings"][0]["headline"],
              StartsWith("ranks 5, 6 (both on node0)"));
  EXPECT_THAT(ReportHtml(verdict, MakeBundle(8)), HasSubstr("ranks 5, 6 (both on node0)"));
  add(7, "node0");
  EXPECT_THAT(Headline(*finding), StartsWith("ranks 5-7 (all on node0)"));
  add(8, "node1");
  EXPECT_THAT(Headline(*finding), StartsWith("ranks 5-8 (on node0, node1)"));
  add(16, "node2");
  add(24, "node3");
  EXPECT_THAT(Headline(*finding), StartsWith("ranks 5-8, 16, 24 (on node0, node1 and 2 more)"));
  finding->mutable_culprits(0)->clear_host();
  EXPECT_THAT(Headline(*finding), Not(HasSubstr("(on ")));
}

TEST(Report, AdviceBeginsOnTheThirdLine) {
  Verdict verdict = MakeHung();
  Finding* finding = verdict.mutable_findings(0);
  finding->set_place("name_of_a_function (file.py:1024)");
  finding->set_reason(REASON_WAITS_FOR_OTHER_WORK);
  finding->mutable_detail()->set_name("cudaStreamSynchronize");
  finding->mutable_detail()->mutable_call()->set_text("AllReduce #41");
  finding->mutable_detail()->mutable_call()->set_on("dp_1");
  PutIntoWords(finding);
  EXPECT_THAT(Headline(*finding), HasSubstr("for non-NCCL GPU work; it never called AllReduce #41 on dp_1"));
  const std::vector<std::string> lines = Lines(VerdictText(verdict, MakeBundle(8)));
  EXPECT_THAT(lines[2], StartsWith("  do ")) << absl::StrJoin(lines, "\n");
  // The row `why` has the rest of the headline.
  EXPECT_THAT(absl::StrJoin(lines, "\n"), HasSubstr("why      it never called AllReduce #41 on dp_1"));
  EXPECT_THAT(absl::StrJoin(lines, "\n"), HasSubstr("not the network (each stuck operation lacks a member)"));
}

TEST(Report, ALongExceptionLeavesTheThirdLineToAdvice) {
  Verdict verdict = MakeHung();
  Finding* finding = verdict.mutable_findings(0);
  finding->set_kind(RANK_DEAD);
  finding->set_reason(REASON_EXITED);
  finding->mutable_detail()->set_name("RuntimeError: " + std::string(40, 'x') + " one two three four five six seven " +
                                      std::string(30, 'y') + " the end");
  PutIntoWords(finding);
  const std::string text = VerdictText(verdict, MakeBundle(8));
  EXPECT_THAT(Lines(text)[1], ::testing::EndsWith(" .."));
  EXPECT_THAT(Lines(text)[2], StartsWith("  do "));
  EXPECT_THAT(text, ::testing::ContainsRegex("why      \\.\\. .*the end\n"));
}

TEST(Report, RanksWithOnlyAKnownEndAreCounted) {
  Verdict verdict = MakeHung();
  verdict.set_ranks_only_ended(1);
  EXPECT_THAT(VerdictText(verdict, MakeBundle(8)), HasSubstr("7 of 8 ranks read (for 1 more, only the end is known)"));
  EXPECT_THAT(ReportText(verdict, MakeBundle(8)), HasSubstr("7 of 8 ranks read (for 1 more, only the end is known)"));
  verdict.set_verdict(VERDICT_INCOMPLETE_DATA);
  verdict.clear_findings();
  verdict.set_ranks_only_ended(8);
  EXPECT_THAT(ReportText(verdict, MakeBundle(8)),
              StartsWith("INCOMPLETE DATA  8 ranks ended, and nothing shows a fault; their calls were not recorded\n"));
  EXPECT_THAT(ReportText(verdict, MakeBundle(8)), HasSubstr("0 of 8 ranks read (for 8, only the end is known)"));
}

TEST(Report, CheckpointsAreListedByMount) {
  Verdict verdict = MakeHung();
  CheckpointMount* mount = verdict.add_checkpoint();
  mount->set_mount("/mnt/lustre\x1b (lustre)");
  mount->set_ranks(64);
  mount->set_hosts(8);
  mount->set_longest_ns(41'000'000'000);
  mount->set_longest_rank(5);
  mount->set_median_ns(34'000'000'000);
  mount->set_sampled(64);
  mount->set_bytes_per_s(2e9);
  mount->set_slowest_bytes_per_s(0);
  mount->set_slowest_rank(9);
  mount->set_slowest_host("n2");
  mount->set_slowest_file("/mnt/lustre/9.distcp");
  CheckpointMount* unknown = verdict.add_checkpoint();
  unknown->set_ranks(1);
  unknown->set_longest_rank(-1);
  unknown->set_slowest_rank(-1);
  unknown->set_bytes_per_s(-1);
  EXPECT_THAT(
      CheckpointLines(verdict),
      ElementsAre("64 ranks on 8 hosts have been in a checkpoint on /mnt/lustre? (lustre) for 34 s (median; rank 5: "
                  "41 s); total I/O 2.00 GB/s, least by rank 9 (n2): no I/O, /mnt/lustre/9.distcp",
                  "1 rank is in a checkpoint on an unknown mount"));
  EXPECT_THAT(VerdictText(verdict, MakeBundle(8)), HasSubstr("\n  saving   64 ranks on 8 hosts"));
  EXPECT_EQ(nlohmann::json::parse(ReportJson(verdict))["checkpoint"][1]["mount"], "");
}

TEST(Report, HealthyAndIncompleteAreOneClearLine) {
  Verdict verdict;
  verdict.set_verdict(VERDICT_HEALTHY);
  verdict.set_ranks_read(8);
  verdict.set_ranks_expected(8);
  EXPECT_THAT(ReportText(verdict, MakeBundle(8)), StartsWith("HEALTHY  8 ranks: nothing is stuck"));
  EXPECT_EQ(ExitStatus(verdict), 0);
  verdict.set_verdict(VERDICT_HUNG);
  EXPECT_THAT(ReportText(verdict, MakeBundle(8)),
              StartsWith("HUNG  8 ranks: the job is stuck; the recording does not show why"));
  EXPECT_EQ(ExitStatus(verdict), 1);
  verdict.set_verdict(VERDICT_LATE);
  EXPECT_THAT(ReportText(verdict, MakeBundle(8)),
              StartsWith("LATE  8 ranks: an operation is slow; the data shows no rank that delays it"));
  verdict.set_verdict(VERDICT_INCOMPLETE_DATA);
  EXPECT_THAT(
      ReportText(verdict, MakeBundle(7)),
      StartsWith("INCOMPLETE DATA  not known whether the job hangs: 8 ranks were read and show no fault; there is no\n"
                 "  data from rank 7"));
  EXPECT_THAT(ReportText(verdict, MakeBundle(8)), HasSubstr("; other data is\n  missing or"));
  EXPECT_THAT(ReportText(verdict, MakeBundle(7)),
              HasSubstr("do       1. Add data from rank 7 to /incident and analyze again."));
  EXPECT_THAT(ReportText(verdict, MakeBundle(8)), HasSubstr("do       1. Add the missing or unreadable data"));
  // gloo retires every operation, so none of these waited.
  Bundle retired = MakeBundle(8);
  retired.ranks[0].ops.resize(1);
  retired.ranks[0].ops[0].retired = retired.ranks[0].ends_untold = true;
  EXPECT_THAT(ReportText(verdict, retired), ::testing::Not(HasSubstr("until a timeout expired")));
  Verdict moving = verdict;
  moving.add_not_seen()->set_kind(NotSeen::RANKS_MOVING);
  EXPECT_THAT(ReportText(moving, MakeBundle(8)),
              StartsWith("INCOMPLETE DATA  8 ranks were examined: some are still moving, and nothing shows a hang"));
  EXPECT_THAT(ReportText(moving, MakeBundle(8)), HasSubstr("do       1. Look again in a minute."));
  // The headline has the first problem, so the report does not repeat it.
  for (const char* text : {"cut off", "not a dump."}) {
    DataProblem* const problem = verdict.add_problems();
    problem->set_text(text);
    problem->set_offset(-1);
    problem->set_rank(-1);
  }
  const std::string text = ReportText(verdict, MakeBundle(7));
  EXPECT_THAT(text,
              StartsWith("INCOMPLETE DATA  8 ranks were read, and their data does not point to a culprit. cut off\n"));
  EXPECT_EQ(text.find("cut off", text.find('\n')), std::string::npos);
  EXPECT_THAT(text, HasSubstr("not a dump."));
  EXPECT_EQ(ExitStatus(verdict), 1);
  EXPECT_EQ(ExitStatus(MakeHung()), 1);
}

TEST(Report, NoLineIsWiderThanAHundredColumnsAndNothingControlsTheTerminal) {
  Verdict verdict = MakeHung();
  Bundle bundle = MakeBundle(8);
  const std::string evil =
      "\x1b]0;title\x07\x1b[31m\r\n\t\xe2\x80\xae"
      "rtl \xc2\x9b"
      "1m \xff\xfe " +
      std::string(300, 'x') + " \xe6\xbc\xa2\xe5\xad\x97";
  Finding* finding = verdict.mutable_findings(0);
  finding->set_summary(evil);
  finding->add_advice_steps(evil);
  finding->set_refuted_by(evil);
  finding->mutable_culprits(0)->set_host(evil);
  finding->mutable_culprits(0)->set_state(evil);
  finding->mutable_chain(0)->set_operation(evil);
  finding->mutable_chain(0)->set_text(evil);
  finding->mutable_chain(0)->mutable_communicator()->set_name(evil);
  finding->add_evidence()->set_text(evil);
  verdict.set_job(evil);
  verdict.add_ruled_out()->set_why(evil);
  DataProblem* problem = verdict.add_problems();
  problem->set_path(evil);
  problem->set_text(evil);
  bundle.ranks[5].process.stack = {evil};
  bundle.ranks[5].process.wchan = evil;
  bundle.ranks[0].path = absl::StrCat(evil, "/x");
  *verdict.add_findings() = *finding;
  const std::string text = ReportText(verdict, bundle);
  for (const std::string& line : Lines(text)) {
    EXPECT_LE(Columns(line), 100u) << line;
    for (char c : line) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << line;
    EXPECT_THAT(line, Not(HasSubstr("\xe2\x80\xae")));
    EXPECT_THAT(line, Not(HasSubstr("\xc2\x9b")));
  }
  EXPECT_THAT(text, HasSubstr("\xe6\xbc\xa2\xe5\xad\x97"));
}

TEST(Report, HtmlEscapesEveryNameAndLoadsNothing) {
  Bundle bundle;
  const Verdict verdict = MakeHostile(&bundle);
  const std::string html = ReportHtml(verdict, bundle);
  EXPECT_THAT(html, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("alert('")));
  EXPECT_THAT(html, Not(HasSubstr("http:")));
  EXPECT_THAT(html, Not(HasSubstr("https:")));
  EXPECT_THAT(html, Not(HasSubstr("url(h")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(&#39;x&#39;)"));
  EXPECT_THAT(html, HasSubstr("<title>rank 5: named by a finding</title>"));
  EXPECT_THAT(html, HasSubstr("<title>rank 1: waits because of it</title>"));
}

// This job's lists are as long as possible, and cannot be shortened to ranges.
TEST(Report, HtmlOfAHugeJobStaysSmall) {
  Bundle bundle;
  const Verdict verdict = MakeHuge(&bundle);
  const std::string html = ReportHtml(verdict, bundle);
  EXPECT_LT(html.size(), 2u << 20);
  EXPECT_THAT(html, HasSubstr("All 24576 ranks"));
  EXPECT_THAT(html, HasSubstr("bands are not drawn"));
  EXPECT_THAT(html, HasSubstr("more branches are not shown"));
}

TEST(Report, HtmlDrawsWhatEachRankReached) {
  Bundle bundle = MakeBundle(8);
  Communicator comm;
  comm.id = "00000000000000ab";
  comm.name = "dp_1";
  comm.size = 4;
  comm.members = {1, 3, 5, 7};
  bundle.comms.push_back(comm);
  for (int i = 0; i < 4; ++i) {
    Rank& rank = bundle.ranks[2 * i + 1];
    Membership membership;
    membership.comm = 0;
    membership.member_rank = i;
    membership.issued = i == 2 ? 40 : 41;
    membership.completed = 40;
    rank.memberships.push_back(membership);
    Op op;
    op.membership = 0;
    op.kind = ring::CallKind::kAllReduce;
    op.seq = 41;
    op.state = OpState::kIncomplete;
    if (i == 0 || i == 1) rank.ops.push_back(op);
  }
  bundle.ranks.erase(bundle.ranks.begin() + 3);  // no data
  const std::string html = ReportHtml(MakeHung(), bundle);
  EXPECT_THAT(html, HasSubstr("title=\"#41: never called\""));
  EXPECT_THAT(html, HasSubstr("title=\"#41: in flight\""));
  EXPECT_THAT(html, HasSubstr("title=\"#41: record overwritten\""));
  EXPECT_THAT(html, HasSubstr("title=\"#34-41: no data from the rank\""));
  EXPECT_THAT(
      html,
      HasSubstr(
          "<div class=\"seq named\"><div class=\"who\">\u25b6 rank 5<small>issued up to #40, completed up to #40"));
}

TEST(Report, HtmlMergesStacks) {
  Bundle bundle = MakeBundle(4);
  for (int i = 0; i < 3; ++i) bundle.ranks[i].process.stack = {"futex_wait", "ncclAllReduce", "step", "main"};
  bundle.ranks[3].process.stack = {"write+0x12/0x40", "save", "main"};
  bundle.ranks[2].process.stack.erase(bundle.ranks[2].process.stack.begin(), bundle.ranks[2].process.stack.begin() + 2);
  const std::string html = ReportHtml(MakeHung(), bundle);
  EXPECT_THAT(html, HasSubstr("<span class=\"mono\">main</span> <span class=\"set\">ranks 0-3 (4)"));
  EXPECT_THAT(html, HasSubstr("<span class=\"mono\">save \u203a write</span> <span class=\"set\">rank 3"));
  EXPECT_THAT(html, HasSubstr("<span class=\"mono\">step</span> <span class=\"set\">ranks 0-2 (3)"));
  EXPECT_THAT(html, HasSubstr("innermost here</span> <span class=\"set\">rank 2"));
  EXPECT_THAT(html, HasSubstr("ncclAllReduce \u203a futex_wait</span> <span class=\"set\">ranks 0, 1"));
}

TEST(Report, HtmlSaysNotMeasuredRatherThanZero) {
  Verdict verdict = MakeHung();
  Bandwidth* bandwidth = verdict.add_bandwidths();
  bandwidth->set_operation("AllReduce");
  bandwidth->mutable_communicator()->set_name("dp_1");
  EXPECT_THAT(ReportHtml(verdict, MakeBundle(8)), HasSubstr("not measured</small><div class=\"meter none\">"));
  bandwidth->set_bus_bytes_per_s(2e9);
  bandwidth->set_peer_bus_bytes_per_s(4e9);
  EXPECT_THAT(
      ReportHtml(verdict, MakeBundle(8)),
      HasSubstr("0.50 of its peers' rate</small><div class=\"meter\"><i class=\"low\" style=\"width:50.00%\">"));
}

TEST(Report, RanksFold) {
  EXPECT_EQ(FoldRanks({3, 0, 1, 2, 6, 8, 9, 10, 15}), "0-3, 6, 8-10, 15");
  EXPECT_EQ(FoldRanks({4, 5}), "4, 5");
  EXPECT_EQ(FoldRanks({}), "");
  std::vector<int32_t> odd;
  for (int i = 0; i < 100; ++i) odd.push_back(2 * i + 1);
  EXPECT_EQ(FoldRanks(odd, 20), "1-199 in steps of 2");
  EXPECT_EQ(FoldRanks({0, 2, 4, 5, 6}), "0, 2, 4-6");
  std::vector<int32_t> uneven;
  for (int i = 0; i < 100; ++i) uneven.push_back(i * i);
  EXPECT_EQ(FoldRanks(uneven, 20), "0, 1, 4, 9, 16, 25, .. (100 in all)");
  EXPECT_EQ(RanksText({7}), "rank 7");
}

TEST(Report, DurationsAreShort) {
  EXPECT_EQ(DurationText(800'000'000), "0.8 s");
  EXPECT_EQ(DurationText(12'000'000), "12 ms");
  EXPECT_EQ(DurationText(3'400), "3.4 us");
  EXPECT_EQ(DurationText(-5'000'000'000), "-5.0 s");
  EXPECT_EQ(RateText(46.2e9), "46.2 GB/s");
  EXPECT_EQ(RateText(0), "not measured");
  EXPECT_EQ(BytesText(3 << 19), "1.5 MiB");
  EXPECT_EQ(DurationText(31'000'000'000), "31 s");
  EXPECT_EQ(DurationText(int64_t{250} * 1'000'000'000), "4 min 10 s");
  EXPECT_EQ(DurationText(int64_t{7500} * 1'000'000'000), "2 h 5 min");
}

TEST(Report, EveryKindOfFindingHasItsFacts) {
  for (int kind = 1; FindingKind_IsValid(kind); ++kind)
    EXPECT_EQ(FindingFactsOf(static_cast<FindingKind>(kind)).kind, kind)
        << "no line in analyzer/model/finding_kinds.cpp";
  EXPECT_EQ(VerdictName(VERDICT_INCOMPLETE_DATA), "INCOMPLETE_DATA");
  EXPECT_EQ(FindingName(P2P_UNMATCHED), "P2P_UNMATCHED");
}

Verdict Told(VerdictKind kind, FindingKind finding) {
  Verdict verdict;
  verdict.set_verdict(kind);
  Finding* first = verdict.add_findings();
  first->set_kind(finding);
  first->set_summary("rank 5 is stuck");
  first->set_confidence(0.9);
  for (const int32_t rank : {6, 5}) {
    first->add_culprit_ranks(rank);
    first->add_culprits()->set_rank(rank);
    first->mutable_culprits()->rbegin()->set_host("n3");
  }
  return verdict;
}

TEST(Recommended, OnlyAFaultyHostIsExcluded) {
  const Recommended stall = RecommendedFor(Told(VERDICT_HUNG, HOST_STALL));
  EXPECT_EQ(stall.action, Action::kExclude);
  EXPECT_THAT(stall.hosts, ElementsAre("n3"));
  EXPECT_THAT(stall.ranks, ElementsAre(5, 6));
  EXPECT_EQ(stall.why, "rank 5 is stuck");
  EXPECT_EQ(RecommendedFor(Told(VERDICT_HUNG, GPU_STALL)).action, Action::kExclude);
  Verdict verdict = Told(VERDICT_HUNG, HOST_STALL);
  verdict.mutable_findings(0)->set_activity("checkpoint");
  EXPECT_EQ(RecommendedFor(verdict).action, Action::kAsk) << "another host has the same storage";
  verdict.mutable_findings(0)->set_moving("moving");
  EXPECT_EQ(RecommendedFor(verdict).action, Action::kWait);
  verdict = Told(VERDICT_HUNG, GPU_STALL);
  verdict.mutable_findings(0)->set_hypothesis(true);
  EXPECT_EQ(RecommendedFor(verdict).action, Action::kAsk);
  verdict = Told(VERDICT_HUNG, HOST_STALL);
  verdict.mutable_findings(0)->mutable_common_factor()->set_kind("switch");
  EXPECT_EQ(RecommendedFor(verdict).action, Action::kAsk) << "a switch has too many hosts";
  verdict = Told(VERDICT_HUNG, HOST_STALL);
  for (Culprit& culprit : *verdict.mutable_findings(0)->mutable_culprits()) culprit.clear_host();
  EXPECT_EQ(RecommendedFor(verdict).action, Action::kAsk);
}

TEST(Recommended, EndedOrDifferingRanksNeedAPerson) {
  Verdict dead = Told(VERDICT_CRASHED, RANK_DEAD);
  dead.mutable_findings(0)->set_reason(REASON_KILLED);
  EXPECT_EQ(RecommendedFor(dead).action, Action::kRequeue);
  dead.mutable_findings(0)->set_reason(REASON_EXITED);
  EXPECT_EQ(RecommendedFor(dead).action, Action::kAsk);
  EXPECT_EQ(RecommendedFor(Told(VERDICT_DESYNC, MISMATCH_COUNT)).action, Action::kAsk);
  EXPECT_EQ(RecommendedFor(Told(VERDICT_HUNG, DEADLOCK_CYCLE)).action, Action::kAsk);
  EXPECT_EQ(RecommendedFor(Told(VERDICT_HUNG, COLLECTIVE_STUCK)).action, Action::kRequeue);
  EXPECT_EQ(RecommendedFor(Told(VERDICT_LATE, HOST_STALL)).action, Action::kWait);
  EXPECT_EQ(RecommendedFor(Told(VERDICT_SLOW, SLOW_HOST)).action, Action::kAsk);
  Verdict healthy;
  healthy.set_verdict(VERDICT_HEALTHY);
  EXPECT_EQ(RecommendedFor(healthy).action, Action::kWait);
  healthy.set_verdict(VERDICT_INCOMPLETE_DATA);
  EXPECT_EQ(RecommendedFor(healthy).action, Action::kAsk);
}

}  // namespace
}  // namespace lockstep
