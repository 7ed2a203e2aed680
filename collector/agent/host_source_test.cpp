#include "collector/agent/host_source.h"
#include "analyzer/util/time_units.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "analyzer/model/rank_set.h"
#include "collector/host/proc.h"
#include "collector/testing/ring.h"
#include "recorder/ring/reader.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class HostSourceTest : public support::FolderTest {
 protected:
  void SetUp() override {
    options_.host = "node1";
    options_.boot_id = BootId();
    options_.version = "test";
    options_.log = [this](const std::string& line) { log_ += line + "\n"; };
    Open();
  }
  void TearDown() override {
    source_.reset();
    spool_.reset();
  }
  void Open() {
    source_.reset();
    spool_.reset();
    SpoolOptions spool;
    spool.folder = folder_ + "/spool";
    absl::StatusOr<std::unique_ptr<Spool>> opened = Spool::Open(spool);
    ASSERT_TRUE(opened.ok()) << opened.status();
    spool_ = std::move(*opened);
    absl::StatusOr<std::unique_ptr<HostSource>> made = HostSource::Make(options_, spool_.get());
    ASSERT_TRUE(made.ok()) << made.status();
    source_ = std::move(*made);
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name + ".ring"; }
  void Adopt(const std::string& name, std::optional<uid_t> user = std::nullopt) {
    FoundRing ring;
    ring.path = Path(name);
    ring.name = name + ".ring";
    ring.fd.reset(open(ring.path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    ASSERT_EQ(fstat(ring.fd.get(), &info), 0);
    ring.uid = user.value_or(info.st_uid);
    ring.device = info.st_dev;
    ring.inode = info.st_ino;
    source_->Adopt(std::move(ring));
  }
  bool Wait(const std::function<bool()>& done) {
    const int64_t end = MonotonicNs() + 30 * kSecond;
    for (;;) {
      source_->Look(MonotonicNs());
      if (done()) return true;
      if (MonotonicNs() > end) return false;
      pollfd wait{source_->ends_fd(), POLLIN, 0};
      poll(&wait, 1, 20);
    }
  }
  const RankSight* Sight(int32_t rank, size_t job = 0) {
    if (job >= source_->jobs()) return nullptr;
    for (const RankSight& sight : source_->ranks(job)) {
      if (sight.rank == rank) return &sight;
    }
    return nullptr;
  }
  CollectRequest Request(CollectRequest::Phase phase, std::initializer_list<int32_t> ranks = {}) {
    CollectRequest request;
    request.set_request(++requests_);
    request.set_phase(phase);
    request.set_incident("incident");
    *request.mutable_job() = source_->job(0);
    Ranks(ranks).To(request.mutable_ranks());
    return request;
  }

  std::string log_;
  HostSourceOptions options_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<HostSource> source_;
  uint64_t requests_ = 0;
};

TEST_F(HostSourceTest, TheFirstOfSeveralEndsIsReportedFirstAndRingsOfAbnormalEndsAreSaved) {
  TestRank good(Path("r0"), {.rank = 0}, 0), bad(Path("r1"), {.rank = 1}, 3), killed(Path("r2"), {.rank = 2}),
      lives(Path("r3"), {.rank = 3});
  for (const char* name : {"r0", "r1", "r2", "r3"}) Adopt(name);
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1 && source_->ranks(0).size() == 4; }));
  ProcessEnded ended;
  EXPECT_FALSE(source_->NextEnded(&ended));
  killed.Reap(SIGKILL);
  bad.Reap(0);
  good.Reap(0);
  ASSERT_TRUE(Wait([&] { return source_->counters().ended == 3; }));
  ASSERT_TRUE(source_->NextEnded(&ended));
  EXPECT_EQ(ended.rank(), 2);
  const int64_t first = ended.state().ended_mono_ns();
  EXPECT_TRUE(ended.state().life() == ProcessState::KILLED || ended.state().life() == ProcessState::GONE);
  ASSERT_TRUE(source_->NextEnded(&ended));
  EXPECT_EQ(ended.rank(), 1);
  EXPECT_GT(ended.state().ended_mono_ns(), first);
  ASSERT_TRUE(source_->NextEnded(&ended));
  EXPECT_FALSE(source_->NextEnded(&ended));
  EXPECT_FALSE(Sight(2)->view.alive);
  EXPECT_TRUE(Sight(2)->view.ended_badly);
  EXPECT_TRUE(Sight(3)->view.alive);
  ASSERT_TRUE(spool_->Flush(30 * kSecond));
  std::string saved;
  for (const std::string& name : spool_->SavedRings()) saved += name + "\n";
  EXPECT_THAT(saved, HasSubstr(".r1."));
  EXPECT_THAT(saved, HasSubstr(".r2."));
  EXPECT_THAT(saved, ::testing::Not(HasSubstr(".r3.")));
  source_->TellAgain();
  ASSERT_TRUE(source_->NextEnded(&ended));
  EXPECT_EQ(ended.rank(), 2);
}

