// The config verb: every setting, its value and where that comes from.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/settings/merge.h"
#include "nlohmann/json.hpp"
#include "recorder/ring/settings.h"

namespace lockstep::settings {
namespace {

constexpr char kHelp[] =
    "Usage: lockstep config [OPTIONS] [VERB [ARGUMENTS...]]\n\n"
    "Prints every setting of VERB (agent, collector, run, ...; recorder: of the library in the training processes), or "
    "of\n"
    "all of them, with its value and where that comes from: a configuration file, the environment, an option among\n"
    "ARGUMENTS, or the default. Files are /etc/lockstep.conf and the one that LOCKSTEP_CONFIG names; what comes later "
    "in\n"
    "this order counts.\n\n"
    "  --check        only say what is wrong with the files\n"
    "  --json         as JSON\n"
    "  --reference    every setting there is, as JSON: key, variable, option, default\n"
    "  -h, --help     this text\n"
    "  -V, --version  the version\n\n"
    "Exit status: 0 all is understood; 1 something in a file or the environment is not, or a file cannot be used; 2 "
    "wrong\n"
    "arguments.\n";

struct Options {
  bool check = false, json = false, reference = false;
  std::string section;
  std::vector<std::string> arguments;
};

struct Shown {
  const Row* row;
  std::string value, from;
};

int Usage(const std::string& text) {
  fprintf(stderr, "lockstep config: %s (lockstep config --help shows the options)\n", text.c_str());
  return 2;
}

nlohmann::ordered_json RowJson(const Row& row) {
  nlohmann::ordered_json json;
  json["section"] = row.section;
  json["key"] = row.key;
  json["variable"] = row.variable;
  json["option"] = row.option;
  json["takes_value"] = row.kind != Kind::kFlag && row.kind != Kind::kNotFlag;
  json["default"] = row.fallback;
  json["common"] = row.common;
  if (!row.meaning.empty()) json["meaning"] = row.meaning;
  if (!row.choices.empty()) json["choices"] = row.choices;
  return json;
}

void PrintReference() {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Row& row : Table()) rows.push_back(RowJson(row));
  for (const LoneVariable& lone : LoneVariables()) {
    rows.push_back({{"section", ""},
                    {"key", ""},
                    {"variable", lone.name},
                    {"option", ""},
                    {"readers", lone.readers},
                    {"meaning", lone.meaning}});
  }
  printf("%s\n", rows.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

// Files cannot be used: says so and goes on with what is left, so that the rest can be seen.
absl::StatusOr<Merged> MergeOr(const std::string& section, const std::vector<std::string>& words,
                               std::vector<std::string>* problems) {
  absl::StatusOr<Merged> merged = Merge(section, words);
  if (merged.ok()) return merged;
  const std::string problem(merged.status().message());
  if (std::find(problems->begin(), problems->end(), problem) == problems->end()) problems->push_back(problem);
  std::vector<std::string> without = words;
  without.insert(without.begin(), "--no-config");
  return Merge(section, std::move(without));
}

int Show(const Options& options) {
  std::vector<std::string> problems;
  std::vector<Shown> shown;
  const absl::StatusOr<std::vector<File>> files = ReadFiles();
  if (!files.ok()) problems.emplace_back(files.status().message());
  if (files.ok()) {
    for (const File& file : *files) {
      for (const Told& told : file.told) problems.push_back(told.text);
    }
  }
  if (options.section.empty() || options.section == kRecorder) {
    for (std::string& line : WrongRecorderVariables()) problems.push_back(std::move(line));
  }
  for (const std::string& section : Sections()) {
    if (!options.section.empty() && section != options.section) continue;
    const absl::StatusOr<Merged> merged = MergeOr(section, options.arguments, &problems);
    for (const Row& row : Table()) {
      if (row.section != section) continue;
      Shown one{&row, row.fallback, "default"};
      for (const Value& value : merged.ok() ? merged->values : std::vector<Value>()) {
        if (value.row == &row) one = {&row, value.text, value.from};
      }
      shown.push_back(std::move(one));
    }
  }
  if (options.json) {
    nlohmann::ordered_json json;
    json["files"] = nlohmann::ordered_json::array();
    if (files.ok()) {
      for (const File& file : *files) json["files"].push_back({{"path", file.path}, {"found", file.found}});
    }
    json["problems"] = problems;
    json["settings"] = nlohmann::ordered_json::array();
    for (const Shown& one : shown) {
      nlohmann::ordered_json row = RowJson(*one.row);
      row["value"] = one.value;
      row["from"] = one.from;
      json["settings"].push_back(row);
    }
    if (!options.check)
      printf("%s\n", json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  } else if (!options.check) {
    if (files.ok()) {
      for (const File& file : *files) {
        printf("# %s: %s\n", file.path.c_str(),
               file.found ? absl::StrCat("read, ", file.entries.size(), " settings").c_str() : "is not there");
      }
    }
    std::string section;
    for (const Shown& one : shown) {
      if (one.row->section != section) printf("\n[%s]\n", one.row->section.c_str());
      section = one.row->section;
      printf("%-24s %-32s %s\n", one.row->key.c_str(), one.value.empty() ? "-" : one.value.c_str(), one.from.c_str());
    }
  }
  fflush(stdout);
  for (const std::string& problem : problems) fprintf(stderr, "lockstep: %s\n", problem.c_str());
  return problems.empty() ? 0 : 1;
}

int Main(const std::vector<std::string>& words) {
  Options options;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-h" || word == "--help") return fputs(kHelp, stdout), 0;
    if (word == "-V" || word == "--version") return puts("lockstep " LOCKSTEP_VERSION), 0;
    if (word == "--check") {
      options.check = true;
    } else if (word == "--json") {
      options.json = true;
    } else if (word == "--reference") {
      options.reference = true;
    } else if (absl::StartsWith(word, "-")) {
      return Usage(absl::StrCat("unknown option '", word, "'"));
    } else {
      options.section = word;
      options.arguments = {words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end()};
      break;
    }
  }
  const std::vector<std::string> sections = Sections();
  if (!options.section.empty() && std::find(sections.begin(), sections.end(), options.section) == sections.end()) {
    const std::string near = Nearest(options.section, sections);
    return Usage(absl::StrCat("there is no '", options.section, "'",
                              near.empty() ? "" : absl::StrCat("; is '", near, "' meant?")));
  }
  if (options.reference) return PrintReference(), 0;
  return Show(options);
}

}  // namespace
}  // namespace lockstep::settings

int main(int argc, char** argv) {
  return lockstep::settings::Main({argv + 1, argv + argc});
}
