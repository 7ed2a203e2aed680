// Merges the settings of files, the environment and options, in this order: later ones win.
#ifndef LOCKSTEP_ANALYZER_SETTINGS_MERGE_H_
#define LOCKSTEP_ANALYZER_SETTINGS_MERGE_H_

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
  std::string text;  // of a list: its parts with the separator between them
  std::string from;  // "/etc/lockstep.conf, line 3", "LOCKSTEP_SPOOL", "--spool"
  int layer = 0;
  std::vector<std::string> parts;  // of a list; otherwise `text` alone
};

struct Merged {
  std::vector<Value> values;      // all set values, in the table's order; options that are no settings come last
  std::vector<std::string> told;  // warnings about files, for standard error
  std::vector<File> files;        // searched files
};

// Settings of `section` (a verb, or "recorder"): its `options`, the environment and, with `with_files`, configuration
// files. Settings without an option go from files into this process's environment. Errors name what is wrong, where,
// and the correction; values that exclude each other are errors too.
absl::StatusOr<Merged> Merge(std::string_view section, std::vector<Value> options = {}, bool with_files = true);

// The files that apply: kConfigFile (or a test's replacement), then the one that LOCKSTEP_CONFIG names.
absl::StatusOr<std::vector<File>> ReadFiles();

}  // namespace lockstep::settings

#endif  // LOCKSTEP_ANALYZER_SETTINGS_MERGE_H_