TEST_F(HostSourceTest, AProcessThatStartedAndEndedBetweenTwoScansIsReported) {
  TestRank lives(Path("r0"), {.rank = 0}), killed(Path("r1"), {.rank = 1});
  killed.Reap(SIGKILL);
  Adopt("r0");
  Adopt("r1");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1 && source_->ranks(0).size() == 2; }));
  EXPECT_TRUE(Sight(1)->view.ended_badly);
  ProcessEnded ended;
  ASSERT_TRUE(source_->NextEnded(&ended));
  EXPECT_EQ(ended.rank(), 1);
  EXPECT_EQ(ended.state().life(), ProcessState::GONE);
  EXPECT_GT(ended.clock_uncertainty_ns(), 0);
  EXPECT_FALSE(source_->NextEnded(&ended));
  // An agent that starts later ignores these old exits.
  fs::remove_all(folder_ + "/spool");
  Open();
  Adopt("r0");
  Adopt("r1");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1 && source_->ranks(0).size() == 2; }));
  EXPECT_FALSE(source_->NextEnded(&ended));
}

TEST_F(HostSourceTest, TheNextAgentKnowsEndedRanksWithoutTheirRings) {
  TestRank killed(Path("r0"), {.rank = 0}), lives(Path("r1"), {.rank = 1});
  Adopt("r0");
  Adopt("r1");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1; }));
  killed.Reap(SIGSEGV);
  ASSERT_TRUE(Wait([&] { return source_->counters().saved == 1; }));
  ASSERT_TRUE(spool_->Flush(30 * kSecond));
  fs::remove(Path("r0"));  // the ring disappears with its container
  Open();
  Adopt("r1");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1 && source_->ranks(0).size() == 2; }));
  EXPECT_FALSE(Sight(0)->view.alive);
  EXPECT_TRUE(Sight(1)->view.alive);
  source_->TellAgain();
  ProcessEnded ended;
  ASSERT_TRUE(source_->NextEnded(&ended));
  EXPECT_EQ(ended.rank(), 0);
  EXPECT_NE(ended.state().ended_mono_ns(), 0);
  Digest digest;
  source_->FillDigest(Request(CollectRequest::DIGEST), &digest);
  EXPECT_EQ(digest.ranks_size(), 2);
}

TEST_F(HostSourceTest, ARingInTheFolderAndInTheSpoolIsOneRank) {
  TestRank killed(Path("r0"), {.rank = 0}), lives(Path("r1"), {.rank = 1});
  Adopt("r0");
  Adopt("r1");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1; }));
  killed.Reap(SIGKILL);
  ASSERT_TRUE(Wait([&] { return source_->counters().saved == 1; }));
  ASSERT_TRUE(spool_->Flush(30 * kSecond));
  Open();
  Adopt("r0");
  Adopt("r1");
  ASSERT_TRUE(
      Wait([&] { return source_->jobs() == 1 && source_->ranks(0).size() == 2 && source_->counters().rings == 2; }));
  ASSERT_TRUE(spool_->Flush(30 * kSecond));
  EXPECT_EQ(spool_->SavedRings().size(), 1u);
  Digest digest;
  source_->FillDigest(Request(CollectRequest::DIGEST), &digest);
  EXPECT_EQ(digest.ranks_size(), 2);
}

