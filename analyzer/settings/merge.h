// Merges the settings of files, the environment and options, in this order: later ones win.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/settings/file.h"
#include "analyzer/settings/table.h"

namespace lockstep::settings {

// Later sources have higher layers: files in their order, the environment, options.
inline constexpr int kEnvironmentLayer = 100, kOptionLayer = 200;

struct Value {
  const Row* row = nullptr;
  std::string text;  // for a list: its parts with the separator between them
  std::string from;  // "/etc/lockstep.conf, line 3", "LOCKSTEP_SPOOL", "--spool"
  int layer = 0;
  std::vector<std::string> parts;  // for a list; otherwise only `text`
};

struct Merged {
  std::vector<Value> values;      // all set values, in the table's order; options that are not settings come last
  std::vector<std::string> told;  // warnings about files, for standard error
  std::vector<File> files;        // files that were searched
};

// Merges the settings of `section` (a verb, or "recorder"): its `options`, the environment and, with `with_files`,
// configuration files. Writes settings without an option from files into this process's environment. Errors name the
// problem, its place and the correction; values that exclude each other are errors too.
absl::StatusOr<Merged> Merge(std::string_view section, std::vector<Value> options = {}, bool with_files = true);

// The files that apply: kConfigFile (or a test's replacement), then the one that LOCKSTEP_CONFIG names.
absl::StatusOr<std::vector<File>> ReadFiles();

}  // namespace lockstep::settings
