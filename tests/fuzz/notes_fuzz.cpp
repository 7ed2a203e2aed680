// Reads the notes file of the viewer.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "gui/model/notes/file.h"
#include "tests/fuzz/accepted.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int fd = memfd_create("notes", MFD_CLOEXEC);
  if (fd < 0) return 0;
  if (write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  const auto notes = lockstep::gui::ReadNotes("/proc/self/fd/" + std::to_string(fd));
  close(fd);
  if (!notes.ok()) {
    if (notes.status().message().empty()) std::abort();
    return 0;
  }
  lockstep::fuzz_accepted++;
  for (const lockstep::gui::Mark& mark : notes->marks) {
    for (const auto& [first, last] : mark.ranks.runs()) {
      if (first < 0 || last < first) std::abort();
    }
  }
  return 0;
}
