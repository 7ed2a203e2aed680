#include "analyzer/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/report_words.h"

namespace lockstep {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Bundle MakeBundle(int ranks) {
  Bundle bundle;
  for (int i = 0; i < ranks; ++i) {
    Rank rank;
    rank.rank = i;
    rank.host = "node0";
    rank.gpu_index = i;
    rank.pid = 100 + i;
    rank.path = "/incident/node0.lsd";
    rank.gpu_marks = ring::GpuMarks::kDone;
    bundle.ranks.push_back(rank);
  }
  bundle.ranks_expected = ranks;
  return bundle;
}

Verdict MakeHung() {
  Verdict verdict;
  verdict.set_verdict(VERDICT_HUNG);
  verdict.set_job("train.0");
  verdict.set_ranks_read(8);
  verdict.set_ranks_expected(8);
  verdict.set_stalled_ns(31'000'000'000);
  verdict.add_not_the_cause("NOT network: no collective has all members inside");
  Finding* finding = verdict.add_findings();
  finding->set_kind(HOST_STALL);
  finding->add_culprit_ranks(5);
  Culprit* culprit = finding->add_culprits();
  culprit->set_rank(5);
  culprit->set_host("node0");
  culprit->set_gpu(5);
  culprit->set_pid(105);
  culprit->set_state("in no NCCL call and no GPU wait");
  finding->mutable_communicator()->set_id("00000000000000ab");
  finding->mutable_communicator()->set_name("dp_1");
  finding->mutable_communicator()->set_size(4);
  finding->set_operation("AllReduce");
  finding->set_sequence(41);
  finding->set_victim_count(7);
  ChainLink* link = finding->add_chain();
  for (int rank : {7, 1, 3}) link->add_ranks(rank);
  link->add_waits_for(5);
  link->set_operation("AllReduce #41");
  *link->mutable_communicator() = finding->communicator();
  finding->set_confidence(0.93);
  Evidence* evidence = finding->add_evidence();
  evidence->set_text("3 of 4 members of dp_1 wait in AllReduce #41");
  evidence->set_source("/somewhere/9.lsd");
  evidence->add_ranks(3);
  evidence->add_ranks(1);
  finding->set_advice("1. Look at the stacks.\n2. Restart.");
  finding->set_summary("never entered AllReduce #41 on dp_1");
  finding->set_refuted_by("its own record of it");
  return verdict;
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n');
}

TEST(Report, JsonHasEveryKeyOfTheContract) {
  const nlohmann::json json = nlohmann::json::parse(ReportJson(MakeHung()));
  EXPECT_EQ(json["verdict"], "HUNG");
  EXPECT_EQ(json["ranks_expected"], 8);
  EXPECT_EQ(json["ranks_read"], 8);
  EXPECT_EQ(json["stalled_ns"], 31'000'000'000);
  EXPECT_TRUE(json["problems"].is_array());
  const nlohmann::json& finding = json["findings"][0];
  for (const char* key : {"kind", "culprit_ranks", "culprits", "communicator", "operation", "sequence", "victim_count",
                          "chain", "confidence", "evidence", "advice", "summary", "refuted_by"}) {
    EXPECT_TRUE(finding.contains(key)) << key;
  }
  EXPECT_EQ(finding["kind"], "HOST_STALL");
  EXPECT_EQ(finding["culprit_ranks"], nlohmann::json({5}));
  EXPECT_EQ(finding["culprits"][0]["gpu"], 5);
  EXPECT_EQ(finding["communicator"]["size"], 4);
  EXPECT_EQ(finding["sequence"], 41);
  EXPECT_DOUBLE_EQ(finding["confidence"], 0.93);
  EXPECT_EQ(finding["chain"][0]["ranks"], nlohmann::json({1, 3, 7}));
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

TEST(Report, JsonNamesNoFileInEvidence) {
  const nlohmann::json json = nlohmann::json::parse(ReportJson(MakeHung()));
  EXPECT_EQ(json["findings"][0]["evidence"][0]["source"], "dumps of ranks 1, 3");
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
  EXPECT_EQ(lines[0], "HUNG  8 ranks, 31 s: rank 5 = node0 gpu 5 (pid 105): never entered AllReduce #41 on dp_1");
  EXPECT_THAT(lines, Contains("  cause    host"));
  EXPECT_THAT(lines, Contains("  stack    read < load_batch"));
  EXPECT_THAT(lines, Contains("  moving   no: 0 ms of CPU, 0 bytes of I/O in 1.0 s"));
  EXPECT_THAT(lines, Contains("  chain    ranks 1, 3, 7 wait in AllReduce #41 on dp_1 for rank 5"));
  EXPECT_THAT(lines, Contains("  NOT      network: no collective has all members inside"));
  EXPECT_THAT(lines, Contains("  sure     high; would be refuted by its own record of it"));
  EXPECT_THAT(lines, Contains("  do       1. Look at the stacks."));
  EXPECT_THAT(lines, Contains("           2. Restart."));
  EXPECT_THAT(lines, Contains("  DATA     8 of 8 ranks"));
  EXPECT_THAT(lines, Contains("  files    /incident"));
}

TEST(Report, TextNamesWhoseDataIsMissingAndWhetherThatMatters) {
  Bundle bundle = MakeBundle(8);
  bundle.ranks.erase(bundle.ranks.begin() + 6, bundle.ranks.end());
  Verdict verdict = MakeHung();
  verdict.set_ranks_read(6);
  const std::string text = ReportText(verdict, bundle);
  EXPECT_THAT(text, StartsWith("HUNG  6 of 8 ranks, 31 s: rank 5"));
  EXPECT_THAT(text, HasSubstr("no data of ranks 6, 7: no suspects"));
  verdict.mutable_findings(0)->add_culprit_ranks(7);
  EXPECT_THAT(ReportText(verdict, bundle), HasSubstr("no data of rank 7, for whom others wait; no data of rank 6"));
}

TEST(Report, HealthyAndIncompleteAreOneClearLine) {
  Verdict verdict;
  verdict.set_verdict(VERDICT_HEALTHY);
  verdict.set_ranks_read(8);
  verdict.set_ranks_expected(8);
  EXPECT_THAT(ReportText(verdict, MakeBundle(8)), StartsWith("HEALTHY  8 ranks: nothing stands still"));
  EXPECT_EQ(ExitStatus(verdict), 0);
  verdict.set_verdict(VERDICT_INCOMPLETE_DATA);
  EXPECT_THAT(ReportText(verdict, MakeBundle(7)),
              StartsWith("INCOMPLETE_DATA  8 ranks: nothing wrong in what could be read"));
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
  finding->set_advice(evil);
  finding->set_refuted_by(evil);
  finding->mutable_culprits(0)->set_host(evil);
  finding->mutable_culprits(0)->set_state(evil);
  finding->mutable_chain(0)->set_operation(evil);
  finding->mutable_chain(0)->mutable_communicator()->set_name(evil);
  finding->add_evidence()->set_text(evil);
  verdict.set_job(evil);
  verdict.add_not_the_cause(evil);
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
  Verdict verdict = MakeHung();
  Bundle bundle = MakeBundle(8);
  const std::string evil = "</title><script>alert('x')</script>\"'&";
  verdict.set_job(evil);
  verdict.mutable_findings(0)->set_summary(evil);
  verdict.mutable_findings(0)->mutable_culprits(0)->set_host(evil);
  verdict.mutable_findings(0)->mutable_chain(0)->mutable_communicator()->set_name(evil);
  bundle.ranks[2].host = evil;
  const std::string html = ReportHtml(verdict, bundle);
  EXPECT_THAT(html, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("http")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(&#39;x&#39;)"));
  EXPECT_THAT(html, HasSubstr("class=\"c culprit\" title=\"rank 5: named by a finding\""));
  EXPECT_THAT(html, HasSubstr("class=\"c victim\" title=\"rank 1: waits\""));
}

TEST(Report, HtmlOfAHugeJobStaysSmall) {
  Verdict verdict = MakeHung();
  verdict.set_ranks_expected(100000);
  const std::string html = ReportHtml(verdict, MakeBundle(8));
  EXPECT_THAT(html, HasSubstr("more ranks are not drawn"));
  EXPECT_LT(html.size(), 4u << 20);
}

TEST(Report, RanksFold) {
  EXPECT_EQ(FoldRanks({3, 0, 1, 2, 6, 8, 9, 10, 15}), "0-3, 6, 8-10, 15");
  EXPECT_EQ(FoldRanks({4, 5}), "4, 5");
  EXPECT_EQ(FoldRanks({}), "");
  std::vector<int32_t> odd;
  for (int i = 0; i < 100; ++i) odd.push_back(2 * i + 1);
  EXPECT_EQ(FoldRanks(odd, 20), "1, 3, 5, 7, 9, 11, .. (100 in all)");
  EXPECT_EQ(RanksText({7}), "rank 7");
}

TEST(Report, DurationsAreShort) {
  EXPECT_EQ(DurationText(800'000'000), "0.8 s");
  EXPECT_EQ(DurationText(31'000'000'000), "31 s");
  EXPECT_EQ(DurationText(int64_t{250} * 1'000'000'000), "4 min 10 s");
  EXPECT_EQ(DurationText(int64_t{7500} * 1'000'000'000), "2 h 5 min");
}

TEST(Report, EveryKindHasItsWord) {
  for (int kind = 1; FindingKind_IsValid(kind); ++kind)
    EXPECT_NE(CauseWord(static_cast<FindingKind>(kind)), "unknown") << kind;
  EXPECT_EQ(VerdictName(VERDICT_INCOMPLETE_DATA), "INCOMPLETE_DATA");
  EXPECT_EQ(FindingName(P2P_UNMATCHED), "P2P_UNMATCHED");
}

}  // namespace
}  // namespace lockstep
