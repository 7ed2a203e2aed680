// Reads an incident's manifest.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "analyzer/formats/load/manifest.h"
#include "analyzer/formats/merge.h"
#include "tests/fuzz/accepted.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int fd = memfd_create("manifest.json", MFD_CLOEXEC);
  if (fd < 0) return 0;
  if (write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  lockstep::Manifest manifest;
  std::string error;
  const bool read = lockstep::ReadManifest("/proc/self/fd/" + std::to_string(fd), &manifest, &error);
  close(fd);
  if (!read && error.empty()) std::abort();
  lockstep::fuzz_accepted += read ? 1 : 0;
  if (manifest.ranks_expected < 0 || manifest.ranks_expected > lockstep::kMaxRanks || manifest.stalled_ns < 0)
    std::abort();
  return 0;
}
