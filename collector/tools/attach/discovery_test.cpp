#include "collector/tools/attach/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kNccl[] = "7f0000000000-7f0000001000 r-xp 00000000 fe:01 77   /opt/lib/libnccl.so.2\n";

// A proc file system of simulated processes.
class DiscoveryTest : public ::testing::Test {
 protected:
  struct Fake {
    std::string comm = "python";
    pid_t parent = 1;
    std::vector<std::string> environment = {};
    std::string maps = "";
    char state = 'S';
    int wait_status = 0;
    std::string network = "", device = "";  // targets of links in ns and fd
  };

  void Add(pid_t pid, const Fake& fake) {
    const std::string place = absl::StrCat(folder_.path(), "/", pid);
    mkdir(place.c_str(), 0700);
    std::string stat = absl::StrCat(pid, " (", fake.comm, ") ", std::string(1, fake.state), " ", fake.parent,
                                    " 1 1 0 -1 4194304 0 0 0 0 10 20 3 4 20 0 5 0 987654 1 2");
    // Field 52 is the exit status.
    for (int i = 0; i < 27; ++i) stat += " 0";
    support::WriteFile(place + "/stat", absl::StrCat(stat, " ", fake.wait_status, "\n"));
    support::WriteFile(place + "/comm", fake.comm + "\n");
    if (fake.state == 'Z') return;
    support::WriteFile(place + "/environ",
                       absl::StrJoin(fake.environment, std::string(1, '\0')) + std::string(1, '\0'));
    support::WriteFile(place + "/maps", fake.maps);
    for (const auto& [name, target] : {std::pair(std::string("ns/net"), fake.network), {"fd/9", fake.device}}) {
      if (target.empty()) continue;
      mkdir(absl::StrCat(place, "/", name.substr(0, 2)).c_str(), 0700);
      ASSERT_EQ(symlink(target.c_str(), absl::StrCat(place, "/", name).c_str()), 0);
    }
  }

  static std::vector<std::string> Torchrun(int rank, int world, int port = 29500) {
    return {absl::StrCat("RANK=", rank),
            absl::StrCat("LOCAL_RANK=", rank),
            absl::StrCat("WORLD_SIZE=", world),
            absl::StrCat("LOCAL_WORLD_SIZE=", world),
            "MASTER_ADDR=node1",
            absl::StrCat("MASTER_PORT=", port),
            "HOME=/home/someone"};
  }

  Discovery Find(const std::vector<pid_t>& pids = {}) const { return FindJobs(pids, folder_.path()); }

  static std::vector<pid_t> Pids(const FoundJob& job) {
    std::vector<pid_t> pids;
    for (const RankProcess& rank : job.ranks) pids.push_back(rank.pid);
    return pids;
  }

  support::TempFolder folder_;
};

TEST_F(DiscoveryTest, JobsOfTwoContainersWithTheSameLoopbackAddressAreTwo) {
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::string> environment = Torchrun(rank, 2);
    std::replace(environment.begin(), environment.end(), std::string("MASTER_ADDR=node1"),
                 std::string("MASTER_ADDR=127.0.0.1"));
    Add(100 + rank, {.environment = environment, .maps = kNccl, .network = "net:[1]"});
    Add(200 + rank, {.environment = environment, .maps = kNccl, .network = "net:[2]"});
  }
  const Discovery found = Find();
  ASSERT_THAT(found.jobs, SizeIs(2));
  EXPECT_THAT(Pids(found.jobs[0]), ElementsAre(100, 101));
  EXPECT_THAT(Pids(found.jobs[1]), ElementsAre(200, 201));
}

TEST_F(DiscoveryTest, ContainersOfOneJobAreOneJob) {
  for (int rank = 0; rank < 2; ++rank)
    Add(100 + rank, {.environment = Torchrun(rank, 2), .maps = kNccl, .network = absl::StrCat("net:[", rank, "]")});
  EXPECT_THAT(Find().jobs, SizeIs(1));
}

TEST_F(DiscoveryTest, ProcessesWithoutRankAndLibraryAreFoundByTheirGpus) {
  Add(100, {.comm = "train", .device = "/dev/nvidia0"});
  Add(101, {.comm = "train", .device = "/dev/nvidia11"});
  Add(102, {.comm = "nvidia-smi", .device = "/dev/nvidiactl"});
  const Discovery found = Find();
  ASSERT_THAT(found.jobs, SizeIs(1));
  EXPECT_THAT(Pids(found.jobs[0]), ElementsAre(100, 101));
}

TEST_F(DiscoveryTest, RanksAreFoundWithoutTheirStartersAndHelpers) {
  Add(50, {.comm = "torchrun", .environment = {"SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_JOB_ID=7"}, .maps = kNccl});
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::string> environment = Torchrun(rank, 2);
    environment.insert(environment.end(), {"SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_JOB_ID=7"});
    Add(100 + rank, {.comm = "bash", .parent = 50, .environment = environment});
    Add(200 + rank, {.parent = 100 + rank, .environment = environment, .maps = kNccl});
    Add(300 + rank, {.parent = 200 + rank, .environment = environment, .maps = kNccl});  // forked from the rank
    Add(400 + rank, {.comm = "pt_data_worker", .parent = 1, .environment = environment, .maps = kNccl});
  }
  const Discovery found = Find();
  ASSERT_THAT(found.jobs, SizeIs(1));
  EXPECT_THAT(Pids(found.jobs[0]), ElementsAre(200, 201));
  EXPECT_EQ(found.jobs[0].name, "7");
  EXPECT_EQ(found.jobs[0].slurm_id, "7");
  EXPECT_EQ(found.jobs[0].world, 2);
  EXPECT_THAT(found.jobs[0].ended, IsEmpty());
  // pgrep finds a rank's data loaders, too.
  const Discovery given = Find({200, 201, 300, 301, 400});
  ASSERT_THAT(given.jobs, SizeIs(1));
  EXPECT_THAT(Pids(given.jobs[0]), ElementsAre(200, 201));
}

