// Reads ring files. An input is a mode byte, then patches of a sound ring (sound_ring.h). If bit 0 of the mode is set,
// the file ends at the first patch's offset.
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
#include "recorder/ring/reader.h"
#include "tests/fuzz/accepted.h"
#include "tests/fuzz/references.h"
#include "tests/fuzz/sound_ring.h"

namespace {

using namespace lockstep;

constexpr uint64_t kBytes = SoundRing::kBytes;

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
    CheckReferences(bundle);
    if (!digest) Analyze(bundle);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const SoundRing sound;
  if (size == 0) return 0;
  std::vector<std::pair<uint64_t, uint64_t>> changed;
  uint64_t end = kBytes;
  ForPatches(data + 1, size - 1, [&](uint64_t place, const uint8_t* patch, uint64_t length) {
    if ((data[0] & 1) != 0 && changed.empty()) end = place;
    if (pwrite(sound.fd, patch, length, static_cast<off_t>(place)) != static_cast<ssize_t>(length)) std::abort();
    changed.emplace_back(place, length);
  });
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
