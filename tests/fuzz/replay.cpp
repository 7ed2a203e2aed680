// Runs a fuzz target on stored inputs, with any compiler: replay PERCENT FILE_OR_FOLDER... The reader must accept at
// least PERCENT of each folder's inputs, because rejected inputs test little.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/accepted.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// Returns whether the reader accepted the input.
bool Replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  // Printed before the run, so that a crash shows which input caused it.
  std::printf("%s, %zu bytes", path.c_str(), bytes.size());
  std::fflush(stdout);
  const size_t before = lockstep::fuzz_accepted;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  const bool taken = lockstep::fuzz_accepted > before;
  std::printf(": %s\n", taken ? "taken" : "refused");
  // A truncated input takes a different path in the reader.
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size() / 2);
  return taken;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "replay PERCENT FILE_OR_FOLDER...\n");
    return 2;
  }
  const size_t percent = std::strtoul(argv[1], nullptr, 10);
  int status = 0;
  for (int i = 2; i < argc; i++) {
    if (!std::filesystem::is_directory(argv[i])) {
      Replay(argv[i]);
      continue;
    }
    size_t inputs = 0, taken = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      inputs++;
      taken += Replay(entry.path()) ? 1 : 0;
    }
    std::printf("%s: %zu inputs, %zu taken\n", argv[i], inputs, taken);
    if (inputs == 0 || taken * 100 < inputs * percent) {
      std::fflush(stdout);
      std::fprintf(stderr,
                   "%s: at least %zu%% of the inputs should be taken; make them again if their format has changed\n",
                   argv[i], percent);
      status = 1;
    }
  }
  return status;
}
