#include "collector/host/memory_cgroup.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace lockstep {
namespace {

using support::WriteFile;

class MemoryCgroupTest : public support::FolderTest {
 protected:
  // Writes the files memory.NAME of a cgroup.
  void Write(const std::string& cgroup, const std::string& limit_name, const std::string& limit,
             const std::string& used_name, const std::string& used) const {
    std::filesystem::create_directories(folder_ + cgroup);
    WriteFile(folder_ + cgroup + "/memory." + limit_name, limit + "\n");
    WriteFile(folder_ + cgroup + "/memory." + used_name, used + "\n");
  }
};

TEST_F(MemoryCgroupTest, TheLimitOfAJobAppliesToTheCgroupsBelowIt) {
  WriteFile(folder_ + "/cgroup", "0::/slurm/job_7/step_0/task_0\n");
  Write("/slurm", "max", "64000", "current", "5000");
  Write("/slurm/job_7", "max", "16000", "current", "4000");
  Write("/slurm/job_7/step_0", "max", "max", "current", "3000");
  Write("/slurm/job_7/step_0/task_0", "max", "max", "current", "2000");
  MemoryCgroup cgroup = FindMemoryCgroup(folder_, folder_);
  EXPECT_EQ(cgroup.path, "/slurm/job_7");
  EXPECT_EQ(cgroup.limit, 16000);
  EXPECT_EQ(cgroup.used, 4000);
  EXPECT_EQ(cgroup.events, folder_ + "/slurm/job_7/memory.events");
  Write("/slurm/job_7", "max", "max", "current", "4000");
  Write("/slurm", "max", "max", "current", "5000");
  cgroup = FindMemoryCgroup(folder_, folder_);
  EXPECT_EQ(cgroup.path, "/slurm/job_7/step_0/task_0") << "without a limit, the process's own cgroup";
  EXPECT_EQ(cgroup.limit, -1);
  EXPECT_EQ(cgroup.used, 2000);
}

// A container without a cgroup namespace sees the host's path, but its own cgroup at the root.
TEST_F(MemoryCgroupTest, AnOlderContainersLimitIsAtTheRoot) {
  WriteFile(folder_ + "/cgroup", "9:cpu:/docker/a\n8:pids,memory:/docker/a\n0::/docker/a\n");
  Write("/memory", "limit_in_bytes", "900", "usage_in_bytes", "300");
  MemoryCgroup cgroup = FindMemoryCgroup(folder_, folder_);
  EXPECT_EQ(cgroup.limit, 900);
  EXPECT_EQ(cgroup.used, 300);
  Write("/memory", "limit_in_bytes", "9223372036854771712", "usage_in_bytes", "300");
  EXPECT_EQ(FindMemoryCgroup(folder_, folder_).limit, -1);
  WriteFile(folder_ + "/cgroup", "0::/../../other\nnonsense\n::\n");
  EXPECT_EQ(FindMemoryCgroup(folder_, folder_).limit, -1);
  EXPECT_EQ(FindMemoryCgroup(folder_ + "/none", folder_).path, "");
}

}  // namespace
}  // namespace lockstep
