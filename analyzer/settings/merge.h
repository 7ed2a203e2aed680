// Merges settings from files, the environment and options. Later sources override earlier ones, in this order.
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
  std::string text;  // for a list: its parts, joined by its separator
  std::string from;  // "/etc/lockstep.conf, line 3", "LOCKSTEP_SPOOL", "--spool"
  int layer = 0;
  std::vector<std::string> parts;  // the parts of a list; other values have only `text`
};

struct Merged {
  std::vector<Value> values;      // all set values in the table's order, then the options that are not settings
  std::vector<std::string> told;  // warnings about files, for standard error
  std::vector<File> files;        // files that were searched
};

// Merges the settings of `section` (a verb, or "recorder"): its `options`, the environment and, if `with_files`,
// configuration files. Exports settings from files that have no option into this process's environment. An error
// names the problem, its place and the correction. If two values exclude each other, the one from the later source
// counts; if both have the same source, that is an error.
absl::StatusOr<Merged> Merge(std::string_view section, std::vector<Value> options = {}, bool with_files = true);

// Returns the files that apply: kConfigFile, then the file that LOCKSTEP_CONFIG names, which must exist.
absl::StatusOr<std::vector<File>> ReadFiles();

}  // namespace lockstep::settings
