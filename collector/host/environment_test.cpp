#include "collector/host/environment.h"
#include "tests/support/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(EnvironmentTest, PreloadIsPrependedAndNeverReplaced) {
  Environment environment = {"LD_PRELOAD_OTHER=x", "PATH=/bin"};
  PrependPreload(&environment, "/a/liblockstep.so");
  EXPECT_EQ(GetVariable(environment, "LD_PRELOAD"), "/a/liblockstep.so");
  SetVariable(&environment, "LD_PRELOAD", "/b/libasan.so:/c.so");
  PrependPreload(&environment, "/a/liblockstep.so");
  EXPECT_EQ(GetVariable(environment, "LD_PRELOAD"), "/a/liblockstep.so:/b/libasan.so:/c.so");
  EXPECT_EQ(GetVariable(environment, "LD_PRELOAD_OTHER"), "x");
  EXPECT_EQ(environment.size(), 3u);
}

TEST(EnvironmentTest, RackAndSwitchOfTheHostAreRead) {
  EXPECT_EQ(PlaceOf({"LOCKSTEP_RACK=r7", "LOCKSTEP_SWITCH=leaf3"}).leaf_switch, "leaf3");
  EXPECT_EQ(PlaceOf({"LOCKSTEP_RACK=r7"}).rack, "r7");
  Environment slurm = {"SLURM_TOPOLOGY_ADDR=top.leaf12.gpu003", "SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node"};
  EXPECT_EQ(PlaceOf(slurm).leaf_switch, "leaf12");
  slurm = {"SLURM_TOPOLOGY_ADDR=leaf12.gpu003", "SLURM_TOPOLOGY_ADDR_PATTERN=switch.node"};
  EXPECT_EQ(PlaceOf(slurm).leaf_switch, "leaf12");
  for (const char* address : {"gpu003", ".gpu003", "", "."}) {
    slurm[0] = std::string("SLURM_TOPOLOGY_ADDR=") + address;
    EXPECT_EQ(PlaceOf(slurm).leaf_switch, "") << address;
  }
}

TEST(EnvironmentTest, RankVariablesAreRead) {
  Environment environment = {"RANK=77", "EMPTY="};
  SetRank(&environment, 3, 8, 4242);
  EXPECT_EQ(GetVariable(environment, "RANK"), "3");
  EXPECT_EQ(GetVariable(environment, "LOCAL_RANK"), "3");
  EXPECT_EQ(GetVariable(environment, "WORLD_SIZE"), "8");
  EXPECT_EQ(GetVariable(environment, "MASTER_ADDR"), "127.0.0.1");
  EXPECT_EQ(GetVariable(environment, "MASTER_PORT"), "4242");
  EXPECT_TRUE(HasVariable(environment, "EMPTY"));
  EXPECT_FALSE(HasVariable(environment, "EMPT"));
}

TEST(EnvironmentTest, LibraryPathsThatPreloadCannotHoldAreRefused) {
  const support::TempFolder folder(::testing::TempDir(), "a folder ");
  const std::string library = folder.path() + "/liblockstep.so";
  std::ofstream(library) << "x";
  const auto found = FindLibrary({"LOCKSTEP_LIBRARY=" + library});
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("space or a colon"));
  const auto missing = FindLibrary({"LOCKSTEP_LIBRARY=/nowhere/liblockstep.so"});
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/nowhere/liblockstep.so"));
}

TEST(EnvironmentTest, JobNamesAreSafeInFileNames) {
  EXPECT_EQ(JobName({"SLURM_JOB_ID=4711"}, "x"), "4711");
  EXPECT_EQ(JobName({"LOCKSTEP_JOB=../a b", "SLURM_JOB_ID=1"}, "x"), "_._a_b");
  EXPECT_THAT(JobName({}, "/usr/bin/train.py"), StartsWith("train.py-"));
}

TEST(EnvironmentTest, RingsGrowWithTheFreeSpace) {
  constexpr uint64_t kGib = 1ull << 30;
  EXPECT_EQ(RingKibFor(8, 64 << 20), 0) << "a small container keeps the recorder's default sizes";
  EXPECT_EQ(RingKibFor(8, 2 * kGib), 8192);
  EXPECT_EQ(RingKibFor(8, 24 * kGib), 65536);
  EXPECT_EQ(RingKibFor(0, 24 * kGib), 32768);
  EXPECT_EQ(RingKibFor(4096, 24 * kGib), 0);
}

TEST(EnvironmentTest, TheFreePortCanBeUsed) {
  const auto port = FreePort();
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_GT(*port, 0);
  EXPECT_LT(*port, 65536);
}

}  // namespace
}  // namespace lockstep
