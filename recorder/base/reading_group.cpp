#include "recorder/base/reading_group.h"

#include <fcntl.h>
#include <stddef.h>

#include "recorder/base/sys.h"

namespace lockstep::recorder {
namespace {

constexpr int64_t kMostGroups = 0xfffffffe;  // the next number means "do not change"
constexpr size_t kMostFileBytes = 4 << 20;

// Reads a number that ends at `end` or at a zero byte. Returns -1 if there is no number.
int64_t Number(const char* text, char end) noexcept {
  int64_t value = 0;
  const char* at = text;
  for (; *at >= '0' && *at <= '9'; ++at) {
    value = value * 10 + (*at - '0');
    if (value > kMostGroups) return -1;
  }
  return at == text || (*at != end && *at != 0) ? -1 : value;
}

}  // namespace

int64_t GroupOfLine(const char* line, const char* name) noexcept {
  const size_t size = strlen(name);
  if (size == 0 || strncmp(line, name, size) != 0 || line[size] != ':') return -1;
  const char* at = strchr(line + size + 1, ':');  // NAME:PASSWORD:NUMBER:MEMBERS
  return at == nullptr ? -1 : Number(at + 1, ':');
}

int64_t FindGroup(const char* name) noexcept {
  if (const int64_t number = Number(name, 0); number >= 0) return number;
  const long fd = Sys(SYS_openat, AT_FDCWD, "/etc/group", O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) return -1;
  // The members come last and may be many, so the beginning of a line is enough.
  char bytes[1024], line[160];
  size_t used = 0;
  int64_t found = -1;
  for (size_t all = 0; found < 0 && all < kMostFileBytes;) {
    const long got = Sys(SYS_read, fd, bytes, sizeof(bytes));
    if (got <= 0) break;
    all += static_cast<size_t>(got);
    for (long i = 0; i < got && found < 0; ++i) {
      if (bytes[i] != '\n') {
        if (used < sizeof(line) - 1) line[used++] = bytes[i];
        continue;
      }
      line[used] = 0;
      used = 0;
      found = GroupOfLine(line, name);
    }
  }
  if (found < 0 && used > 0) {
    line[used] = 0;
    found = GroupOfLine(line, name);
  }
  Sys(SYS_close, fd);
  return found;
}

bool LetGroupRead(long fd, int64_t group, bool folder) noexcept {
  if (Sys(SYS_fchown, fd, -1L, static_cast<long>(group)) != 0) return false;
  return Sys(SYS_fchmod, fd, folder ? 0750L : 0640L) == 0;
}

}  // namespace lockstep::recorder
