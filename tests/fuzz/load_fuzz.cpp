// Detects a file's type by its content (ring, .lsd dump or Flight Recorder dump), then loads, analyzes and reports the
// file. Needs a ring file, an .lsd file and a dump as seeds: random bytes almost never contain a magic number.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "analyzer/engine/engine.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/report/report.h"
#include "tests/fuzz/accepted.h"
#include "tests/fuzz/references.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int fd = memfd_create("rank_0", MFD_CLOEXEC);
  if (fd < 0) return 0;
  if (write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  const auto bundle = lockstep::LoadPaths({"/proc/self/fd/" + std::to_string(fd)});
  close(fd);
  if (!bundle.ok()) return 0;
  lockstep::fuzz_accepted += bundle->ranks.empty() ? 0 : 1;
  lockstep::CheckReferences(*bundle);
  const lockstep::Verdict verdict = lockstep::Analyze(*bundle);
  if (lockstep::ReportText(verdict, *bundle).empty() || lockstep::ReportJson(verdict).empty()) std::abort();
  if (lockstep::ReportHtml(verdict, *bundle).empty()) std::abort();
  return 0;
}
