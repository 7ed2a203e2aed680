#include "recorder/base/config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "recorder/base/switches.h"
#include "recorder/base/sys.h"

namespace lockstep::recorder {
namespace {

// 0: not read yet; kReady: read; otherwise the ID of the thread that is reading.
constexpr int32_t kReady = -1;
int32_t g_reader;
bool g_any;  // true if a file sets something
ConfigValues g_values;
const char* g_problem;

bool IsBlank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

// Converts a character to its form in keys: lower case, '-' for '_'.
char KeyChar(char c) noexcept {
  if (c == '_') return '-';
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool IsKey(const char* text, size_t size, const char* key) noexcept {
  size_t i = 0;
  for (; i < size && key[i] != 0; ++i) {
    if (KeyChar(text[i]) != key[i]) return false;
  }
  return i == size && key[i] == 0;
}

LOCKSTEP_COLD void ReadAll() noexcept {
  if (!PrivilegedProgram()) {
    bool any = false;
    const char* problem = nullptr;
    const char* named = getenv(ring::kConfigVariable);
    ReadConfig(ring::kConfigFile, &g_values, &problem);
    if (named != nullptr && *named != 0) ReadConfig(named, &g_values, &problem);
    for (const auto& text : g_values.text) any |= text[0] != 0;
    g_any = any;
    g_problem = problem;
  }
  StoreRelease(&g_reader, kReady);  // pairs with the acquire in Prepared
}

bool IsGone(int32_t tid) noexcept { return Sys(SYS_tgkill, ProcessId(), tid, 0) == -ESRCH; }

// Returns true if the values are ready. A child that was forked while its parent was reading reads again.
bool Prepared() noexcept {
  int32_t reader = LoadAcquire(&g_reader);
  if (LOCKSTEP_LIKELY(reader == kReady)) return true;
  ErrnoKeeper keep;
  SignalsHeld held;  // a signal handler may also read the settings, and must not interrupt the reading
  const int32_t self = ThreadId();
  // Waits briefly while another thread reads a few kilobytes. After that, this thread continues with the defaults.
  for (int32_t turns = 0; turns < 10000; ++turns) {
    if (reader == kReady) return true;
    if ((reader == 0 || reader == self || IsGone(reader)) && Swap(&g_reader, reader, self)) {
      memset(&g_values, 0, sizeof(g_values));
      ReadAll();
      return true;
    }
    Sys(SYS_sched_yield);
    reader = LoadAcquire(&g_reader);
  }
  return false;
}

}  // namespace

void ConfigScan::Line(ConfigValues* values) noexcept {
  size_t begin = 0, end = used_;
  while (begin < end && IsBlank(line_[begin])) ++begin;
  while (end > begin && IsBlank(line_[end - 1])) --end;
  if (begin == end || line_[begin] == '#' || line_[begin] == ';') return;
  if (line_[begin] == '[') {
    ours_ = common_ = false;
    if (line_[end - 1] != ']') return;
    for (++begin, --end; begin < end && IsBlank(line_[begin]);) ++begin;
    while (end > begin && IsBlank(line_[end - 1])) --end;
    // Programs share [common] with the recorder, which uses only `group`.
    ours_ = IsKey(line_ + begin, end - begin, "recorder");
    common_ = IsKey(line_ + begin, end - begin, "common");
    return;
  }
  size_t equals = begin;
  while (equals < end && line_[equals] != '=') ++equals;
  if ((!ours_ && !common_) || equals == end) return;
  size_t key_end = equals, value = equals + 1;
  while (key_end > begin && IsBlank(line_[key_end - 1])) --key_end;
  while (value < end && IsBlank(line_[value])) ++value;
  for (size_t i = 0; i < ring::kRecorderSettingCount; ++i) {
    if (!IsKey(line_ + begin, key_end - begin, ring::kRecorderSettings[i].key)) continue;
    if (common_ && !IsKey(line_ + begin, key_end - begin, "group")) return;
    // The recorder's own section takes precedence wherever it is in the file.
    if (common_ && (own_ & (uint32_t{1} << i)) != 0) return;
    if (ours_) own_ |= uint32_t{1} << i;
    memcpy(values->text[i], line_ + value, end - value);
    values->text[i][end - value] = 0;
    return;
  }
}

void ConfigScan::Feed(const char* bytes, size_t count, ConfigValues* values) noexcept {
  for (size_t i = 0; i < count; ++i) {
    const char c = bytes[i];
    if (c == '\n') {
      if (!too_long_) Line(values);
      used_ = 0;
      too_long_ = false;
    } else if (c == 0 || used_ == sizeof(line_) - 1) {
      too_long_ = true;  // the line is too long or not text, and is skipped
    } else {
      line_[used_++] = c;
    }
  }
}

void ConfigScan::End(ConfigValues* values) noexcept {
  if (!too_long_) Line(values);
  used_ = 0;
}

bool ReadConfig(const char* path, ConfigValues* values, const char** problem) noexcept {
  const long fd = Sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
  if (fd < 0) {
    if (fd != -ENOENT && fd != -ENOTDIR) *problem = "a configuration file cannot be read";
    return fd == -ENOENT || fd == -ENOTDIR;
  }
  struct stat info {};
  const char* wrong = nullptr;
  if (Sys(SYS_fstat, fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    wrong = "a configuration file is not a regular file";
  } else if ((info.st_mode & S_IWOTH) != 0) {
    wrong = "a configuration file is world-writable, and was not read";
  } else if (Sys(SYS_geteuid) == 0 && info.st_uid != 0 &&
             info.st_uid != 65534) {  // 65534: root, seen from inside a user namespace
    wrong = "a configuration file does not belong to root, and was not read";
  } else if (static_cast<uint64_t>(info.st_size) > ring::kMostConfigBytes) {
    wrong = "a configuration file is larger than 32 KiB and was not read";
  }
  if (wrong == nullptr) {
    ConfigScan scan;
    char bytes[1024];
    for (size_t all = 0; all < ring::kMostConfigBytes;) {
      const long got = Sys(SYS_read, fd, bytes, sizeof(bytes));
      if (got <= 0) break;
      scan.Feed(bytes, static_cast<size_t>(got), values);
      all += static_cast<size_t>(got);
    }
    scan.End(values);
  }
  Sys(SYS_close, fd);
  if (wrong != nullptr) *problem = wrong;
  return wrong == nullptr;
}

const char* Setting(const char* variable) noexcept {
  const char* value = getenv(variable);
  if (value != nullptr && *value != 0) return value;
  if (!Prepared() || !g_any) return nullptr;
  for (size_t i = 0; i < ring::kRecorderSettingCount; ++i) {
    if (strcmp(ring::kRecorderSettings[i].variable, variable) == 0)
      return g_values.text[i][0] == 0 ? nullptr : g_values.text[i];
  }
  return nullptr;
}

const char* ConfigProblem() noexcept { return Prepared() ? g_problem : nullptr; }

}  // namespace lockstep::recorder
