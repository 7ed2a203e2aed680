#include "analyzer/formats/load/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <tuple>

#include "analyzer/formats/load/registry.h"
#include "analyzer/formats/lsd/writer.h"
#include "analyzer/testing/fr_dumps.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class LoadTest : public support::FolderTest {
 protected:
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Put(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(Path(name)).parent_path());
    support::WriteFile(Path(name), text);
  }

  // Writes a dump of ranks [first, first + count) of a world of `world`.
  void PutDump(const std::string& name, int first, int count, int world, int64_t issued = 10, uint32_t restart = 0,
               const std::string& job = "train") const {
    Bundle bundle;
    bundle.job = job;
    Communicator comm;
    comm.id = "00000000000000aa";
    comm.size = world;
    comm.members.assign(static_cast<size_t>(world), -1);
    bundle.comms.push_back(comm);
    std::vector<size_t> all;
    for (int i = 0; i < count; ++i) {
      Rank rank;
      rank.rank = first + i;
      rank.world_size = world;
      rank.job = job;
      rank.pid = 100 + rank.rank + static_cast<int>(issued);
      rank.restart_count = restart;
      Membership m;
      m.comm = 0;
      m.member_rank = rank.rank;
      m.issued = issued;
      rank.memberships.push_back(m);
      bundle.ranks.push_back(rank);
      all.push_back(static_cast<size_t>(i));
    }
    fs::create_directories(fs::path(Path(name)).parent_path());
    ASSERT_TRUE(WriteLsd(bundle, all, {}, Path(name)).ok());
  }

  Bundle MustLoad(const std::vector<std::string>& paths) const {
    absl::StatusOr<Bundle> bundle = LoadPaths(paths);
    EXPECT_TRUE(bundle.ok()) << bundle.status();
    return bundle.ok() ? *std::move(bundle) : Bundle();
  }
};

