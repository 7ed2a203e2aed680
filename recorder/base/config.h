// The recorder's own settings. The environment takes precedence, then the section [recorder] (and `group` in [common])
// of the file that LOCKSTEP_CONFIG names, then of /etc/lockstep.conf. A privileged program reads no file. The settings
// are read once, at the first call, with raw system calls. Unreadable or invalid settings count as unset.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "recorder/ring/settings.h"

namespace lockstep::recorder {

// Returns the value of a variable in ring::kRecorderSettings; null if unset. The pointer stays valid. Thread-safe;
// preserves errno.
const char* Setting(const char* variable) noexcept;

// Returns why an existing file was not read, for the ring's note; null if there was no such problem.
const char* ConfigProblem() noexcept;

struct ConfigValues {
  // Indexed like ring::kRecorderSettings; an empty text means unset.
  char text[ring::kRecorderSettingCount][ring::kMostConfigLine];
};

// Parses a configuration file piece by piece. One object parses one file.
class ConfigScan {
 public:
  void Feed(const char* bytes, size_t count, ConfigValues* values) noexcept;
  void End(ConfigValues* values) noexcept;  // parses a last line without a newline

 private:
  void Line(ConfigValues* values) noexcept;

  char line_[ring::kMostConfigLine + 1];
  size_t used_ = 0;
  bool too_long_ = false, ours_ = false, common_ = false;
  uint32_t own_ = 0;  // bit i: setting i is in the section [recorder]
};

// Reads one file; its values override those in `values`. Returns false if the file exists but cannot be used; then
// `problem` has the reason and `values` is unchanged.
bool ReadConfig(const char* path, ConfigValues* values, const char** problem) noexcept;

}  // namespace lockstep::recorder
