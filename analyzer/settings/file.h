// Configuration files: INI, a section for each program. Read with bounds, and only if no other user can write them.
#ifndef LOCKSTEP_ANALYZER_SETTINGS_FILE_H_
#define LOCKSTEP_ANALYZER_SETTINGS_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep::settings {

struct Entry {
  std::string file;
  int line = 0;
  std::string section, key, value;  // a key's '_' becomes '-'
};

// "FILE, line N".
std::string Place(const Entry& entry);

struct Told {
  std::string section, text;  // one line
};

struct File {
  std::string path;
  bool found = false;
  std::vector<Entry> entries;  // in their order
  std::vector<Told> told;      // unknown sections and keys, repeated keys
};

// Parses `text`; `path` is for messages. InvalidArgument names file and line and the correction.
absl::Status ParseText(const std::string& path, const std::string& text, File* file);

// Reads the file at `path`. A missing file gives found == false, and no error. PermissionDenied if anybody but root and
// the user may write it: for a user a world-writable file, for root a file that is not root's.
absl::Status ReadConfigFile(const std::string& path, File* file);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_ANALYZER_SETTINGS_FILE_H_