TEST_F(LoadTest, AMissingPathIsNamed) {
  const absl::Status status = LoadPaths({Path("nowhere")}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(std::string(status.message()), Path("nowhere") + ": no such file or folder");
}

TEST_F(LoadTest, AnUnreadableFolderIsReportedWithWhatWasTried) {
  EXPECT_EQ(LoadPaths({folder_}).status().code(), absl::StatusCode::kFailedPrecondition);
  Put("broken.lsd", "LSDUMP1\ngarbage");
  const absl::Status status = LoadPaths({folder_}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("broken.lsd"));
}

TEST_F(LoadTest, AFileThatNoReaderClaimsIsReportedWithWhatWasTried) {
  Put("zeros/node.lsd", std::string(4096, '\0'));
  const std::string zeros(LoadPaths({Path("zeros")}).status().message());
  EXPECT_THAT(zeros, HasSubstr("node.lsd: is not recognized"));
  for (const FormatReader& format : Formats()) EXPECT_THAT(zeros, HasSubstr(format.name));
  Put("empty/node.lsd", "");
  EXPECT_THAT(std::string(LoadPaths({Path("empty/node.lsd")}).status().message()), HasSubstr("node.lsd: is empty"));
}

// Other ranks may wait for the ranks in these dumps, so the problem names the rank.
TEST_F(LoadTest, AnUnrecognizedFileNamedLikeARanksDumpIsReportedForThatRank) {
  Put("nccl_trace_rank_0", "{\"version\": \"2.4\", \"entries\": []}");
  Put("nccl_trace_rank_5", "");
  Put("notes.txt", "hello");
  const Bundle bundle = MustLoad({folder_});
  ASSERT_EQ(bundle.problems.size(), 1u);
  EXPECT_EQ(bundle.problems[0].rank, 5);
  // Next to Lockstep's own dumps, these files are skipped.
  PutDump("node0.lsd", 0, 2, 2);
  EXPECT_TRUE(MustLoad({folder_}).problems.empty());
}

TEST(Registry, FormatsAreDetectedByContent) {
  const auto name_of = [](std::string_view head) -> std::string {
    const FormatReader* format = Detect(head);
    return format == nullptr ? "" : format->name;
  };
  EXPECT_EQ(name_of("LSDUMP1\n..."), "lsd dump");
  EXPECT_TRUE(Detect("LSDUMP1\n")->certain);
  EXPECT_EQ(name_of(std::string_view("LOCKSTEP RING\r\n\x1a", 16)), "ring file");
  EXPECT_TRUE(Detect(std::string_view("LOCKSTEP RING\r\n\x1a", 16))->certain);
  EXPECT_EQ(name_of("\x80\x04\x95"), "Flight Recorder pickle");
  EXPECT_FALSE(Detect("\x80\x04\x95")->certain);
  EXPECT_EQ(name_of(" \n {\"entries\""), "Flight Recorder JSON");
  EXPECT_EQ(name_of(" [ {\"record_id\""), "Flight Recorder JSON");
  for (const std::string_view packed : {"PK\x03\x04", "\x1f\x8b\x08"})
    EXPECT_EQ(name_of(packed), "Flight Recorder dumps in gzip, zip or tar");
  EXPECT_EQ(name_of("[{\"pid\": 7, \"thread_id\": 1"), "py-spy JSON");
  EXPECT_EQ(name_of("{\n  \"nccl_version\": \"2.29.1\",\n  \"communicators_count\": 1,"), "ncclras JSON");
  EXPECT_EQ(name_of("{'loss': 2.31, 'epoch': 0.1}\n"), "log or printed stacks");
  EXPECT_EQ(name_of("{\"step\": 1}\n{\"step\": 2}\n"), "log or printed stacks");
  for (const char* line : {"{\"log\": \"step 1", "{\"time\": \"2026-11-20\", \"log\": \"step 1\"}\n",
                           "{\"@timestamp\": 1, \"message\": \""})
    EXPECT_EQ(name_of(line), "log or printed stacks") << line;
  for (const std::string_view text : {"LSDUMP", "LOCKSTEP RING", "PK", "[1]", "[rank0]: [E", "hello"})
    EXPECT_EQ(name_of(text), "log or printed stacks") << text;
  for (const std::string_view other : {"", "\x80\x07", "a\x01z"}) EXPECT_EQ(name_of(other), "") << other;
}

TEST_F(LoadTest, CancellingEndsTheLoadAtEveryStep) {
  for (int i = 0; i < 8; ++i) PutDump("ours/node" + std::to_string(i) + ".lsd", 2 * i, 2, 16);
  for (int i = 0; i < 200; ++i) Put("fr/dump_" + std::to_string(i), "{\"version\": \"2.4\", \"entries\": []}");
  for (const auto& [folder, total, step] :
       {std::tuple("ours", 16, 3), std::tuple("fr", 200, 40)}) {  // Lockstep's dumps are read twice
    for (int64_t after = -1; after <= total; after += step) {
      std::atomic<bool> cancel{after < 0};
      std::atomic<int64_t> most{0};
      LoadProgress progress;
      progress.cancel = &cancel;
      progress.on_files = [&, all = total](int64_t done, int64_t of) {
        EXPECT_EQ(of, all);
        if (done >= after) cancel = true;
        for (int64_t seen = most; seen < done && !most.compare_exchange_weak(seen, done);) {
        }
      };
      EXPECT_EQ(LoadPaths({Path(folder)}, &progress).status().code(), absl::StatusCode::kCancelled)
          << folder << " " << after;
      // A reader that has begun a file finishes it.
      EXPECT_LE(most, std::max<int64_t>(after, 0) + std::thread::hardware_concurrency()) << folder << " " << after;
    }
  }
}

TEST_F(LoadTest, AnIncidentFolderIsOneBundle) {
  PutDump("incident/node1.lsd", 4, 4, 8);
  PutDump("incident/sub/node0.lsd", 0, 4, 8);
  Put("incident/verdict.json", "{}");
  Put("incident/verdict.txt", "HUNG");
  Put("incident/decisions.jsonl", "{\"level\":\"late\"}\n");
  Put("incident/report.html", "<html>");
  Put("incident/explore.html", "\x80\x02");
  Put("incident/agent.log", "\x80\x02");
  Put("incident/README.md", "{");
  Put("incident/manifest.json",
      R"({"format":1,"job":"train","ranks_expected":12,"known_stalled":true,"stalled_ns":31000000000,"nodes":[{"file":"node1.lsd"}]})");
  const Bundle bundle = MustLoad({Path("incident")});
  EXPECT_EQ(bundle.ranks.size(), 8u);
  EXPECT_EQ(bundle.ranks_expected, 12);
  EXPECT_EQ(bundle.job, "train");
  EXPECT_TRUE(bundle.known_stalled);
  EXPECT_EQ(bundle.stalled_ns, 31'000'000'000);
  EXPECT_TRUE(bundle.problems.empty()) << bundle.problems[0].text;
  EXPECT_THAT(bundle.comms[0].members, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(LoadTest, OneOfSeveralJobsMustBeChosen) {
  PutDump("both/node0.lsd", 0, 4, 4);
  PutDump("both/node1.lsd", 0, 2, 2, 10, 0, "other");
  const auto unclear = LoadPaths({Path("both")});
  EXPECT_EQ(unclear.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(unclear.status().message(), HasSubstr("other (2 ranks), train (4 ranks)"));
  LoadLimits limits;
  limits.job = "other";
  const auto other = LoadPaths({Path("both")}, nullptr, limits);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->job, "other");
  EXPECT_EQ(other->ranks.size(), 2u);
  limits.job = "third";
  EXPECT_EQ(LoadPaths({Path("both")}, nullptr, limits).status().code(), absl::StatusCode::kInvalidArgument);
  PutDump("nameless/node0.lsd", 0, 2, 2, 10, 0, "");
  EXPECT_THAT(LoadPaths({Path("nameless")}, nullptr, limits).status().message(), HasSubstr("omit --job"));
  // An incident's manifest names its job.
  Put("both/manifest.json", R"({"job": "train"})");
  const auto train = LoadPaths({Path("both")});
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->ranks.size(), 4u);
}

TEST_F(LoadTest, TheKindIsDetectedByContent) {
  PutDump("no-extension", 0, 2, 2);
  EXPECT_EQ(MustLoad({Path("no-extension")}).ranks.size(), 2u);
}

TEST_F(LoadTest, BadManifestsAreOnlyProblems) {
  PutDump("a/node.lsd", 0, 2, 2);
  for (const std::string& text : {std::string("{\"format\":"), std::string("[1]"), std::string("{\"format\":2}"),
                                  std::string(200000, '['), std::string()}) {
    Put("a/manifest.json", text);
    const Bundle bundle = MustLoad({Path("a")});
    EXPECT_EQ(bundle.ranks.size(), 2u);
    ASSERT_EQ(bundle.problems.size(), 1u) << text.substr(0, 20);
    EXPECT_EQ(bundle.problems[0].path, Path("a/manifest.json"));
  }
  Put("a/manifest.json", R"({"format":1,"ranks_expected":"8","job":7,"known_stalled":1,"stalled_ns":-5})");
  const Bundle bundle = MustLoad({Path("a")});
  EXPECT_TRUE(bundle.problems.empty());
  EXPECT_EQ(bundle.ranks_expected, 2);
  EXPECT_FALSE(bundle.known_stalled);
}

TEST_F(LoadTest, ADamagedFileDoesNotHideTheOthers) {
  PutDump("node0.lsd", 0, 2, 4);
  Put("node1.lsd", "");
  Put("node2.lsd", "LSDUMP1\n");
  const Bundle bundle = MustLoad({folder_});
  EXPECT_EQ(bundle.ranks.size(), 2u);
  ASSERT_EQ(bundle.problems.size(), 2u);
  EXPECT_EQ(bundle.problems[0].path, Path("node1.lsd"));
  EXPECT_EQ(bundle.problems[1].path, Path("node2.lsd"));
}

TEST_F(LoadTest, FlightRecorderDumpsAreJoinedAndSimilarFilesAreNotes) {
  PutDump("node0.lsd", 0, 2, 2);
  Put("rank_0.json", "{\"version\": \"2.4\", \"entries\": []}");
  EXPECT_TRUE(MustLoad({folder_}).problems.empty());
  Put("metrics.json", "{\"loss\": 0.5}");
  const Bundle bundle = MustLoad({folder_});
  EXPECT_EQ(bundle.ranks.size(), 2u);
  EXPECT_EQ(bundle.ranks[0].source, Source::kDump);
  ASSERT_EQ(bundle.problems.size(), 1u);
  EXPECT_EQ(bundle.problems[0].path, Path("metrics.json"));
  EXPECT_TRUE(bundle.problems[0].note);
}

constexpr char kTimeout[] =
    "[rank1]:[E1 10:00:00.1 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank 1]  failure detected by "
    "watchdog at work sequence id: 7 PG status: last enqueued work: 7, last completed work: 6\n";

TEST_F(LoadTest, LogsAreReadIfThereAreNoDumps) {
  Put("train.log", kTimeout);
  Put("notes.txt", "hello");
  Put("config.json", "{\"lr\": 1}");
  const Bundle logs = MustLoad({folder_});
  ASSERT_EQ(logs.ranks.size(), 1u);
  EXPECT_EQ(logs.ranks[0].rank, 1);
  EXPECT_EQ(logs.ranks_expected, 2);
  // Next to Lockstep's own dumps, these files are skipped, at most with a note. Only Lockstep's own files must be
  // readable.
  PutDump("node0.lsd", 0, 2, 2);
  const Bundle dumps = MustLoad({folder_});
  EXPECT_EQ(dumps.ranks.size(), 2u);
  for (const Problem& problem : dumps.problems) EXPECT_TRUE(problem.note) << problem.text;
}

// Rank 1 left no dump, but its log shows which call it is in.
TEST_F(LoadTest, LogsNextToDumpsShowTheCallsOfOtherRanks) {
  fr_test::FrDump dump;
  dump.groups = {{.enqueued = 7, .completed = 6}};
  dump.entries.push_back({.seq = 7});
  for (const std::string& text : {std::string(), std::string(kTimeout)}) {
    Put("rank_0.json", fr_test::ToJson(dump));
    Put("train.log", text + "step 100\n");
    const Bundle bundle = MustLoad({folder_});
    ASSERT_EQ(bundle.ranks.size(), text.empty() ? 1u : 2u);
    if (text.empty()) continue;
    const Rank& rank = bundle.ranks[1];
    EXPECT_EQ(rank.rank, 1);
    ASSERT_EQ(rank.memberships.size(), 1u);
    EXPECT_EQ(rank.memberships[0].comm, bundle.ranks[0].memberships[0].comm);
    EXPECT_EQ(rank.memberships[0].member_rank, 1);
    ASSERT_EQ(rank.ops.size(), 1u);
    EXPECT_EQ(rank.ops[0].seq, 7);
  }
}

TEST_F(LoadTest, AnExceptionInALogIsAddedToItsRank) {
  PutDump("node0.lsd", 0, 2, 2);
  Put("output.log",
      "[rank1]: Traceback (most recent call last):\n"
      "[rank1]:   File \"/home/me/train.py\", line 15, in <module>\n"
      "[rank1]:     step()\n"
      "[rank1]: RuntimeError: shape '[3, 5]' is invalid for input of size 16\n");
  const Bundle bundle = MustLoad({folder_});
  ASSERT_EQ(bundle.ranks.size(), 2u);
  EXPECT_EQ(bundle.ranks[0].process.exception, "");
  EXPECT_EQ(bundle.ranks[1].process.exception, "RuntimeError: shape '[3, 5]' is invalid for input of size 16");
}

TEST_F(LoadTest, PrintedStacksShowWhereRanksWithADumpAre) {
  fr_test::FrDump dump;
  dump.entries.push_back({.seq = 7});
  Put("rank_0.json", fr_test::ToJson(dump));
  Put("stacks/rank_0.txt",
      "Process 41: python train.py\n\nThread 41 (idle): \"MainThread\"\n    load (data.py:12)\n"
      "    <module> (train.py:9)\n");
  const Bundle bundle = MustLoad({folder_});
  ASSERT_EQ(bundle.ranks.size(), 1u);
  EXPECT_EQ(bundle.ranks[0].ops.size(), 1u);
  EXPECT_EQ(bundle.ranks[0].pid, 41);
  ASSERT_EQ(bundle.ranks[0].process.python_stack.size(), 2u);
  EXPECT_EQ(bundle.ranks[0].process.python_stack[0], "load (data.py:12)");
}

TEST_F(LoadTest, ATextWithoutAKnownLineIsReported) {
  Put("notes.txt", "hello");
  EXPECT_THAT(std::string(LoadPaths({Path("notes.txt")}).status().message()),
              HasSubstr("notes.txt: a log without any timeout, exception"));
  Put("train.log", "step 100, loss 2.3");
  const Bundle bundle = MustLoad({Path("train.log")});
  EXPECT_TRUE(bundle.ranks.empty());
  ASSERT_EQ(bundle.problems.size(), 1u);
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("a log without any timeout"));
}

TEST_F(LoadTest, AFileGivenTwiceCountsOnce) {
  PutDump("a/node.lsd", 0, 2, 2);
  const Bundle bundle = MustLoad({Path("a"), Path("a/node.lsd"), folder_});
  EXPECT_EQ(bundle.ranks.size(), 2u);
  EXPECT_TRUE(bundle.problems.empty());
}

// A link could lead out of the folder, to any file.
TEST_F(LoadTest, LinksBelowAPathAreNotFollowed) {
  PutDump("a/node.lsd", 0, 2, 4);
  PutDump("b/node.lsd", 2, 2, 4);
  fs::create_directory_symlink(Path("b"), Path("a/folder"));
  fs::create_symlink(Path("b/node.lsd"), Path("a/file.lsd"));
  fs::create_symlink("/proc/self/root", Path("a/root.ring"));
  const Bundle bundle = MustLoad({Path("a")});
  EXPECT_EQ(bundle.ranks.size(), 2u);
  ASSERT_EQ(bundle.problems.size(), 1u);
  EXPECT_TRUE(bundle.problems[0].note);
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("3 links"));
  // A path on the command line may be a link.
  EXPECT_EQ(MustLoad({Path("a"), Path("a/folder")}).ranks.size(), 4u);
}

TEST_F(LoadTest, PipesAndDevicesAreNotRead) {
  PutDump("a/node.lsd", 0, 2, 2);
  ASSERT_EQ(mkfifo(Path("a/pipe.lsd").c_str(), 0600), 0);
  EXPECT_EQ(MustLoad({Path("a")}).ranks.size(), 2u);
  EXPECT_EQ(LoadPaths({"/dev/zero"}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LoadTest, FoldersThatAreTooDeepAreReported) {
  std::string deep = "a";
  PutDump("a/node.lsd", 0, 2, 2);
  for (int i = 0; i < 12; ++i) deep += "/d";
  PutDump(deep + "/node.lsd", 2, 2, 4);
  const Bundle bundle = MustLoad({Path("a")});
  EXPECT_EQ(bundle.ranks.size(), 2u);
  ASSERT_EQ(bundle.problems.size(), 1u);
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("8 levels deep"));
}

TEST_F(LoadTest, UnreadableFilesAreReported) {
  PutDump("a/node0.lsd", 0, 2, 4);
  PutDump("a/node1.lsd", 2, 2, 4);
  chmod(Path("a/node1.lsd").c_str(), 0);
  if (access(Path("a/node1.lsd").c_str(), R_OK) == 0) GTEST_SKIP() << "this user may read everything";
  const Bundle bundle = MustLoad({Path("a")});
  EXPECT_EQ(bundle.ranks.size(), 2u);
  ASSERT_EQ(bundle.problems.size(), 1u);
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("Permission denied"));
}

TEST_F(LoadTest, TheNewestOfSeveralGenerationsIsKept) {
  PutDump("old.lsd", 0, 4, 4, 500, 0);
  PutDump("new.lsd", 0, 3, 4, 10, 1);
  const Bundle bundle = MustLoad({folder_});
  ASSERT_EQ(bundle.ranks.size(), 3u);
  EXPECT_EQ(bundle.ranks[0].restart_count, 1u);
  ASSERT_EQ(bundle.problems.size(), 1u);
  EXPECT_TRUE(bundle.problems[0].note);
}

}  // namespace
}  // namespace lockstep
