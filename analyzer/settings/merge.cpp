#include "analyzer/settings/merge.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "recorder/ring/settings.h"

namespace lockstep::settings {
namespace {

constexpr int kEnvironmentLayer = 100, kOptionLayer = 200;

std::string Variable(const std::string& name) {
  const char* value = name.empty() ? nullptr : getenv(name.c_str());
  return value == nullptr ? "" : value;
}

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

bool IsFlag(const Row& row) {
  return row.kind == Kind::kFlag || row.kind == Kind::kNotFlag;
}

// Reads the options that the command line has itself into `values`; takes --FLAG=yes and =no out of it.
absl::Status ReadOptions(std::string_view section, std::vector<std::string>* words, std::vector<Value>* values) {
  std::vector<std::string> kept;
  size_t i = 0;
  for (; i < words->size(); ++i) {
    const std::string& word = (*words)[i];
    const bool option = word.size() >= 2 && word[0] == '-';
    // What follows is a command's, or names files.
    if (word == "--" || (!option && section == "run")) break;
    const size_t equals = absl::StartsWith(word, "--") ? word.find('=') : std::string::npos;
    std::string name = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    bool attached = equals != std::string::npos;
    if (word.size() > 2 && word[0] == '-' && word[1] != '-' && FindByOption(section, word.substr(0, 2)) != nullptr) {
      name = word.substr(0, 2);
      value = word.substr(2);
      attached = true;
    }
    const Row* row = option ? FindByOption(section, name) : nullptr;
    if (row == nullptr) {
      kept.push_back(word);
      continue;
    }
    if (IsFlag(*row)) {
      bool on = true;
      if (attached && !ReadFlag(value, &on))
        return absl::InvalidArgumentError(absl::StrCat(name, " takes no value, or yes or no, not '", value, "'"));
      Put(values, {row, (row->kind == Kind::kFlag) == on ? "yes" : "no", name, kOptionLayer});
      if (on) kept.push_back(name);
      continue;
    }
    kept.push_back(word);
    if (!attached && i + 1 < words->size()) kept.push_back(value = (*words)[++i]);
    Value* before = Find(values, row);
    if (before != nullptr && before->layer == kOptionLayer && row->separator != 0) {
      absl::StrAppend(&before->text, std::string(1, row->separator), value);
    } else {
      Put(values, {row, value, name, kOptionLayer});
    }
  }
  kept.insert(kept.end(), words->begin() + static_cast<std::ptrdiff_t>(i), words->end());
  *words = std::move(kept);
  return absl::OkStatus();
}

// Before anything is read: does the command line only ask for help, and may files be read?
bool OnlyHelp(std::string_view section, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--" || (section == "run" && (word.empty() || word[0] != '-'))) return false;
    if (word == "-h" || word == "--help" || word == "-V" || word == "--version") return true;
  }
  return false;
}

bool TakeNoConfig(std::string_view section, std::vector<std::string>* words) {
  for (size_t i = 0; i < words->size(); ++i) {
    const std::string& word = (*words)[i];
    if (word == "--" || (section == "run" && (word.empty() || word[0] != '-'))) return false;
    if (word == "--no-config") {
      words->erase(words->begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    // The value of an option is no option.
    if (const Row* row = FindByOption(section, word); row != nullptr && !IsFlag(*row)) ++i;
  }
  return false;
}

void PutOptions(const Value& value, std::vector<std::string>* front) {
  const Row& row = *value.row;
  if (IsFlag(row)) {
    bool on = false;
    if (ReadFlag(value.text, &on) && on == (row.kind == Kind::kFlag)) front->push_back(row.option);
    return;
  }
  std::vector<std::string> parts = {value.text};
  if (row.separator != 0) parts = absl::StrSplit(value.text, row.separator, absl::SkipEmpty());
  for (std::string& part : parts) {
    front->push_back(row.option);
    front->push_back(std::move(part));
  }
}

}  // namespace

absl::StatusOr<std::vector<File>> ReadFiles() {
  std::vector<File> files;
  const std::string named = Variable(ring::kConfigVariable);
  std::vector<std::string> paths = {ring::kConfigFile};
  if (!named.empty()) paths.push_back(named);
  for (const std::string& path : paths) {
    File file;
    if (absl::Status status = ReadConfigFile(path, &file); !status.ok()) return status;
    if (!file.found && path == named) {
      return absl::NotFoundError(
          absl::StrCat(ring::kConfigVariable, " names ", path, ", which is not there; mend or unset it"));
    }
    files.push_back(std::move(file));
  }
  return files;
}

absl::StatusOr<Merged> Merge(std::string_view section, std::vector<std::string> words) {
  Merged merged;
  const bool no_files = TakeNoConfig(section, &words);
  if (OnlyHelp(section, words)) {
    merged.words = std::move(words);
    return merged;
  }
  std::vector<Value> values;
  if (!no_files) {
    absl::StatusOr<std::vector<File>> files = ReadFiles();
    if (!files.ok()) return files.status();
    merged.files = std::move(*files);
  }
  int layer = 0;
  for (const File& file : merged.files) {
    // In one file the program's own section counts more than [common].
    for (const Entry& entry : file.entries) {
      const Row* recorders =
          entry.section == kRecorder && section != kRecorder ? FindByKey(kRecorder, entry.key) : nullptr;
      for (const Row& row : Table()) {
        if (row.section != section) continue;
        // What the recorder is told of where its rings are, or how its host is called, holds for who reads them.
        const bool shared = recorders != nullptr && recorders->variable == row.variable;
        const bool own = entry.section == section && row.key == entry.key;
        const bool common = entry.section == kCommon && row.common && row.key == entry.key;
        if (shared || own || common)
          Put(&values, {&row, entry.value, Place(entry), layer + (own ? 2 : common ? 1 : 0)});
      }
    }
    const std::vector<std::string> sections = Sections();
    for (const Told& told : file.told) {
      const bool others =
          told.section != section && std::find(sections.begin(), sections.end(), told.section) != sections.end();
      if (!others) merged.told.push_back(told.text);
    }
    layer += 3;
  }
  for (const Row& row : Table()) {
    if (row.section != section) continue;
    const std::string value = Variable(row.variable);
    if (value.empty()) continue;
    if (std::string wrong = section == kRecorder ? "" : WrongValue(row, value); !wrong.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(row.variable, " ", wrong, ", not '", value, "'; mend or unset it"));
    }
    Put(&values, {&row, value, row.variable, kEnvironmentLayer});
  }
  if (absl::Status status = ReadOptions(section, &words, &values); !status.ok()) return status;

  std::vector<std::string> front;
  for (const Row& row : Table()) {
    const Value* value = Find(&values, &row);
    if (value == nullptr) continue;
    bool passed_over = false;
    for (const Value& other : values) {
      bool on = true;
      if (IsFlag(*other.row)) (void)ReadFlag(other.text, &on);
      passed_over |= other.layer > value->layer && on && Lists(other.row->excludes, row.key);
    }
    if (!row.needs.empty() && value->layer < kOptionLayer) {
      const Value* needed = Find(&values, FindByKey(section, row.needs));
      bool on = needed != nullptr;
      if (on && IsFlag(*needed->row)) (void)ReadFlag(needed->text, &on);
      passed_over |= !on;
    }
    if (passed_over) continue;
    merged.values.push_back(*value);
    if (value->layer == kOptionLayer) continue;
    if (!row.option.empty()) {
      PutOptions(*value, &front);
    } else if (value->layer < kEnvironmentLayer && section != kRecorder) {
      setenv(row.variable.c_str(), value->text.c_str(), 1);
    }
  }
  merged.words = std::move(front);
  merged.words.insert(merged.words.end(), words.begin(), words.end());
  return merged;
}

bool Merged::Given(std::string_view option) const {
  return std::any_of(values.begin(), values.end(),
                     [&](const Value& value) { return value.layer == kOptionLayer && value.row->option == option; });
}

std::string Merged::Explain(std::string problem) const {
  for (const Value& value : values) {
    const std::string& option = value.row->option;
    if (value.layer == kOptionLayer || option.empty() || !absl::StartsWith(problem, option)) continue;
    const char next = problem.size() > option.size() ? problem[option.size()] : ' ';
    if (next == ' ' || next == ':' || next == '=') return absl::StrCat(value.from, ": ", problem);
  }
  return problem;
}

void Tell(const Merged& merged) {
  for (const std::string& line : merged.told) fprintf(stderr, "lockstep: %s\n", line.c_str());
}

Arguments::Arguments(std::string program, std::vector<std::string> words) : words_(std::move(words)) {
  words_.insert(words_.begin(), std::move(program));
  for (std::string& word : words_) pointers_.push_back(word.data());
  pointers_.push_back(nullptr);
}

}  // namespace lockstep::settings
