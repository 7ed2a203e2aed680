// Loads, analyzes and reports a folder with mixed files of several ranks. An input is a series of files, each with a
// kind (one byte), a length (three bytes, little endian) and its bytes. Kinds: 0, a Flight Recorder dump; 1, an .lsd
// dump; 2, changes to a sound ring (sound_ring.h); 3, a log.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/report/report.h"
#include "tests/fuzz/accepted.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/references.h"
#include "tests/fuzz/sound_ring.h"

namespace {

using namespace lockstep;

constexpr int kMostFiles = 8;

std::string RingOf(const uint8_t* data, size_t size) {
  static const SoundRing sound;
  std::string bytes(sound.bytes.begin(), sound.bytes.end());
  ForPatches(data, size, [&](uint64_t place, const uint8_t* patch, uint64_t length) {
    std::copy(patch, patch + length, bytes.begin() + static_cast<ptrdiff_t>(place));
  });
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> made;
  for (size_t at = 0; at + 4 <= size && made.size() < kMostFiles;) {
    const size_t length =
        std::min<size_t>(data[at + 1] | data[at + 2] << 8 | static_cast<size_t>(data[at + 3]) << 16, size - at - 4);
    const uint8_t* const from = data + at + 4;
    const std::string number = std::to_string(made.size());
    const int kind = data[at] % 4;
    std::string content(reinterpret_cast<const char*>(from), length);
    if (kind == 2) content = RingOf(from, length);
    made.push_back(FuzzFolder() + "/" +
                   (kind == 0   ? "rank_" + number
                    : kind == 1 ? "node" + number + ".lsd"
                    : kind == 2 ? "node" + number + ".ring"
                                : "rank" + number + ".log"));
    std::ofstream(made.back(), std::ios::binary) << content;
    at += 4 + length;
  }
  if (made.empty()) return 0;
  const auto bundle = LoadPaths({FuzzFolder()});
  for (const std::string& path : made) unlink(path.c_str());
  if (!bundle.ok()) {
    if (bundle.status().message().empty()) std::abort();
    return 0;
  }
  fuzz_accepted += bundle->ranks.empty() ? 0 : 1;
  CheckReferences(*bundle);
  const Verdict verdict = Analyze(*bundle);
  if (VerdictText(verdict, *bundle).empty() || ReportJson(verdict).empty()) std::abort();
  return 0;
}
