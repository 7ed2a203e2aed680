#include "collector/rings/memory_ring.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "analyzer/util/folders.h"

namespace lockstep {
namespace {

std::string LinkText(int folder, const char* name) {
  char text[512];
  const ssize_t length = readlinkat(folder, name, text, sizeof text);
  return length <= 0 || length >= static_cast<ssize_t>(sizeof text) ? "" : std::string(text, length);
}

bool Parse(const std::string& target, int* pid, int* number) {
  return sscanf(target.c_str(), "/proc/%d/fd/%d", pid, number) == 2 &&
         target == absl::StrCat("/proc/", *pid, "/fd/", *number);
}

}  // namespace

bool IsMemoryRingLink(int folder, const std::string& name) {
  int pid = 0, number = -1;
  return Parse(LinkText(folder, name.c_str()), &pid, &number);
}

UniqueFd OpenMemoryRing(int folder, const std::string& name) {
  int pid = 0, number = -1;
  if (!Parse(LinkText(folder, name.c_str()), &pid, &number)) return UniqueFd();
  const auto open_of = [&](int process) {
    const std::string path = absl::StrCat("/proc/", process, "/fd/", number);
    const bool is_it = LinkText(AT_FDCWD, path.c_str()) == absl::StrCat("/memfd:", name, " (deleted)");
    return UniqueFd(is_it ? open(path.c_str(), O_PATH | O_CLOEXEC) : -1);
  };
  UniqueFd ring = open_of(pid);
  if (ring.ok()) return ring;
  for (const int process : NumbersIn("/proc")) {
    if (ring = open_of(process); ring.ok()) return ring;
  }
  return UniqueFd();
}

}  // namespace lockstep