TEST_F(DiscoveryTest, EveryLaunchersVariablesAreKnown) {
  const std::vector<std::vector<std::string>> each = {
      {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1"},
      {"PMI_RANK=1", "PMI_SIZE=4"},
      {"SLURM_PROCID=1", "SLURM_NTASKS=4", "SLURM_LOCALID=1"},
      {"PMIX_RANK=1"}};
  for (const std::vector<std::string>& environment : each) {
    Add(10, {.comm = "train", .environment = environment});
    const Discovery found = Find();
    ASSERT_THAT(found.jobs, SizeIs(1)) << environment[0];
    EXPECT_EQ(found.jobs[0].ranks[0].rank, 1) << environment[0];
    EXPECT_FALSE(found.jobs[0].numbered);
  }
}

TEST_F(DiscoveryTest, SeveralJobsAreFound) {
  for (int rank = 0; rank < 2; ++rank) {
    Add(10 + rank, {.environment = Torchrun(rank, 2)});
    Add(20 + rank, {.environment = Torchrun(rank, 2, 29501)});
  }
  const Discovery found = Find();
  ASSERT_THAT(found.jobs, SizeIs(2));
  EXPECT_EQ(found.jobs[0].name, "port-29500");
  EXPECT_EQ(found.jobs[1].name, "port-29501");
  const Discovery chosen = Find({20, 21});
  ASSERT_THAT(chosen.jobs, SizeIs(1));
  EXPECT_THAT(Pids(chosen.jobs[0]), ElementsAre(20, 21));
}

TEST_F(DiscoveryTest, EndedRanksAreReported) {
  for (const int rank : {0, 1, 3}) Add(10 + rank, {.parent = 5, .environment = Torchrun(rank, 4)});
  ASSERT_THAT(Find().jobs, SizeIs(1));
  ASSERT_THAT(Find().jobs[0].ended, SizeIs(1));
  EXPECT_EQ(Find().jobs[0].ended[0].rank, 2);
  EXPECT_EQ(Find().jobs[0].ended[0].wait_status, -1);
  // Rank 2 is a zombie: it has ended, and its parent has not waited for it.
  Add(12, {.parent = 5, .state = 'Z', .wait_status = 3 << 8});
  EXPECT_EQ(Find().jobs[0].ended[0].pid, 12);
  EXPECT_EQ(Find().jobs[0].ended[0].wait_status, 3 << 8);
}

// Four of eight ranks run on this host, and their numbers are known.
TEST_F(DiscoveryTest, RanksOfOtherHostsHaveNotEnded) {
  for (const int local : {0, 1, 3}) {
    std::vector<std::string> environment = {absl::StrCat("RANK=", 4 + local), absl::StrCat("LOCAL_RANK=", local),
                                            "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=node1"};
    Add(10 + local, {.environment = environment});
  }
  const Discovery found = Find();
  ASSERT_THAT(found.jobs, SizeIs(1));
  ASSERT_THAT(found.jobs[0].ended, SizeIs(1));
  EXPECT_EQ(found.jobs[0].ended[0].rank, 6);
}

TEST_F(DiscoveryTest, ProcessesWithoutARankAreNumbered) {
  Add(10, {.comm = "vllm", .maps = kNccl});
  Add(12, {.comm = "vllm", .maps = kNccl});
  Add(14, {.comm = "vim"});
  const Discovery found = Find();
  ASSERT_THAT(found.jobs, SizeIs(1));
  EXPECT_TRUE(found.jobs[0].numbered);
  EXPECT_THAT(Pids(found.jobs[0]), ElementsAre(10, 12));
  EXPECT_EQ(found.jobs[0].ranks[1].rank, 1);
  EXPECT_EQ(found.jobs[0].world, 0);
}

TEST_F(DiscoveryTest, HostileNumbersAndNamesAreHarmless) {
  Add(10, {.comm = "a) R (b", .environment = {"RANK=99999999999999", "WORLD_SIZE=-3", "=", "RANK"}, .maps = kNccl});
  Add(11, {.environment = {"RANK=0", "WORLD_SIZE=2000000000", "LOCAL_WORLD_SIZE=1048576", "LOCAL_RANK=7",
                           "LOCKSTEP_JOB=../../etc/x\ny", "NCCL_RAS_ADDR=evil:99999999"}});
  const Discovery found = Find();
  ASSERT_THAT(found.jobs, SizeIs(1));
  EXPECT_EQ(found.jobs[0].name, "_._.._etc_x_y");
  EXPECT_EQ(found.jobs[0].world, 0);
  EXPECT_EQ(found.jobs[0].ras_port, 0);
  EXPECT_THAT(found.jobs[0].ended, IsEmpty());
}

TEST_F(DiscoveryTest, NoJobIsFoundOnASystemWithoutOne) {
  EXPECT_THAT(Find().jobs, IsEmpty());
  EXPECT_THAT(Find({4711}).jobs, IsEmpty());
}

}  // namespace
}  // namespace lockstep
