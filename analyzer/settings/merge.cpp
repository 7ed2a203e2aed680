#include "analyzer/settings/merge.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/settings/types.h"
#include "analyzer/util/system.h"
#include "recorder/ring/settings.h"

namespace lockstep::settings {
namespace {

bool Lists(std::string_view keys, const std::string& key) {
  for (const absl::string_view word :
       absl::StrSplit(absl::string_view(keys.data(), keys.size()), ' ', absl::SkipEmpty())) {
    if (word == key) return true;
  }
  return false;
}

void Put(std::vector<Value>* values, Value value) {
  for (Value& there : *values) {
    if (there.row == value.row) {
      if (value.layer >= there.layer) there = std::move(value);
      return;
    }
  }
  values->push_back(std::move(value));
}

Value* Find(std::vector<Value>* values, const Row* row) {
  for (Value& value : *values) {
    if (value.row == row) return &value;
  }
  return nullptr;
}

bool IsOn(const Value& value) {
  bool on = true;
  if (IsFlag(*value.row)) (void)ParseFlag(value.text, &on);
  return on;
}

// Returns a value's name for messages: "--spool", or "/etc/lockstep.conf, line 3: --spool".
std::string NameOf(const Value& value) {
  const std::string& name = value.row->option.empty() ? value.row->key : value.row->option;
  return value.layer == kOptionLayer ? name : absl::StrCat(value.from, ": ", name);
}

Value TextValue(const Row& row, const std::string& text, std::string from, int layer) {
  Value value{&row, text, std::move(from), layer, {}};
  value.parts = row.separator != 0 ? SplitText(text, row.separator) : std::vector<std::string>{text};
  return value;
}

// Reads the settings of `section` from files into `merged`.
absl::Status ReadFilesOf(std::string_view section, Merged* merged, std::vector<Value>* values) {
  absl::StatusOr<std::vector<File>> files = ReadFiles();
  if (!files.ok()) return files.status();
  merged->files = std::move(*files);
  int layer = 0;
  for (const File& file : merged->files) {
    // In one file, the program's own section takes precedence over [common].
    for (const Entry& entry : file.entries) {
      const Row* recorders =
          entry.section == kRecorder && section != kRecorder ? FindByKey(kRecorder, entry.key) : nullptr;
      for (const Row& row : Table()) {
        if (row.section != section) continue;
        // The recorder's settings for the ring folder and the host name also apply to programs that read rings.
        const bool shared = recorders != nullptr && recorders->variable == row.variable;
        const bool own = entry.section == section && row.key == entry.key;
        const bool common = entry.section == kCommon && row.common && row.key == entry.key;
        if (shared || own || common)
          Put(values, TextValue(row, entry.value, Place(entry), layer + (own ? 2 : common ? 1 : 0)));
      }
    }
    const std::vector<std::string> sections = Sections();
    for (const Told& told : file.told) {
      const bool others =
          told.section != section && std::find(sections.begin(), sections.end(), told.section) != sections.end();
      if (!others) merged->told.push_back(told.text);
    }
    layer += 3;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<File>> ReadFiles() {
  std::vector<File> files;
  const std::string named = EnvironmentValue(ring::kConfigVariable);
  std::vector<std::string> paths = {ring::kConfigFile};
  if (!named.empty()) paths.push_back(named);
  for (const std::string& path : paths) {
    File file;
    if (absl::Status status = ReadConfigFile(path, &file); !status.ok()) return status;
    if (!file.found && path == named) {
      return absl::NotFoundError(
          absl::StrCat(ring::kConfigVariable, " names ", path, ", which does not exist; correct or unset it"));
    }
    files.push_back(std::move(file));
  }
  return files;
}

absl::StatusOr<Merged> Merge(std::string_view section, std::vector<Value> options, bool with_files) {
  Merged merged;
  std::vector<Value> values;
  if (with_files) {
    if (absl::Status status = ReadFilesOf(section, &merged, &values); !status.ok()) return status;
  }
  for (const Row& row : Table()) {
    if (row.section != section) continue;
    const std::string value = EnvironmentValue(row.variable.c_str());
    if (value.empty()) continue;
    if (std::string wrong = section == kRecorder ? "" : WrongValue(row, value); !wrong.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(row.variable, " ", wrong, ", not '", value, "'; correct or unset it"));
    }
    Put(&values, TextValue(row, value, row.variable, kEnvironmentLayer));
  }
  std::vector<Value> lone;
  for (Value& option : options) {
    if (option.row->variable.empty()) {
      lone.push_back(std::move(option));
    } else {
      Put(&values, std::move(option));
    }
  }

  for (const Row& row : Table()) {
    const Value* value = Find(&values, &row);
    if (value == nullptr) continue;
    bool passed_over = false;
    for (const Value& other : values) {
      if (!IsOn(other) || !Lists(other.row->excludes, row.key)) continue;
      passed_over |= other.layer > value->layer;
      if (other.layer == value->layer && IsOn(*value))
        return absl::InvalidArgumentError(
            absl::StrCat(NameOf(*value), " and ", other.row->option, " exclude each other; choose one"));
    }
    if (!row.needs.empty()) {
      const Row* needs = FindByKey(section, row.needs);
      const Value* needed = Find(&values, needs);
      const bool there = needed != nullptr && IsOn(*needed);
      if (!there && value->layer == kOptionLayer)
        return absl::InvalidArgumentError(absl::StrCat(row.option, " works only with ", needs->option));
      passed_over |= !there;
    }
    if (passed_over) continue;
    if (std::string wrong = section == kRecorder ? "" : WrongOrOutOfRange(row, value->text); !wrong.empty())
      return absl::InvalidArgumentError(absl::StrCat(NameOf(*value), " ", wrong, ", not '", value->text, "'"));
    merged.values.push_back(*value);
    if (row.option.empty() && value->layer < kEnvironmentLayer && section != kRecorder)
      setenv(row.variable.c_str(), value->text.c_str(), 1);
  }
  merged.values.insert(merged.values.end(), lone.begin(), lone.end());
  return merged;
}

}  // namespace lockstep::settings
