// The recorder's own settings: the environment first, then the section [recorder] of the file that LOCKSTEP_CONFIG
// names, then that of /etc/lockstep.conf. Read once, at the first question, with raw system calls into memory of this
// library; a missing file costs one open. Nothing here fails: unreadable or invalid settings count as unset.
#ifndef LOCKSTEP_RECORDER_BASE_CONFIG_H_
#define LOCKSTEP_RECORDER_BASE_CONFIG_H_

#include <stddef.h>
#include <stdint.h>

#include "recorder/ring/settings.h"

namespace lockstep::recorder {

// The value of a variable of ring::kRecorderSettings; null: unset. Stays valid. Any thread; preserves errno.
const char* Setting(const char* variable) noexcept;

// Why an existing file was not read, for the note; null: no such problem.
const char* ConfigProblem() noexcept;

struct ConfigValues {
  // By the place in ring::kRecorderSettings; an empty text: unset.
  char text[ring::kRecorderSettingCount][ring::kMostConfigLine];
};

// Parses the `bytes` of a file, piece by piece: one state for each file.
class ConfigScan {
 public:
  void Feed(const char* bytes, size_t count, ConfigValues* values) noexcept;
  void End(ConfigValues* values) noexcept;  // a last line without its newline

 private:
  void Line(ConfigValues* values) noexcept;

  char line_[ring::kMostConfigLine + 1];
  size_t used_ = 0;
  bool too_long_ = false, ours_ = false, common_ = false;
  uint32_t own_ = 0;  // settings from the recorder's own section
};

// Reads one file; its values override those in `values`. False: the file exists but is not used; `problem` gives the
// reason and `values` are unchanged.
bool ReadConfig(const char* path, ConfigValues* values, const char** problem) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_BASE_CONFIG_H_