TEST_F(HostSourceTest, JobsGenerationsAndUsersStaySeparate) {
  TestRank a(Path("a"), {.job = "a", .rank = 0}), b(Path("b"), {.job = "b", .rank = 0}),
      again(Path("a1"), {.job = "a", .restart = 1, .rank = 0}), step(Path("s"), {.job = "a", .step = "2", .rank = 0});
  for (const char* name : {"a", "b", "a1", "s"}) Adopt(name);
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 4; }));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(source_->ranks(i).size(), 1u);
    EXPECT_EQ(source_->job(i).uid(), geteuid());
  }
  CollectRequest stranger = Request(CollectRequest::DIGEST);
  stranger.mutable_job()->set_uid(4711);
  Digest digest;
  source_->FillDigest(stranger, &digest);
  EXPECT_THAT(digest.refused(), HasSubstr("no rank of this job is on node1"));
}

TEST_F(HostSourceTest, OfTwoProcessesOfARankTheYoungerIsShownAndBothAreReported) {
  TestRank older(Path("a"), {.rank = 5});
  TestRank younger(Path("b"), {.rank = 5});
  Adopt("b");
  Adopt("a");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1; }));
  ASSERT_EQ(source_->ranks(0).size(), 1u);
  EXPECT_EQ(source_->ranks(0)[0].digest->process.pid, younger.pid());
  EXPECT_THAT(log_, HasSubstr("two processes of train both claim to be rank 5"));
  younger.Reap(SIGKILL);
  ASSERT_TRUE(Wait([&] { return source_->ranks(0)[0].digest->process.pid == older.pid(); }));
}

TEST_F(HostSourceTest, TwoJobsWithTheSameNameOnAHostAreDistinguished) {
  TestRank one(Path("a"), {.rank = 5}), other(Path("b"), {.rank = 5, .comm = 78}),
      more(Path("c"), {.rank = 6, .comm = 78});
  for (const char* name : {"a", "b", "c"}) Adopt(name);
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 2; }));
  ASSERT_EQ(source_->ranks(0).size(), 1u);
  ASSERT_EQ(source_->ranks(1).size(), 2u);
  EXPECT_EQ(source_->job(0).life(), 0u);
  EXPECT_EQ(source_->job(1).life(), 1u);
  EXPECT_EQ(Sight(5, 0)->digest->process.pid, one.pid());
  EXPECT_EQ(Sight(5, 1)->digest->process.pid, other.pid());
  EXPECT_THAT(log_, HasSubstr("belongs to another job of the same name"));
  // A request gets only the ranks of its job.
  for (size_t i = 0; i < 2; ++i) {
    CollectRequest request = Request(CollectRequest::DIGEST);
    *request.mutable_job() = source_->job(i);
    Digest digest;
    source_->FillDigest(request, &digest);
    ASSERT_EQ(digest.ranks_size(), i == 0 ? 1 : 2);
    EXPECT_EQ(digest.ranks(0).rank().pid(), i == 0 ? one.pid() : other.pid());
  }
  other.Reap(SIGKILL);
  ProcessEnded ended;
  ASSERT_TRUE(Wait([&] { return source_->NextEnded(&ended); }));
  EXPECT_EQ(ended.job().life(), 1u);
  EXPECT_EQ(ended.rank(), 5);
}

TEST_F(HostSourceTest, AJobRestartedUnderItsNameIsAnotherJob) {
  TestRank first(Path("a"), {.rank = 0});
  Adopt("a");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1; }));
  first.Reap(SIGKILL);
  ASSERT_TRUE(Wait([&] { return !source_->ranks(0)[0].view.alive; }));
  TestRank again(Path("b"), {.rank = 0, .comm = 78});
  Adopt("b");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 2; }));
  EXPECT_FALSE(Sight(0, 0)->view.alive);
  EXPECT_TRUE(Sight(0, 1)->view.alive);
}

