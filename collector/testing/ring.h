// Ring files with an owner, and processes that hold ring files like a recorder, for tests.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "collector/host/proc.h"
#include "recorder/ring/layout.h"

namespace lockstep {

struct TestRing {
  std::string job = "train", step = "";
  uint32_t restart = 0;
  int32_t rank = 0, world = 8;
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // 0 means the process's real start time
  uint64_t pid_namespace = 0;
  uint32_t state = 1;
  uint64_t comm = 77;         // the rank's communicator
  uint32_t layout = 1;        // above 1: a later version, with longer structures and an unknown section
  bool first_layout = false;  // writes only the sections of the first recorder, and a shorter header
};

inline void WriteTestRing(const std::string& path, const TestRing& ring) {
  constexpr uint64_t kBytes = 64 << 10;
  std::vector<unsigned char> bytes(kBytes, 0);
  ring::Header header{};
  std::memcpy(header.magic, ring::kMagic, sizeof(ring::kMagic));
  header.layout_version = ring.layout;
  header.min_reader_version = 1;
  header.header_bytes = sizeof(header);
  header.endian_mark = ring::kEndianMark;
  header.file_bytes = kBytes;
  header.tick_kind = ring::TickKind::kMonotonicNs;
  header.triples[0].ticks = header.triples[0].mono_ns = MonotonicNs();
  header.triples[0].real_ns = RealtimeNs();
  header.created_ticks = header.triples[0].ticks;
  header.state = ring.state;
  header.pid = ring.pid;
  const std::optional<ProcStat> stat = ReadProcStat(ring.pid);
  header.start_ticks = ring.start_ticks != 0 ? ring.start_ticks : stat ? stat->start_ticks : 1;
  header.pid_namespace_inode = ring.pid_namespace;
  header.rank = header.local_rank = ring.rank;
  header.world_size = ring.world;
  header.restart_count = ring.restart;
  std::strncpy(header.boot_id, BootId().c_str(), sizeof(header.boot_id) - 1);
  std::strncpy(header.host, "node1", sizeof(header.host) - 1);
  std::strncpy(header.job, ring.job.c_str(), sizeof(header.job) - 1);
  std::strncpy(header.step, ring.step.c_str(), sizeof(header.step) - 1);
  uint64_t offset = ring::kPage;
  const auto add = [&](ring::SectionKind kind, uint64_t stride, uint64_t count) {
    header.sections[header.section_count++] = {kind, 0, offset, stride + (ring.layout > 1 ? 64 : 0), count};
    offset += ring::kPage;
  };
  if (ring.layout > 1) add(static_cast<ring::SectionKind>(99), 4000, 1);
  add(ring::SectionKind::kComms, sizeof(ring::CommEntry), 1);
  add(ring::SectionKind::kPeers, sizeof(ring::PeerEntry), 1);
  add(ring::SectionKind::kThreads, sizeof(ring::ThreadCell), 1);
  add(ring::SectionKind::kRings, sizeof(ring::OpSlot) * 8, 1);
  add(ring::SectionKind::kOverflow, sizeof(ring::OpSlot), 8);
  if (!ring.first_layout) {
    add(ring::SectionKind::kStreams, sizeof(ring::StreamCell), 4);
    add(ring::SectionKind::kMarks, sizeof(ring::MarkLine), 4);
  }
  header.comms_used = 1;
  ring::CommEntry comm{};
  comm.guard = 2;
  comm.state = 2;
  comm.id = ring.comm;
  comm.generation = 1;
  comm.member_rank = ring.rank;
  comm.size = ring.world;
  comm.created_ticks = header.created_ticks;
  comm.issued_seq = comm.issued_check = 912;
  comm.issued_ticks = header.created_ticks;
  std::strncpy(comm.name, "world", sizeof(comm.name) - 1);
  for (uint32_t i = 0; i < header.section_count; ++i) {
    if (header.sections[i].kind == ring::SectionKind::kComms)
      std::memcpy(bytes.data() + header.sections[i].offset, &comm, sizeof(comm));
  }
  size_t header_bytes = sizeof(header);
  if (ring.first_layout) header_bytes = offsetof(ring::Header, stopped_ticks);  // fields added later are zero
  header.header_bytes = static_cast<uint32_t>(header_bytes);
  std::memcpy(bytes.data(), &header, header_bytes);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) abort();
  close(fd);
}

// A process with a ring; the destructor kills it.
class TestRank {
 public:
  TestRank(const std::string& path, TestRing ring, int exit_code = -1) {
    int go[2];
    if (pipe(go) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      // The child uses no lock of the test process, because the lock's owner does not exist in the child.
      dup2(go[0], 0);
      signal(SIGSEGV, SIG_DFL);  // a test may kill the process this way, and a sanitizer must not report it
      close_range(3, ~0U, 0);
      char byte = 0;
      if (read(0, &byte, 1) != 1) _exit(99);
      const int fd = open(path.c_str(), O_RDWR);
      struct stat info {};
      if (fd < 0 || fstat(fd, &info) != 0) _exit(98);
      if (mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
        _exit(97);
      close(fd);
      kill(getpid(), SIGSTOP);  // the file is mapped
      if (exit_code >= 0) _exit(exit_code);
      for (;;) pause();
    }
    close(go[0]);
    ring.pid = pid_;
    WriteTestRing(path, ring);
    if (write(go[1], "g", 1) != 1) abort();
    close(go[1]);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
    if (exit_code < 0) kill(pid_, SIGCONT);
  }
  TestRank(const TestRank&) = delete;
  TestRank& operator=(const TestRank&) = delete;
  ~TestRank() { Reap(SIGKILL); }
  pid_t pid() const { return pid_; }
  void Signal(int signal) const { kill(pid_, signal); }
  // Sends the signal (0: the process exits by itself once it continues) and waits for the exit.
  void Reap(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal == 0 ? SIGCONT : signal);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace lockstep
