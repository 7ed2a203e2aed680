// Measures the cost of reading a ring: the digest, which an agent reads many times a second, and the entire file.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "recorder/core/ops.h"
#include "recorder/ring/reader.h"

namespace lockstep::recorder {
namespace {

void Do(ring::CallKind kind, uintptr_t comm, int peer, uint64_t count) {
  const auto at = [](uintptr_t value) { return reinterpret_cast<void*>(value); };
  const Op op = {kind, 9, -1, peer, count, at(0xa000), at(0xb000), at(comm), at(0x6000 + comm % 16 * 64), nullptr};
  OpInFlight flight;
  if (ShouldRecord(nullptr) && BeginOp(op, &flight)) EndOp(&flight, 0);
}

double CpuMicroseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

double Median(int fd, bool digest) {
  std::vector<double> times;
  for (int i = 0; i < 101; ++i) {
    const double begin = CpuMicroseconds();
    ring::Snapshot snapshot;
    std::string error;
    if (!ring::ReadRing(fd, {digest}, &snapshot, &error)) return -1;
    times.push_back(CpuMicroseconds() - begin);
  }
  std::nth_element(times.begin(), times.begin() + 50, times.end());
  return times[50];
}

// Measures a ring like that of a rank in a job with model parallelism: communicators with peers and calls, and one full
// event ring.
int Run(int communicators) {
  constexpr uint64_t kBytes = ring::kDefaultFileBytes;
  const int fd = memfd_create("ring", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, kBytes) != 0) return 1;
  void* base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return 1;
  StartOn(static_cast<uint8_t*>(base), kBytes, GpuMode::kOff);
  for (int i = 0; i < communicators; ++i) {
    CommPlan plan;
    plan.id = static_cast<uint64_t>(i) + 1;
    plan.member_rank = 0;
    plan.size = 8;
    plan.device = 0;
    CommLocal* comm = NewComm(plan);
    BindHandle(comm, reinterpret_cast<void*>(0x100 * (static_cast<uintptr_t>(i) + 1)));
    CommIsReady(comm);
  }
  for (int i = 0; i < 5000; ++i) {
    const uintptr_t comm = 0x100 * (static_cast<uintptr_t>(i % communicators) + 1);
    Do(ring::CallKind::kAllReduce, comm, -1, 1024);
    if (i % 8 == 0) Do(ring::CallKind::kSend, comm, i % 7, 1024);
  }
  const double digest = Median(fd, true), whole = Median(fd, false);
  std::printf("%-15d %12.0f %12.0f\n", communicators, digest, whole);
  Stop(ring::RecorderState::kStopped, "over");
  munmap(base, kBytes);
  close(fd);
  return digest < 0 || whole < 0 ? 1 : 0;
}

}  // namespace
}  // namespace lockstep::recorder

int main() {
  std::printf("one look at a ring of 4 MiB, processor time, median\ncommunicators     digest us      full us\n");
  int failed = 0;
  for (const int communicators : {4, 16, 64, 256}) failed |= lockstep::recorder::Run(communicators);
  return failed;
}
