// Configuration files: INI with a section for each program. Read with bounds, and only if no other user can write them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep::settings {

struct Entry {
  std::string file;
  int line = 0;
  std::string section, key, value;  // '_' in a key becomes '-'
};

// "FILE, line N".
std::string Place(const Entry& entry);

struct Told {
  std::string section, text;  // a section and one warning about it; `text` is one line
};

struct File {
  std::string path;
  bool found = false;
  std::vector<Entry> entries;  // in their order
  std::vector<Told> told;      // unknown sections and keys, repeated keys
};

// Parses `text`; `path` is for messages. InvalidArgument with a message that has the file, the line and the correction.
absl::Status ParseText(const std::string& path, const std::string& text, File* file);

// Reads the file at `path`. For a missing file, sets found to false and returns no error. PermissionDenied if anyone
// except root and the user may write it: for a user a world-writable file, for root a file that root does not own.
absl::Status ReadConfigFile(const std::string& path, File* file);

}  // namespace lockstep::settings
