// The recorder's own settings: the environment first, then the section [recorder] of the file that LOCKSTEP_CONFIG
// names, then that of /etc/lockstep.conf. Read once, at the first question, with raw system calls into memory of this
// library; a file that is not there costs one open. Nothing here fails: what cannot be read or understood is as if it
// were not there.
#ifndef LOCKSTEP_RECORDER_BASE_CONFIG_H_
#define LOCKSTEP_RECORDER_BASE_CONFIG_H_

#include <stddef.h>
#include <stdint.h>

#include "recorder/ring/settings.h"

namespace lockstep::recorder {

// The value of a variable of ring::kRecorderSettings; null: set nowhere. Stays valid. Any thread; errno is kept.
const char* Setting(const char* variable) noexcept;

// Why a file that is there was not read, for the note; null: nothing of that kind.
const char* ConfigProblem() noexcept;

struct ConfigValues {
  // By the place in ring::kRecorderSettings; an empty text: not set.
  char text[ring::kRecorderSettingCount][ring::kMostConfigLine];
};

// Takes in what `bytes` of a file hold, piece by piece: one state for each file.
class ConfigScan {
 public:
  void Feed(const char* bytes, size_t count, ConfigValues* values) noexcept;
  void End(ConfigValues* values) noexcept;  // a last line without its newline

 private:
  void Line(ConfigValues* values) noexcept;

  char line_[ring::kMostConfigLine + 1];
  size_t used_ = 0;
  bool too_long_ = false, ours_ = false, common_ = false;
  uint32_t own_ = 0;  // settings that the recorder's own section has given
};

// Reads one file; its values override those in `values`. False: the file exists but is not used; `problem` gives the
// reason and `values` are unchanged.
bool ReadConfig(const char* path, ConfigValues* values, const char** problem) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_BASE_CONFIG_H_
