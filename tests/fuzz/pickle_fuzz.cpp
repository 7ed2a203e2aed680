// Reads Flight Recorder pickles. Both readers of entries must agree, and neither may crash.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "analyzer/testing/stream_check.h"
#include "tests/fuzz/fr_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  lockstep::ReadAsFlightRecorder(bytes);
  if (const std::string difference = lockstep::fr::StreamDifference(bytes); !difference.empty()) {
    fprintf(stderr, "%s\n", difference.c_str());
    std::abort();
  }
  return 0;
}
