#include "collector/tools/doctor/checks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/settings/merge.h"
#include "analyzer/settings/types.h"

namespace lockstep::doctor {

std::vector<Check> ConfigurationChecks(const absl::Status& problem) {
  const std::string name = "configuration";
  const absl::StatusOr<std::vector<settings::File>> files = settings::ReadFiles();
  if (!problem.ok() || !files.ok()) {
    const absl::Status& status = problem.ok() ? files.status() : problem;
    return {Bad(name, std::string(status.message()),
                "every command that reads it fails with this error; check your fix with lockstep config --check")};
  }
  std::vector<Check> checks;
  std::string found;
  for (const settings::File& file : *files) {
    if (file.found)
      absl::StrAppend(&found, found.empty() ? "" : ", then ", file.path, " (", file.entries.size(),
                      file.entries.size() == 1 ? " setting" : " settings", ")");
    for (const settings::Told& told : file.told) checks.push_back(Note(name, told.text, "fix the file"));
  }
  if (const absl::StatusOr<settings::Merged> recorder = settings::Merge("recorder"); recorder.ok()) {
    for (const settings::Value& value : recorder->values) {
      bool on = true;
      const bool off = (value.row->key == "record" && settings::ParseFlag(value.text, &on) && !on) ||
                       (value.row->key == "hook" && value.text == "off");
      if (off && value.from != value.row->variable) {
        checks.push_back(
            Bad(name, absl::StrCat(value.row->key, " = ", value.text, " (", value.from, "): nothing is recorded"),
                absl::StrCat("remove that line, or set ", value.row->variable)));
      }
    }
  }
  if (found.empty())
    found = absl::StrCat("no file (", files->front().path,
                         " does not exist, LOCKSTEP_CONFIG is not set): defaults, environment and options apply");
  checks.insert(checks.begin(), Good(name, found));
  return checks;
}

}  // namespace lockstep::doctor
