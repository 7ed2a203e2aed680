// Ring files. A ring is half a megabyte, nearly all of it empty, so an input is not the file but what is changed in a
// sound one that the recorder wrote: a mode byte, then patches, each a place (three bytes, little endian), a length
// (one byte) and the bytes. Mode, bit 0: the file ends at the first patch's place.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/formats/ring/loader.h"
#include "recorder/core/ops.h"
#include "recorder/ring/reader.h"
#include "tests/fuzz/accepted.h"

namespace {

using namespace lockstep;

constexpr uint64_t kBytes = 512 << 10;

void Do(ring::CallKind kind, uintptr_t comm, int peer, uint64_t count) {
  const auto at = [](uintptr_t value) { return reinterpret_cast<void*>(value); };
  const recorder::Op op = {kind, 9, -1, peer, count, at(0xa000), at(0xb000), at(comm), at(0x6000), nullptr};
  recorder::OpInFlight flight;
  if (recorder::ShouldRecord(nullptr) && recorder::BeginOp(op, &flight)) recorder::EndOp(&flight, 0);
}

// The sound ring, in a file that stays open, and its bytes.
struct Sound {
  int fd = -1;
  std::vector<uint8_t> bytes;

  Sound() {
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
      Do(ring::CallKind::kAllReduce, 0x100 * (static_cast<uintptr_t>(i) % 3 + 1), -1, 1024);
      if (i % 4 == 0) Do(ring::CallKind::kSend, 0x100, 1 + i % 3, 64);
    }
    recorder::Stop(ring::RecorderState::kStopped, "over");
    const auto* begin = static_cast<const uint8_t*>(base);
    bytes.assign(begin, begin + kBytes);
    munmap(base, kBytes);
  }
};

void Read(int fd) {
  for (const bool digest : {true, false}) {
    RingInput input;
    std::string error;
    if (!ring::ReadRing(fd, {digest}, &input.snapshot, &error)) {
      if (error.empty()) std::abort();
      continue;
    }
    if (!digest) fuzz_accepted++;
    input.path = "fuzz.ring";
    std::vector<RingInput> rings;
    rings.push_back(std::move(input));
    const Bundle bundle = BundleFromRings(std::move(rings));
    for (const Rank& rank : bundle.ranks) {
      for (const Membership& m : rank.memberships) {
        if (m.comm >= bundle.comms.size()) std::abort();
      }
      for (const Op& op : rank.ops) {
        if (op.membership != kNoIndex && op.membership >= rank.memberships.size()) std::abort();
      }
    }
    if (!digest) Analyze(bundle);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Sound sound;
  if (size == 0) return 0;
  std::vector<std::pair<uint64_t, uint64_t>> changed;
  uint64_t end = kBytes;
  for (size_t at = 1; at + 4 <= size;) {
    const uint64_t place = (data[at] | data[at + 1] << 8 | static_cast<uint64_t>(data[at + 2]) << 16) % kBytes;
    const uint64_t length = std::min<uint64_t>({data[at + 3], size - at - 4, kBytes - place});
    if ((data[0] & 1) != 0 && changed.empty()) end = place;
    if (pwrite(sound.fd, data + at + 4, length, static_cast<off_t>(place)) != static_cast<ssize_t>(length))
      std::abort();
    changed.emplace_back(place, length);
    at += 4 + length;
  }
  if (end != kBytes && ftruncate(sound.fd, static_cast<off_t>(end)) != 0) std::abort();
  Read(sound.fd);
  if (end != kBytes) {
    if (ftruncate(sound.fd, kBytes) != 0) std::abort();
    changed.assign({{end, kBytes - end}, {0, kBytes}});
  }
  for (const auto& [place, length] : changed) {
    if (pwrite(sound.fd, sound.bytes.data() + place, length, static_cast<off_t>(place)) != static_cast<ssize_t>(length))
      std::abort();
  }
  return 0;
}
