// Reads configuration files.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "analyzer/settings/file.h"
#include "analyzer/settings/types.h"
#include "tests/fuzz/accepted.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::settings;
  File file;
  const absl::Status status = ParseText("FILE", std::string(reinterpret_cast<const char*>(data), size), &file);
  // An error has one line, with the location and the reason.
  if (!status.ok() && (status.message().empty() || status.message().find("FILE, line ") != 0 ||
                       status.message().find('\n') != status.message().npos))
    std::abort();
  lockstep::fuzz_accepted += status.ok() && !file.entries.empty() ? 1 : 0;
  for (const Told& told : file.told) {
    if (told.text.empty() || told.text.find('\n') != told.text.npos) std::abort();
  }
  // Accepted settings are known and valid.
  for (const Entry& entry : file.entries) {
    const Row* row = nullptr;
    for (const Row& candidate : Table()) {
      const bool here = candidate.section == entry.section || (entry.section == kCommon && candidate.common);
      if (here && candidate.key == entry.key) row = &candidate;
    }
    if (row == nullptr || entry.line <= 0 || !WrongValue(*row, entry.value).empty()) std::abort();
  }
  return 0;
}
