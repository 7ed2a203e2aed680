#include "tests/workload/pauses.h"

#include <fcntl.h>
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

void NapUntil(Clock::time_point end) {
  std::this_thread::sleep_until(std::min(end, Clock::now() + kBreath));
}

}  // namespace

void SlowStart(double seconds) {
  const auto end = After(seconds);
  volatile uint64_t value = 1;
  while (Clock::now() < end) {
    for (int i = 0; i < 1'000'000; ++i) value = value * 6364136223846793005ULL + 1;
    NapUntil(end);
  }
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
  if (options.recreate_step == step) trainer->Recreate();
  for (const Pause& pause : options.checkpoints) {
    if (pause.step == step && pause.rank == rank) WriteCheckpoint(pause.seconds);
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