TEST_F(HostSourceTest, ARingThatNamesAnotherProcessIsNotBelieved) {
  TestRank honest(Path("honest"), {.rank = 0});
  // The ring names the PID and the start time of a process that does not own it.
  WriteTestRing(Path("liar"), {.rank = 1, .pid = honest.pid()});
  WriteTestRing(Path("late"), {.rank = 2, .pid = honest.pid(), .start_ticks = 1});
  Adopt("honest");
  Adopt("liar");
  Adopt("late");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1; }));
  EXPECT_TRUE(Sight(0)->view.alive);
  EXPECT_FALSE(Sight(1)->view.alive);
  EXPECT_FALSE(Sight(2)->view.alive);
  EXPECT_EQ(source_->counters().live, 1u);
}

TEST_F(HostSourceTest, ARingThatChangesItsOwnerKeepsTheFirst) {
  TestRank rank(Path("a"), {.rank = 0}), other(Path("b"), {.rank = 1});
  Adopt("a");
  Adopt("b");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1 && source_->ranks(0).size() == 2; }));
  WriteTestRing(Path("a"), {.job = "somebody else's", .rank = 7, .pid = other.pid()});
  ASSERT_TRUE(Wait([&] { return source_->counters().changed > 0; }));
  EXPECT_EQ(source_->jobs(), 1u);
  EXPECT_NE(Sight(0), nullptr);
  EXPECT_EQ(Sight(7), nullptr);
  // Even when the ring is truncated to nothing, the rank keeps its last state.
  ASSERT_EQ(truncate(Path("b").c_str(), 0), 0);
  source_->Look(MonotonicNs());
  EXPECT_NE(Sight(1), nullptr);
}

TEST_F(HostSourceTest, InvalidAndTooManyRingsAreIgnored) {
  source_.reset();
  options_.most_rings_of_user = 3;
  Open();
  std::ofstream(Path("junk")) << std::string(70000, 'x');
  TestRank a(Path("a"), {.rank = 0}), b(Path("b"), {.rank = 1}), c(Path("c"), {.rank = 2});
  for (const char* name : {"junk", "a", "b", "c"}) Adopt(name);
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1; }));
  EXPECT_EQ(source_->ranks(0).size(), 2u);
  EXPECT_EQ(source_->counters().refused, 1u);
  // After a minute on the given clock, invalid rings are dropped.
  source_->Look(MonotonicNs() + 120 * kSecond);
  EXPECT_EQ(source_->counters().unreadable, 1u);
  EXPECT_EQ(source_->counters().rings, 2u);
}

