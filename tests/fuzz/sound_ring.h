// A sound ring for fuzzers, written by the recorder. The ring has half a megabyte and is almost empty, so an input
// contains only changes: patches, each with an offset (three bytes, little endian), a length (one byte) and bytes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "recorder/core/ops.h"

namespace lockstep {

inline void DoForRing(ring::CallKind kind, uintptr_t comm, int peer, uint64_t count) {
  const auto at = [](uintptr_t value) { return reinterpret_cast<void*>(value); };
  const recorder::Op op = {kind, 9, -1, peer, count, at(0xa000), at(0xb000), at(comm), at(0x6000), nullptr};
  recorder::OpInFlight flight;
  if (recorder::ShouldRecord(nullptr) && recorder::BeginOp(op, &flight)) recorder::EndOp(&flight, 0);
}

// A ring in an open memfd, and its bytes. Create only one per process, because the recorder writes only one ring.
struct SoundRing {
  static constexpr uint64_t kBytes = 512 << 10;
  int fd = -1;
  std::vector<uint8_t> bytes;

  SoundRing() {
    fd = memfd_create("ring", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, kBytes) != 0) std::abort();
    void* base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) std::abort();
    recorder::StartOn(static_cast<uint8_t*>(base), kBytes, recorder::GpuMode::kOff);
    for (uintptr_t i = 1; i <= 3; ++i) {
      recorder::CommPlan plan;
      plan.id = i;
      plan.member_rank = 0;
      plan.size = 4;
      plan.device = 0;
      recorder::CommLocal* comm = recorder::NewComm(plan);
      recorder::BindHandle(comm, reinterpret_cast<void*>(0x100 * i));
      recorder::CommIsReady(comm);
    }
    for (int i = 0; i < 60; ++i) {
      DoForRing(ring::CallKind::kAllReduce, 0x100 * (static_cast<uintptr_t>(i) % 3 + 1), -1, 1024);
      if (i % 4 == 0) DoForRing(ring::CallKind::kSend, 0x100, 1 + i % 3, 64);
    }
    recorder::Stop(ring::RecorderState::kStopped, "over");
    const auto* begin = static_cast<const uint8_t*>(base);
    bytes.assign(begin, begin + kBytes);
    munmap(base, kBytes);
  }
};

// Calls apply(offset, bytes, length) for each patch of an input.
template <typename Apply>
void ForPatches(const uint8_t* data, size_t size, const Apply& apply) {
  for (size_t at = 0; at + 4 <= size;) {
    const uint64_t place =
        (data[at] | data[at + 1] << 8 | static_cast<uint64_t>(data[at + 2]) << 16) % SoundRing::kBytes;
    const uint64_t length = std::min<uint64_t>({data[at + 3], size - at - 4, SoundRing::kBytes - place});
    apply(place, data + at + 4, length);
    at += 4 + length;
  }
}

}  // namespace lockstep
