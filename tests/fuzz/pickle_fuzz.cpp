// Reads Flight Recorder pickles.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fr_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::ReadAsFlightRecorder({reinterpret_cast<const char*>(data), size});
  return 0;
}