// One user has the largest possible ring, full of communicators and operations, under many names.
TEST_F(HostSourceTest, ManyLargeRingsOfOneUserDoNotDelayOtherUsersRings) {
#ifdef LOCKSTEP_WATCHED
  GTEST_SKIP() << "compares times of the CPU, which a sanitizer multiplies by different factors";
#endif
  WriteTestRing(Path("large"), {.job = "attack", .pid = 1, .start_ticks = 99});
  const int fd = open(Path("large").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, ring::kMaxFileBytes), 0);
  ring::Header header;
  ASSERT_EQ(pread(fd, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  header.file_bytes = ring::kMaxFileBytes;
  header.comms_used = 4096;
  header.sections[0].count = 4096;
  header.section_count = 1;
  ASSERT_EQ(pwrite(fd, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  for (uint64_t i = 0; i < 4096; ++i) {
    ring::CommEntry comm{};
    comm.guard = 2;
    comm.state = 2;
    comm.id = i + 1;
    comm.created_ticks = header.created_ticks;
    comm.recent_collectives = ring::kRecentCollectives;
    comm.recent_p2p = ring::kRecentP2p;
    for (uint64_t n = 0; n < ring::kRecentCollectives; ++n) comm.collectives[n].guard = n + 1;
    for (uint64_t n = 0; n < ring::kRecentP2p; ++n) comm.p2p[n].guard = n + 1;
    ASSERT_EQ(pwrite(fd, &comm, sizeof comm, static_cast<off_t>(header.sections[0].offset + i * sizeof comm)),
              static_cast<ssize_t>(sizeof comm));
  }
  const auto cost = [](const auto& work) {
    const int64_t begin = ThreadCpuNs();
    work();
    return ThreadCpuNs() - begin;
  };
  const int64_t one = cost([&] {
    ring::Snapshot digest;
    std::string error;
    ASSERT_TRUE(ring::ReadRing(fd, {true}, &digest, &error)) << error;
    EXPECT_EQ(digest.recent.size(), 4096u * (ring::kRecentCollectives + ring::kRecentP2p));
  });
  close(fd);
  const auto adopt = [&](const std::string& name) {
    fs::create_hard_link(Path("large"), Path(name));
    Adopt(name, 54321);
  };
  constexpr int kNames = 600;
  const int64_t began = MonotonicNs();
  const int64_t adopting = cost([&] {
    for (int i = 0; i < kNames; ++i) adopt("large" + std::to_string(i));
  });
  EXPECT_LT(adopting, kSecond + 5 * one + (MonotonicNs() - began) / 2);
  int64_t longest = 0;
  for (int i = 0; i < 5; ++i)
    longest = std::max(longest, cost([&] { source_->Look(MonotonicNs() + i * 20 * kSecond); }));
  EXPECT_LT(longest, kSecond / 2 + 20 * one);
  EXPECT_THAT(log_, HasSubstr("the rings of user 54321 are too large"));
  TestRank rank(Path("a"), {.rank = 0});
  Adopt("a");
  source_->Look(MonotonicNs());
  ASSERT_EQ(source_->jobs(), 1u);
  EXPECT_EQ(source_->job(0).job(), "train");
}

TEST_F(HostSourceTest, AJobThatEndedBeforeIsNotShownAndOneThatEndsNowIsShownForLong) {
  WriteTestRing(Path("old"), {.job = "old", .rank = 0, .pid = 1, .start_ticks = 99});
  Adopt("old");
  TestRank rank(Path("a"), {.rank = 0});
  Adopt("a");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1; }));
  EXPECT_EQ(source_->job(0).job(), "train");
  rank.Reap(SIGTERM);
  ASSERT_TRUE(Wait([&] { return source_->counters().ended == 1; }));
  source_->Look(MonotonicNs() + 300 * kSecond);
  EXPECT_EQ(source_->jobs(), 1u);
  EXPECT_EQ(source_->counters().rings, 1u);
  source_->Look(MonotonicNs() + 700 * kSecond);
  EXPECT_EQ(source_->jobs(), 0u);
  EXPECT_EQ(source_->counters().rings, 0u);
}

// A recorder is as old as its job, so it may be older or newer than the agent.
TEST_F(HostSourceTest, RingsOfOlderAndNewerRecordersAreReadSideBySide) {
  TestRank old(Path("old"), {.rank = 0, .first_layout = true}), now(Path("now"), {.rank = 1}),
      later(Path("later"), {.rank = 2, .layout = 3});
  for (const char* name : {"old", "now", "later"}) Adopt(name);
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1 && source_->ranks(0).size() == 3; }));
  for (int32_t rank : {0, 1, 2}) {
    const RankSight* sight = Sight(rank);
    ASSERT_NE(sight, nullptr) << rank;
    ASSERT_EQ(sight->digest->comms.size(), 1u) << rank;
    EXPECT_EQ(sight->digest->comms[0].issued_seq, 912u) << rank;
    EXPECT_EQ(sight->digest->comms[0].name, "world") << rank;
    EXPECT_TRUE(sight->view.alive) << rank;
  }
  Digest digest;
  source_->FillDigest(Request(CollectRequest::DIGEST), &digest);
  EXPECT_EQ(digest.refused(), "");
  ASSERT_EQ(digest.ranks_size(), 3);
  for (const RankDigest& rank : digest.ranks()) EXPECT_EQ(rank.communicators_size(), 1);
}

