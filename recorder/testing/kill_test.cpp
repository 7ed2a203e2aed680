// Checks that no recorded data is lost with its process. A thousand ranks are killed at random moments. Every
// acknowledged record must be in the file that they left, as far back as the ring reaches.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "recorder/ring/reader.h"
#include "tests/support/files.h"

extern char** environ;

namespace lockstep {
namespace {

using ring::CallKind;
using ring::OpSnapshot;
using ring::OpStage;
using ring::Snapshot;
using ::testing::IsEmpty;

// The number of operations that a thread's ring in a file of 512 KiB certainly contains. The ring has 512 slots, and
// one of them is being written. A group of eight members takes three slots.
constexpr uint64_t kCollectiveDepth = 511, kMemberDepth = 1300;

struct Acknowledged {
  uint64_t entered[2] = {}, returned[2] = {};  // number of the newest collective, and of the newest send or receive
  uint64_t words = 0;
};

class KillTest : public ::testing::Test {
 protected:
  pid_t Spawn(int pipe) {
    std::vector<std::string> own = {"LD_PRELOAD=" LOCKSTEP_LIBRARY, "LOCKSTEP_DIR=" + folder_, "LOCKSTEP_RING_KIB=512",
                                    "ACK_PIPE=" + std::to_string(pipe)};
    std::vector<char*> environment;
    for (char** entry = environ; *entry != nullptr; ++entry)
      if (std::string(*entry).rfind("LD_PRELOAD=", 0) != 0) environment.push_back(*entry);
    for (std::string& entry : own) environment.push_back(entry.data());
    environment.push_back(nullptr);
    char program[] = LOCKSTEP_KILL_PROGRAM;
    char* arguments[] = {program, nullptr};
    pid_t pid = -1;
    return posix_spawn(&pid, program, nullptr, nullptr, arguments, environment.data()) == 0 ? pid : -1;
  }

  // Runs and kills one process. Returns false if the test itself failed.
  bool Kill(std::mt19937* random, Acknowledged* told) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    const pid_t pid = Spawn(ends[1]);
    close(ends[1]);
    if (pid < 0) return false;
    const bool working = (*random)() % 4 != 0;  // otherwise the kill may come while the process starts
    if (working) {
      pollfd first{ends[0], POLLIN, 0};
      if (poll(&first, 1, 30000) != 1) return false;
    }
    const timespec pause{0, static_cast<long>((*random)() % (working ? 2000 : 8000)) * 1000};
    nanosleep(&pause, nullptr);
    kill(pid, SIGKILL);
    int status = 0;
    const bool killed = waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    uint64_t words[512];
    for (ssize_t got; (got = read(ends[0], words, sizeof(words))) > 0;) {
      for (size_t i = 0; i < static_cast<size_t>(got) / sizeof(words[0]); ++i) {
        const uint64_t kind = words[i] >> 40, number = words[i] & ((uint64_t{1} << 40) - 1);
        if (kind == 1 || kind == 2) told->entered[kind - 1] = std::max(told->entered[kind - 1], number);
        if (kind == 3 || kind == 4) told->returned[kind - 3] = std::max(told->returned[kind - 3], number);
        ++told->words;
      }
    }
    close(ends[0]);
    return killed;
  }

  void ExpectFound(const std::string& path, const Acknowledged& told) {
    Snapshot snapshot;
    std::string error;
    if (!ring::ReadRingFile(path, {}, &snapshot, &error)) {
      EXPECT_EQ(told.words, 0u) << error;
      ++unborn_;
      return;
    }
    EXPECT_THAT(snapshot.problems, IsEmpty());
    EXPECT_EQ(snapshot.process.state, ring::RecorderState::kRecording);
    std::set<uint64_t> found[2], finished[2];
    for (const OpSnapshot& op : snapshot.ops) {
      const bool p2p = ring::IsPointToPoint(op.kind);
      if (!p2p && op.kind != CallKind::kAllReduce) continue;
      const uint64_t number = op.count & ((uint64_t{1} << 40) - 1);
      EXPECT_EQ(op.count >> 40, p2p ? 2u : 1u);
      EXPECT_EQ(op.comm, p2p ? 1u : 0u);
      EXPECT_EQ(op.seq, p2p ? (number - 1) / 8 + 1 : number) << "number and payload must belong to one record";
      if (p2p) {
        EXPECT_EQ(op.root_or_peer, static_cast<int32_t>((number - 1) % 8 / 2));
      }
      found[p2p].insert(number);
      if (op.stage == OpStage::kLaunched && op.return_ns != 0) finished[p2p].insert(number);
    }
    for (const int what : {0, 1}) {
      const uint64_t depth = what == 0 ? kCollectiveDepth : kMemberDepth;
      const uint64_t newest = found[what].empty() ? 0 : *found[what].rbegin();
      EXPECT_GE(newest, told.entered[what]);
      for (uint64_t n = newest > depth ? newest - depth + 1 : 1; n <= told.entered[what]; ++n)
        missing_ += 1 - found[what].count(n);
      for (uint64_t n = newest > depth ? newest - depth + 1 : 1; n <= told.returned[what]; ++n)
        unfinished_ += 1 - finished[what].count(n);
      checked_ += std::min(told.entered[what], depth);
    }
    if (!snapshot.comms.empty()) {
      EXPECT_GE(snapshot.comms[0].issued_seq, told.entered[0]);
    }
    if (snapshot.comms.size() > 1) {
      uint64_t sum = 0;
      for (const ring::PeerProgress& peer : snapshot.comms[1].peers) sum += peer.sends + peer.recvs;
      EXPECT_GE(sum, told.entered[1]);
    }
  }

  const support::TempFolder temp_{"/dev/shm"};
  const std::string folder_ = temp_.path();
  uint64_t missing_ = 0, unfinished_ = 0, checked_ = 0, unborn_ = 0;
};

TEST_F(KillTest, AThousandKillsLoseNoAcknowledgedRecord) {
  const char* text = std::getenv("LOCKSTEP_TEST_KILLS");
  const int kills = text != nullptr ? std::atoi(text) : 1000;
  std::random_device seed;
  const unsigned start = seed();
  std::mt19937 random(start);
  int early = 0;
  for (int i = 0; i < kills && !HasFailure(); ++i) {
    Acknowledged told;
    ASSERT_TRUE(Kill(&random, &told));
    int files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (!entry.is_regular_file()) continue;
      ++files;
      ExpectFound(entry.path(), told);
      std::filesystem::remove(entry.path());
    }
    EXPECT_LE(files, 1);
    if (files == 0) {
      EXPECT_EQ(told.words, 0u) << "records were acknowledged, and there is no file";
    }
    early += told.words == 0;
    EXPECT_EQ(missing_, 0u) << "seed " << start << ", life " << i;
    EXPECT_EQ(unfinished_, 0u) << "seed " << start << ", life " << i;
  }
  printf(
      "%d kills, %d of them before the first record; %lu acknowledged records within the rings' depth, missing %lu\n",
      kills, early, checked_, missing_);
  EXPECT_GT(checked_, 20u * static_cast<uint64_t>(kills));
}

}  // namespace
}  // namespace lockstep
