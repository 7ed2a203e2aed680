// Tests how the agent finds the process of a ring, if PIDs are reused.
#include "collector/run/agent.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "recorder/ring/layout.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

class AgentProcessTest : public support::FolderTest {
 protected:
  void SetUp() override {
    child_ = fork();
    if (child_ == 0) {
      for (;;) pause();
    }
    ASSERT_GT(child_, 0);
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  // Writes a ring of child_ that has only a header.
  void WriteRing(uint64_t start_ticks) const {
    alignas(8) static char page[ring::kPage];
    std::memset(page, 0, sizeof(page));
    auto* header = reinterpret_cast<ring::Header*>(page);
    std::memcpy(header->magic, ring::kMagic, sizeof(ring::kMagic));
    header->layout_version = header->min_reader_version = 1;
    header->header_bytes = sizeof(ring::Header);
    header->endian_mark = ring::kEndianMark;
    header->file_bytes = sizeof(page);
    header->tick_kind = ring::TickKind::kMonotonicNs;
    header->pid = child_;
    header->start_ticks = start_ticks;
    header->state = 1;
    std::ofstream(folder_ + "/host.ring", std::ios::binary).write(page, sizeof(page));
  }

  pid_t child_ = -1;
};

TEST_F(AgentProcessTest, ExitOfAnEarlierProcessWithTheSamePidIsIgnored) {
  const std::optional<ProcStat> stat = ReadProcStat(child_);
  ASSERT_TRUE(stat.has_value());
  WriteRing(stat->start_ticks);
  Agent agent;
  agent.Ended(child_, {W_EXITCODE(3, 0), 1});
  ASSERT_TRUE(agent.Watch(folder_).ok());
  ASSERT_EQ(agent.size(), 1u);
  EXPECT_EQ(agent.process(0).life, Life::kRunning);
}

TEST_F(AgentProcessTest, ALaterProcessWithTheSamePidIsIgnored) {
  const std::optional<ProcStat> stat = ReadProcStat(child_);
  ASSERT_TRUE(stat.has_value());
  WriteRing(stat->start_ticks - 1);
  Agent agent;
  agent.Ended(child_, {W_EXITCODE(3, 0), 1});
  ASSERT_TRUE(agent.Watch(folder_).ok());
  ASSERT_EQ(agent.size(), 1u);
  EXPECT_EQ(agent.process(0).life, Life::kExited);
  EXPECT_EQ(agent.process(0).exit_code, 3);
}

}  // namespace
}  // namespace lockstep
