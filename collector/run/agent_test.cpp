// Tests the agent with a process that dies while its GPU still writes progress markers.
#include "collector/run/agent.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "recorder/ring/layout.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

// Returns a ring of process `pid` with one marked stream, and the file offset of its markers in *marks.
std::vector<unsigned char> RingOf(pid_t pid, uint64_t* marks) {
  constexpr uint64_t kBytes = 64 << 10;
  std::vector<unsigned char> bytes(kBytes, 0);
  ring::Header header{};
  std::memcpy(header.magic, ring::kMagic, sizeof(ring::kMagic));
  header.layout_version = header.min_reader_version = 1;
  header.header_bytes = sizeof(header);
  header.endian_mark = ring::kEndianMark;
  header.file_bytes = kBytes;
  header.tick_kind = ring::TickKind::kMonotonicNs;
  header.triples[0].ticks = 1000;
  header.triples[0].mono_ns = 1000;
  header.triples[0].real_ns = 2000;
  header.state = 1;
  header.gpu_marks = 2;
  header.streams_used = 1;
  header.pid = pid;
  uint64_t offset = ring::kPage;
  const auto add = [&](ring::SectionKind kind, uint64_t stride, uint64_t count) {
    header.sections[header.section_count++] = {kind, 0, offset, stride, count};
    const uint64_t at = offset;
    offset += ring::kPage;
    return at;
  };
  add(ring::SectionKind::kComms, sizeof(ring::CommEntry), 1);
  add(ring::SectionKind::kPeers, sizeof(ring::PeerEntry), 1);
  add(ring::SectionKind::kThreads, sizeof(ring::ThreadCell), 1);
  add(ring::SectionKind::kRings, sizeof(ring::OpSlot) * 8, 1);
  add(ring::SectionKind::kOverflow, sizeof(ring::OpSlot), 8);
  const uint64_t streams = add(ring::SectionKind::kStreams, sizeof(ring::StreamCell), 1);
  *marks = add(ring::SectionKind::kMarks, sizeof(ring::MarkLine), 1);
  ring::StreamCell cell{};
  cell.in_use = cell.marked = 1;
  cell.handle = 0x5000;
  cell.issued = 5;
  ring::MarkLine line{};
  line.started = 3;
  line.completed = 2;
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + streams, &cell, sizeof(cell));
  std::memcpy(bytes.data() + *marks, &line, sizeof(line));
  return bytes;
}

TEST(AgentTest, GpuProgressAfterTheProcessDiedIsLabelled) {
  const support::TempFolder temp;
  const std::string& folder = temp.path();
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // the child has this process's output open
    pause();
    _exit(0);
  }
  uint64_t marks = 0;
  const std::vector<unsigned char> bytes = RingOf(pid, &marks);
  const std::string path = folder + "/host." + std::to_string(pid) + ".1.ring";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  const auto reach = [&](uint64_t started, uint64_t completed) {
    const uint64_t words[2] = {started, completed};
    ASSERT_EQ(pwrite(fd, words, sizeof(words), static_cast<off_t>(marks)), static_cast<ssize_t>(sizeof(words)));
  };

  Agent agent;
  ASSERT_TRUE(agent.Watch(folder).ok());
  reach(3, 3);  // while the process is alive, this has no special meaning
  agent.Sample();
  kill(pid, SIGKILL);
  pollfd died{agent.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&died, 1, 30000), 1);
  agent.Handle();
  int status = 0;
  waitpid(pid, &status, 0);
  std::vector<RingInput> inputs = agent.Collect(true);
  ASSERT_EQ(inputs.size(), 1u);
  ASSERT_EQ(inputs[0].snapshot.streams.size(), 1u);
  EXPECT_EQ(inputs[0].snapshot.streams[0].completed, 3u);
  EXPECT_EQ(inputs[0].snapshot.streams[0].late_completed, 0u);
  reach(5, 4);
  inputs = agent.Collect(true);
  EXPECT_EQ(inputs[0].snapshot.streams[0].completed, 4u);
  EXPECT_EQ(inputs[0].snapshot.streams[0].late_completed, 1u);
  EXPECT_EQ(inputs[0].snapshot.streams[0].late_started, 2u);
  close(fd);
}

}  // namespace
}  // namespace lockstep
