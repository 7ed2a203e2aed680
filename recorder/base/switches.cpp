#include "recorder/base/switches.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "recorder/base/config.h"
#include "recorder/base/sys.h"

namespace lockstep::recorder {
namespace {

constexpr char kDenyFile[] = "/etc/lockstep/deny";
constexpr size_t kMostDenyBytes = 32 << 10;

char g_off_in_folder[344];

bool IsThere(const char* path) noexcept {
  return path[0] != 0 && Sys(SYS_faccessat, AT_FDCWD, path, 0L /* F_OK */) == 0;
}

struct Word {
  const char* at;
  size_t bytes;
};

bool IsSpace(char c) noexcept { return c == ' ' || c == '\t' || c == '\r'; }

Word Trim(Word word) noexcept {
  while (word.bytes > 0 && IsSpace(word.at[0])) ++word.at, --word.bytes;
  while (word.bytes > 0 && IsSpace(word.at[word.bytes - 1])) --word.bytes;
  return word;
}

// If the text is `prefix`, blanks and something else, keeps only that and returns true.
bool TakeWord(Word* word, const char* prefix) noexcept {
  const size_t n = strlen(prefix);
  if (word->bytes <= n || strncmp(word->at, prefix, n) != 0 || !IsSpace(word->at[n])) return false;
  *word = Trim({word->at + n, word->bytes - n});
  return word->bytes > 0;
}

// Converts "2.18.3" to ncclGetVersion's code. `fill` replaces missing parts. Returns -1 if the text is not a version.
int32_t Version(Word word, int32_t fill) noexcept {
  int32_t part[3] = {0, fill, fill};
  int parts = 0;
  size_t i = 0;
  while (i < word.bytes && parts < 3) {
    if (word.at[i] < '0' || word.at[i] > '9') return -1;
    int32_t value = 0;
    for (; i < word.bytes && word.at[i] >= '0' && word.at[i] <= '9'; ++i) {
      value = value * 10 + (word.at[i] - '0');
      if (value > 99) return -1;
    }
    part[parts++] = value;
    if (i == word.bytes) break;
    if (word.at[i] != '.' || i + 1 == word.bytes || parts == 3) return -1;
    ++i;
  }
  if (parts == 0) return -1;
  // NCCL changed its version encoding in 2.9.
  if (part[0] < 2 || (part[0] == 2 && part[1] <= 8)) {
    return part[0] * 1000 + part[1] * 100 + (part[2] > 99 ? 99 : part[2]);
  }
  return part[0] * 10000 + part[1] * 100 + part[2];
}

bool InRange(Word range, int32_t (*version)()) noexcept {
  size_t dash = 0;
  while (dash < range.bytes && range.at[dash] != '-') ++dash;
  const Word low = Trim({range.at, dash});
  const Word high = dash < range.bytes ? Trim({range.at + dash + 1, range.bytes - dash - 1}) : low;
  if (low.bytes == 0 && high.bytes == 0) return false;
  const int32_t from = low.bytes == 0 ? 0 : Version(low, 0);
  const int32_t to = high.bytes == 0 ? INT32_MAX : Version(high, 99);
  if (from < 0 || to < 0) return false;
  const int32_t is = version();
  return is > 0 && from <= is && is <= to;
}

bool MatchesProgram(Word glob, const char* program) noexcept {
  if (program[0] == 0) return false;
  const char* text = program;
  bool whole = false;
  for (size_t i = 0; i < glob.bytes; ++i) whole |= glob.at[i] == '/';
  const char* slash = whole ? nullptr : strrchr(program, '/');
  if (slash != nullptr) text = slash + 1;
  return MatchesGlob(glob.at, glob.bytes, text);
}

}  // namespace

bool MatchesGlob(const char* pattern, size_t pattern_bytes, const char* text) noexcept {
  size_t p = 0, star = SIZE_MAX;
  const char* resume = nullptr;
  while (*text != 0) {
    if (p < pattern_bytes && pattern[p] == '*') {
      star = p++;
      resume = text;
    } else if (p < pattern_bytes && (pattern[p] == '?' || pattern[p] == *text)) {
      ++p;
      ++text;
    } else if (star != SIZE_MAX) {
      p = star + 1;
      text = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern_bytes && pattern[p] == '*') ++p;
  return p == pattern_bytes;
}

void SetOffFiles(const char* folder) noexcept {
  snprintf(g_off_in_folder, sizeof(g_off_in_folder), "%.320s/off", folder);
}

const char* OffFile() noexcept {
  static const char* const kFiles[] = {"/etc/lockstep/off", "/run/lockstep/off", g_off_in_folder};
  for (const char* file : kFiles) {
    if (IsThere(file)) return file;
  }
  return nullptr;
}

bool PrivilegedProgram() noexcept {
  ErrnoKeeper keep;
  return getauxval(AT_SECURE) != 0;
}

bool DeniedBy(const char* text, size_t bytes, const char* source, const char* program, int32_t (*version)(),
              char* reason, size_t reason_bytes) noexcept {
  int line = 1;
  for (size_t at = 0; at < bytes; ++line) {
    size_t end = at;
    while (end < bytes && text[end] != '\n' && text[end] != ';' && text[end] != 0) ++end;
    Word rule = Trim({text + at, end - at});
    at = end + 1;
    if (rule.bytes == 0 || rule.bytes > 512 || rule.at[0] == '#') continue;
    const char* what = nullptr;
    if (TakeWord(&rule, "exe")) {
      if (MatchesProgram(rule, program)) what = "this program is";
    } else if (TakeWord(&rule, "nccl")) {
      if (InRange(rule, version)) what = "this version of NCCL is";
    }
    if (what == nullptr) continue;
    snprintf(reason, reason_bytes, "%s on the deny list (%s, line %d)", what, source, line);
    return true;
  }
  return false;
}

bool Denied(int32_t (*version)(), char* reason, size_t reason_bytes) noexcept {
  static char text[kMostDenyBytes];  // only one thread at a time is in this function
  char program[1024];
  const long got = Sys(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", program, sizeof(program) - 1);
  program[got > 0 ? got : 0] = 0;
  const char* own = Setting("LOCKSTEP_DENY");
  if (own != nullptr &&
      DeniedBy(own, strnlen(own, kMostDenyBytes), "LOCKSTEP_DENY", program, version, reason, reason_bytes)) {
    return true;
  }
  const long fd = Sys(SYS_openat, AT_FDCWD, kDenyFile, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) return false;
  size_t size = 0;
  while (size < sizeof(text)) {
    const long more = Sys(SYS_read, fd, text + size, sizeof(text) - size);
    if (more <= 0) break;
    size += static_cast<size_t>(more);
  }
  Sys(SYS_close, fd);
  return DeniedBy(text, size, kDenyFile, program, version, reason, reason_bytes);
}

}  // namespace lockstep::recorder