TEST_F(HostSourceTest, EvidenceAndWholeRingsComeForTheRequestedRanks) {
  source_.reset();
  options_.gather = [](pid_t pid, int ring) {
    EXPECT_GE(ring, 0);
    EvidenceReport report;
    report.set_pid(pid);
    return report;
  };
  Open();
  TestRank a(Path("a"), {.rank = 0}), b(Path("b"), {.rank = 1});
  Adopt("a");
  Adopt("b");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1 && source_->ranks(0).size() == 2; }));
  const CollectRequest request = Request(CollectRequest::EVIDENCE, {1});
  source_->Gather(request);
  source_->Gather(request);  // requested again while the work is in progress
  HostEvidence evidence;
  ASSERT_TRUE(Wait([&] { return source_->NextEvidence(&evidence); }));
  EXPECT_EQ(evidence.request(), request.request());
  ASSERT_EQ(evidence.reports_size(), 1);
  EXPECT_EQ(evidence.reports(0).rank(), 1);
  EXPECT_EQ(evidence.reports(0).pid(), b.pid());
  EXPECT_TRUE(evidence.last());
  source_->Gather(Request(CollectRequest::EVERYTHING));
  ASSERT_TRUE(Wait([&] { return spool_->counters().files_put == 2; }));
  Chunk first, second;
  ASSERT_TRUE(Wait([&] { return spool_->Next(&first); }));
  EXPECT_EQ(first.file(), "node1.evidence.lsd");
  ASSERT_TRUE(Wait([&] { return spool_->Next(&second); }));
  EXPECT_EQ(second.file(), "node1.lsd");
  EXPECT_EQ(second.incident(), "incident");
  source_->Gather(request);
  ASSERT_TRUE(Wait([&] { return source_->NextEvidence(&evidence); }));
  EXPECT_EQ(spool_->counters().files_put, 2u);
}

TEST_F(HostSourceTest, RequestsAboveTheLimitAreAnsweredWithTheReason) {
  TestRank a(Path("a"), {.rank = 0});
  Adopt("a");
  ASSERT_TRUE(Wait([&] { return source_->jobs() == 1 && source_->ranks(0).size() == 1; }));
  CollectRequest request;
  for (int i = 0; i <= 256; ++i) {
    request = Request(CollectRequest::EVIDENCE);
    Ranks({0}).To(request.mutable_merged());
    source_->Gather(request);
  }
  HostEvidence evidence;
  ASSERT_TRUE(source_->NextEvidence(&evidence));
  EXPECT_EQ(evidence.request(), request.request());
  EXPECT_THAT(evidence.problem(), HasSubstr("no evidence from node1 yet: 256 processes"));
  EXPECT_FALSE(evidence.last()) << "the collector must ask again";
  for (int i = 0; i < 256; ++i) {
    ASSERT_TRUE(Wait([&] { return source_->NextEvidence(&evidence); }));
    EXPECT_EQ(evidence.problem(), "");
  }
  source_->Gather(request);
  ASSERT_TRUE(Wait([&] { return source_->NextEvidence(&evidence); }));
  EXPECT_EQ(evidence.request(), request.request());
  EXPECT_EQ(evidence.reports_size(), 1);
  EXPECT_TRUE(evidence.last());
  for (int i = 0; i <= 256; ++i) source_->Gather(Request(CollectRequest::EVERYTHING));
  ASSERT_TRUE(source_->NextEvidence(&evidence));
  EXPECT_EQ(evidence.request(), requests_);
  EXPECT_THAT(evidence.problem(), HasSubstr("no rings from node1: too many"));
}

}  // namespace
}  // namespace lockstep
