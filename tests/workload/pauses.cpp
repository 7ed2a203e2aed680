#include "tests/workload/pauses.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/workload/device.h"

namespace trainsim {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBreath = std::chrono::milliseconds(50);

Clock::time_point After(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void NapUntil(Clock::time_point end) { std::this_thread::sleep_until(std::min(end, Clock::now() + kBreath)); }

void ComputeUntil(Clock::time_point end) {
  volatile uint64_t value = 1;
  while (Clock::now() < end) {
    for (int i = 0; i < 100'000; ++i) value = value * 6364136223846793005ULL + 1;
  }
}

// Starts one compiler after another, like a build.
void Compile(double seconds) {
  for (const auto end = After(seconds); Clock::now() < end;) {
    const auto file_end = std::min(end, After(0.7));
    const pid_t child = fork();
    if (child < 0) FailCall("fork", std::strerror(errno), __FILE__, __LINE__);
    if (child == 0) {
      ComputeUntil(file_end);
      _exit(0);
    }
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void ReadFile(double seconds) {
  std::vector<char> piece(size_t{64} << 10);
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (fd < 0) FailCall("open /proc/self/exe", std::strerror(errno), __FILE__, __LINE__);
  off_t offset = 0;
  for (const auto end = After(seconds); Clock::now() < end; NapUntil(end)) {
    const ssize_t got = pread(fd, piece.data(), piece.size(), offset);
    offset = got > 0 ? offset + got : 0;
  }
  close(fd);
}

// Waits for an answer from a detached process, which is not a child process.
void WaitForService(double seconds) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    FailCall("socketpair", std::strerror(errno), __FILE__, __LINE__);
  const pid_t child = fork();
  if (child < 0) FailCall("fork", std::strerror(errno), __FILE__, __LINE__);
  if (child == 0) {
    if (fork() == 0) {
      std::this_thread::sleep_until(After(seconds));
      const char done = 1;
      _exit(write(ends[1], &done, 1) == 1 ? 0 : 1);
    }
    _exit(0);
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  close(ends[1]);
  char done = 0;
  while (recv(ends[0], &done, 1, 0) < 0 && errno == EINTR) {
  }
  close(ends[0]);
}

void Play(const Prepare& prepare) {
  const double seconds = prepare.pause.seconds;
  switch (prepare.kind) {
    case PrepareKind::kCompile: return Compile(seconds);
    case PrepareKind::kThread: std::thread([seconds] { ComputeUntil(After(seconds)); }).join(); return;
    case PrepareKind::kRead: return ReadFile(seconds);
    case PrepareKind::kLock:
      for (const auto end = After(seconds); Clock::now() < end;) NapUntil(end);
      return;
    case PrepareKind::kService: return WaitForService(seconds);
  }
}

}  // namespace

void SlowStart(double seconds) {
  for (const auto end = After(seconds); Clock::now() < end; NapUntil(end)) ComputeUntil(std::min(end, After(0.01)));
}

void WriteCheckpoint(double seconds) {
  constexpr size_t kChunk = size_t{1} << 20;
  constexpr off_t kLargest = off_t{32} << 20;
  const auto end = After(seconds);
  const char* folder = std::getenv("TMPDIR");
  std::string path =
      std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/trainsim-checkpoint-XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) FailCall(("creating " + path).c_str(), std::strerror(errno), __FILE__, __LINE__);
  unlink(path.c_str());
  const std::vector<char> chunk(kChunk, 'c');
  off_t offset = 0;
  while (Clock::now() < end) {
    if (pwrite(fd, chunk.data(), chunk.size(), offset) < 0 && errno != EINTR) {
      FailCall(("writing " + path).c_str(), std::strerror(errno), __FILE__, __LINE__);
    }
    offset = (offset + static_cast<off_t>(kChunk)) % kLargest;
    NapUntil(end);
  }
  close(fd);
}

void PauseAfter(const Options& options, int rank, int step, Trainer* trainer) {
  if (step != 0 && options.recreate_step == step) trainer->Recreate();
  for (const Pause& pause : options.checkpoints) {
    if (pause.step == step && pause.rank == rank) WriteCheckpoint(pause.seconds);
  }
  for (const Prepare& prepare : options.preparations) {
    if (prepare.pause.step == step && prepare.pause.rank == rank) Play(prepare);
  }
  for (const Pause& pause : options.evaluations) {
    if (pause.step != step) continue;
    const auto end = After(pause.seconds);
    while (Clock::now() < end) {
      const std::chrono::duration<double> left = end - Clock::now();
      trainer->ComputeFor(std::clamp(left.count(), 0.0, 0.1));
    }
  }
}

}  // namespace trainsim
