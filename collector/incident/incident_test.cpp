#include "collector/incident/incident.h"
#include "analyzer/util/time_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "analyzer/engine/engine.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/formats/ring/loader.h"
#include "analyzer/report/report.h"
#include "analyzer/util/atomic_file.h"
#include "collector/host/proc.h"
#include "collector/rings/folder.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

// Returns the ring of a rank in a communicator of two with one collective per second. Rank 1 was killed before the
// fifth.
RingInput Ring(int rank, uint64_t issued) {
  RingInput input;
  input.path = "/dev/shm/x/" + std::to_string(rank) + ".ring";
  ring::Snapshot& snapshot = input.snapshot;
  snapshot.process.host = "node1";
  snapshot.process.job = "job";
  snapshot.process.boot_id = "boot";
  snapshot.process.pid = 100 + rank;
  snapshot.process.rank = rank;
  snapshot.process.world_size = 2;
  snapshot.process.state = ring::RecorderState::kRecording;
  snapshot.read_mono_ns = 60 * kSecond;
  ring::CommSnapshot comm;
  comm.id = 0xabcdef;
  comm.state = ring::CommState::kReady;
  comm.origin = ring::CallKind::kCommInitRank;
  comm.member_rank = rank;
  comm.size = 2;
  comm.issued_seq = comm.launched_seq = issued;
  comm.issued_ns = static_cast<int64_t>(issued) * kSecond;
  snapshot.comms.push_back(comm);
  ring::ThreadSnapshot thread;
  thread.calls = issued;
  snapshot.threads.push_back(thread);
  for (uint64_t seq = 1; seq <= issued; ++seq) {
    ring::OpSnapshot op;
    op.comm = 0;
    op.kind = ring::CallKind::kAllReduce;
    op.stage = ring::OpStage::kLaunched;
    op.datatype = 7;
    op.reduction = 0;
    op.count = 1024;
    op.seq = seq;
    op.thread = 0;
    op.index = seq;
    op.enter_ns = static_cast<int64_t>(seq) * kSecond;
    op.return_ns = op.enter_ns + 1000;
    snapshot.ops.push_back(op);
  }
  return input;
}

Bundle KilledRankBundle() {
  RingInput waiting = Ring(0, 5), dead = Ring(1, 4);
  waiting.process.life = Life::kRunning;
  waiting.process.state = "S";
  waiting.snapshot.threads[0].wait = ring::CallKind::kStreamSynchronize;
  waiting.snapshot.threads[0].wait_since_ns = 5 * kSecond + 2000;
  dead.process.life = Life::kKilled;
  dead.process.signal = 9;
  dead.process.ended_mono_ns = 4 * kSecond + 5000;
  std::vector<RingInput> rings;
  rings.push_back(std::move(waiting));
  rings.push_back(std::move(dead));
  Bundle bundle = BundleFromRings(std::move(rings));
  bundle.known_stalled = true;
  bundle.stalled_ns = 50 * kSecond;
  return bundle;
}

using IncidentTest = support::FolderTest;

TEST_F(IncidentTest, AnotherAnalysisGivesTheSameVerdict) {
  const Bundle bundle = KilledRankBundle();
  const Verdict verdict = Analyze(bundle);
  ASSERT_FALSE(verdict.findings().empty());
  EXPECT_EQ(FindingName(verdict.findings(0).kind()), "RANK_DEAD");
  IncidentFacts facts;
  facts.job = "job";
  facts.command = {"train", "\xff\xfe"};
  facts.exits = {{1, 101, "killed by signal 9 (Killed)"}};
  facts.decisions = {R"({"level":"late"})", R"({"level":"hung"})"};
  const std::string out = folder_ + "/deeper/incident";
  const absl::Status status = WriteIncident(out, bundle, verdict, facts);
  ASSERT_TRUE(status.ok()) << status;
  for (const char* name : {"manifest.json", "verdict.json", "verdict.txt", "report.html", "node1.lsd"}) {
    EXPECT_EQ(access((out + "/" + name).c_str(), R_OK), 0) << name;
  }
  EXPECT_EQ(ReadSmallFile(out + "/verdict.json"), ReportJson(verdict));
  ::testing::internal::CaptureStderr();
  WriteExplorePage(out, bundle, verdict, {}, true);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            absl::StrCat("lockstep: ", out, "/explore.html: open it in any browser\n"));
  EXPECT_THAT(ReadSmallFile(out + "/explore.html"), HasSubstr("RANK_DEAD"));
  EXPECT_THAT(ReadSmallFile(out + "/manifest.json"), HasSubstr("killed by signal 9"));

  const auto loaded = LoadPaths({out});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->ranks.size(), 2u);
  EXPECT_EQ(loaded->ranks[1].process.life, Life::kKilled);
  EXPECT_EQ(loaded->ranks[1].process.signal, 9);
  EXPECT_EQ(loaded->ranks[1].ops.size(), 4u) << "the incident must have the dead rank's records";
  EXPECT_TRUE(loaded->known_stalled);
  for (const Problem& problem : loaded->problems) ADD_FAILURE() << problem.path << ": " << problem.text;
  const Verdict again = Analyze(*loaded);
  EXPECT_EQ(VerdictName(again.verdict()), VerdictName(verdict.verdict()));
  ASSERT_EQ(again.findings_size(), verdict.findings_size());
  EXPECT_EQ(FindingName(again.findings(0).kind()), FindingName(verdict.findings(0).kind()));
  EXPECT_EQ(again.findings(0).summary(), verdict.findings(0).summary());
}

