// Reads HTTP requests, as `lockstep serve` and the metrics server do.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "analyzer/util/http/message.h"
#include "tests/fuzz/accepted.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::http;
  Request request;
  const int refused = ParseRequest(std::string_view(reinterpret_cast<const char*>(data), size), &request);
  if (refused != 0 && refused != 400 && refused != 405 && refused != 431 && refused != 505) std::abort();
  if (refused != 0) return 0;
  ++lockstep::fuzz_accepted;
  // An accepted path begins with a slash. Path and query contain only printable ASCII characters and no spaces.
  if (request.path.empty() || request.path[0] != '/' || size > kMostHeadBytes) std::abort();
  for (const char c : request.path + request.query) {
    if (c <= ' ' || c >= 127) std::abort();
  }
  return 0;
}
