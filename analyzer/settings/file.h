// Configuration files: INI with one section per program. Sizes are limited, and files that other users can write are
// refused.
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

// Returns "FILE, line N", or only the file if the line is unknown.
std::string Place(const Entry& entry);

struct Told {
  std::string section, text;  // the section that a warning is about, and the warning as one line
};

struct File {
  std::string path;
  bool found = false;
  std::vector<Entry> entries;  // in file order
  std::vector<Told> told;      // warnings about unknown sections, unknown keys and repeated keys
};

// Parses `text`; messages name `path`. Returns InvalidArgument with the file, the line and the correction.
absl::Status ParseText(const std::string& path, const std::string& text, File* file);

// Reads the file at `path`. A missing file is no error; `found` stays false. Returns PermissionDenied if everyone can
// write it. For root, also if root does not own it, or if a group other than root's can write it. Other errors:
// Unavailable, InvalidArgument.
absl::Status ReadConfigFile(const std::string& path, File* file);

}  // namespace lockstep::settings