TEST_F(IncidentTest, NamesTheFileThatCouldNotBeWritten) {
  const Bundle bundle = KilledRankBundle();
  const std::string file = folder_ + "/file";
  ASSERT_TRUE(WriteFileSafely(file, "x").ok());
  const absl::Status status = WriteIncident(file, bundle, Analyze(bundle), {});
  EXPECT_THAT(std::string(status.message()), HasSubstr(file));
  EXPECT_THAT(std::string(WriteFileSafely(folder_ + "/none/x", "x").message()), HasSubstr("none/x"));
}

TEST_F(IncidentTest, WithoutSpaceForTheBrowserPageTheRestIsWritten) {
  const Bundle bundle = KilledRankBundle();
  const std::string out = folder_ + "/incident";
  ASSERT_TRUE(WriteIncident(out, bundle, Analyze(bundle), {}).ok());
  std::filesystem::create_directories(out + "/explore.html/taken");
  ::testing::internal::CaptureStderr();
  WriteExplorePage(out, bundle, Analyze(bundle), {}, false);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("lockstep: no explore.html in " + out + ": "));
  for (const char* name : {"manifest.json", "verdict.json", "node1.lsd"})
    EXPECT_EQ(access((out + "/" + name).c_str(), R_OK), 0) << name;
}

TEST_F(IncidentTest, AnEarlierRunsIncidentIsKeptUnderItsTime) {
  const std::string out = folder_ + "/incident";
  EXPECT_EQ(SetEarlierIncidentAside(out)->moved_to, "");
  EXPECT_FALSE(SetEarlierIncidentAside(out)->replaced);
  const Bundle bundle = KilledRankBundle();
  IncidentFacts facts;
  facts.captured_real_ns = 1'700'000'000 * kSecond;
  facts.decisions = {"{}"};
  std::set<std::string> names;
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(WriteIncident(out, bundle, Analyze(bundle), facts).ok());
    const absl::StatusOr<EarlierIncident> aside = SetEarlierIncidentAside(out + "/");
    ASSERT_TRUE(aside.ok()) << aside.status();
    EXPECT_THAT(aside->moved_to, HasSubstr(out + ".2023111"));
    EXPECT_FALSE(aside->replaced);
    EXPECT_EQ(access((aside->moved_to + "/decisions.jsonl").c_str(), R_OK), 0);
    EXPECT_NE(access(out.c_str(), F_OK), 0);
    names.insert(aside->moved_to);
  }
  EXPECT_EQ(names.size(), 2u) << "neither incident may replace the other";
}

TEST_F(IncidentTest, AnIncidentWithAMissingFileIsKeptToo) {
  const std::string out = folder_ + "/incident";
  const Bundle bundle = KilledRankBundle();
  std::filesystem::create_directories(out + "/report.html/taken");
  EXPECT_THAT(std::string(WriteIncident(out, bundle, Analyze(bundle), {}).message()), HasSubstr("report.html"));
  const absl::StatusOr<EarlierIncident> aside = SetEarlierIncidentAside(out);
  ASSERT_TRUE(aside.ok()) << aside.status();
  EXPECT_EQ(access((aside->moved_to + "/node1.lsd").c_str(), R_OK), 0);
}

TEST_F(IncidentTest, NothingRemainsOfAHealthyRun) {
  const std::string out = folder_ + "/incident";
  const Bundle bundle = KilledRankBundle();
  Verdict healthy;
  healthy.set_verdict(VERDICT_HEALTHY);
  IncidentFacts facts;
  facts.decisions = {"{}"};
  ASSERT_TRUE(WriteIncident(out, bundle, healthy, facts).ok());
  WriteExplorePage(out, bundle, healthy, {}, false);
  EXPECT_EQ(access((out + "/explore.html").c_str(), R_OK), 0);
  ASSERT_TRUE(WriteFileSafely(out + "/mine", "x").ok());
  const absl::StatusOr<EarlierIncident> aside = SetEarlierIncidentAside(out);
  ASSERT_TRUE(aside.ok()) << aside.status();
  EXPECT_EQ(aside->moved_to, "");
  EXPECT_TRUE(aside->replaced);
  EXPECT_EQ(system(("test \"$(ls " + out + ")\" = mine").c_str()), 0);
}

TEST_F(IncidentTest, ReportsAtTheStartIfNoIncidentCanBeWritten) {
  EXPECT_EQ(WhyNoIncidentFolder(""), "");
  EXPECT_EQ(WhyNoIncidentFolder("not/there/yet"), "");
  EXPECT_EQ(WhyNoIncidentFolder(folder_ + "/a/b"), "");
  const std::string file = folder_ + "/file";
  ASSERT_TRUE(WriteFileSafely(file, "x").ok());
  EXPECT_EQ(WhyNoIncidentFolder(file), file + " is not a folder");
  EXPECT_THAT(WhyNoIncidentFolder(file + "/below"), HasSubstr("Not a directory"));
}

TEST_F(IncidentTest, NoTemporaryFileRemains) {
  const Bundle bundle = KilledRankBundle();
  ASSERT_TRUE(WriteIncident(folder_, bundle, Analyze(bundle), {}).ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_FALSE(entry.path().filename().string().starts_with(kUnfinishedPrefix)) << entry.path();
}

}  // namespace
}  // namespace lockstep
