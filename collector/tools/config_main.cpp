// The config verb: every setting, its value and its source.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/settings/help.h"
#include "analyzer/settings/options.h"
#include "nlohmann/json.hpp"
#include "recorder/ring/settings.h"

namespace lockstep::settings {
namespace {

struct Shown {
  const Row* row;
  std::string value, from;
};

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kText: return "text";
    case Kind::kFile: return "file";
    case Kind::kFolder: return "folder";
    case Kind::kFlag:
    case Kind::kNotFlag: return "flag";
    case Kind::kNumber: return "number";
    case Kind::kSeconds: return "seconds";
    case Kind::kBytes: return "bytes";
    case Kind::kAge: return "age";
    case Kind::kRanks: return "ranks";
    case Kind::kChoice: return "choice";
    case Kind::kEndpoint:
    case Kind::kListen: return "endpoint";
  }
  return "";
}

nlohmann::ordered_json RowJson(const Row& row) {
  nlohmann::ordered_json json;
  json["section"] = row.section;
  json["key"] = row.key;
  json["variable"] = row.variable;
  json["option"] = row.option;
  json["kind"] = KindName(row.kind);
  json["takes_value"] = !IsFlag(row);
  json["default"] = row.fallback;
  json["common"] = row.common;
  if (!row.meaning.empty()) json["meaning"] = row.meaning;
  if (!row.choices.empty()) json["choices"] = row.choices;
  return json;
}

nlohmann::ordered_json ShownRowJson(const Row& row) {
  nlohmann::ordered_json json = RowJson(row);
  json["value"] = row.value;
  json["details"] = Details(row);
  json["repeats"] = row.separator != 0;
  return json;
}

nlohmann::ordered_json VerbJson(const Verb& verb) {
  nlohmann::ordered_json json = {{"name", verb.name},
                                 {"purpose", verb.purpose},
                                 {"usage", verb.usage},
                                 {"text", verb.text},
                                 {"notes", verb.notes},
                                 {"operand", verb.operand},
                                 {"operand_kind", KindName(verb.operand_kind)},
                                 {"examples", nlohmann::ordered_json::array()},
                                 {"groups", nlohmann::ordered_json::array()}};
  for (const Example& example : verb.examples)
    json["examples"].push_back({{"command", example.command}, {"meaning", example.meaning}});
  for (const Group& group : verb.groups) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Row& row : group.rows) {
      if (!row.hidden) rows.push_back(ShownRowJson(row));
    }
    json["groups"].push_back({{"title", group.title}, {"options", std::move(rows)}});
  }
  return json;
}

void Print(const nlohmann::ordered_json& json) {
  printf("%s\n", json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

void PrintReference() {
  nlohmann::ordered_json json = {{"version", LOCKSTEP_VERSION}};
  for (const Row& row : CommonOptions()) json["common"].push_back(ShownRowJson(row));
  for (const Verb& verb : Verbs()) json["verbs"].push_back(VerbJson(verb));
  for (const Row& row : Table()) json["settings"].push_back(RowJson(row));
  for (const LoneVariable& lone : LoneVariables())
    json["variables"].push_back({{"variable", lone.name}, {"readers", lone.readers}, {"meaning", lone.meaning}});
  Print(json);
}

// Merges the section's settings. Adds errors in arguments and files to *problems, and continues without them.
Merged MergeWhatIsRight(const std::string& section, const ParsedOptions& options, std::vector<std::string>* problems) {
  const auto keep = [problems](const absl::Status& status) {
    const std::string problem(status.message());
    if (std::find(problems->begin(), problems->end(), problem) == problems->end()) problems->push_back(problem);
  };
  absl::StatusOr<CommandLine> line = CommandLine();
  const std::vector<std::string>& words = options.operands();
  const std::vector<std::string> arguments(words.empty() ? words.end() : words.begin() + 1, words.end());
  if (const Verb* verb = FindVerb(section)) line = ReadCommandLine(*verb, arguments);
  if (!line.ok()) {
    keep(line.status());
    line = CommandLine();
  }
  absl::StatusOr<Merged> merged = Merge(section, line->options, options.config_files && line->files);
  if (!merged.ok()) {
    keep(merged.status());
    merged = Merge(section, line->options, false);
  }
  return merged.ok() ? *std::move(merged) : Merged();
}

int Show(const ParsedOptions& options) {
  const std::string chosen = options.operand();
  const bool check = options.Flag("check");
  std::vector<std::string> problems;
  std::vector<Shown> shown;
  const absl::StatusOr<std::vector<File>> files = options.config_files ? ReadFiles() : std::vector<File>();
  if (!files.ok()) problems.emplace_back(files.status().message());
  if (files.ok()) {
    for (const File& file : *files) {
      for (const Told& told : file.told) problems.push_back(told.text);
    }
  }
  if (chosen.empty() || chosen == kRecorder) {
    for (std::string& line : WrongRecorderVariables()) problems.push_back(std::move(line));
  }
  for (const std::string& section : Sections()) {
    if (!chosen.empty() && section != chosen) continue;
    const Merged merged = MergeWhatIsRight(section, options, &problems);
    for (const Row& row : Table()) {
      if (row.section != section) continue;
      Shown one{&row, row.fallback, "default"};
      for (const Value& value : merged.values) {
        if (value.row == &row) one = {&row, value.text, value.from};
      }
      shown.push_back(std::move(one));
    }
  }
  if (options.Flag("json")) {
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
    if (!check) Print(json);
  } else if (!check) {
    if (files.ok()) {
      for (const File& file : *files) {
        printf("# %s: %s\n", file.path.c_str(),
               file.found ? absl::StrCat("read, ", file.entries.size(), " settings").c_str() : "does not exist");
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

int Main(int argc, char** argv) {
  const absl::StatusOr<ParsedOptions> parsed = Parse("config", argc, argv);
  if (const std::optional<int> status = Finished("config", parsed)) return *status;
  if (parsed->Flag("reference")) return PrintReference(), 0;
  const std::string section = parsed->operand();
  const std::vector<std::string> sections = Sections();
  if (!section.empty() && std::find(sections.begin(), sections.end(), section) == sections.end()) {
    const std::string near = Nearest(section, sections);
    return UsageError(
        "config", parsed->Wrong(absl::StrCat("no settings for '", section, "'", near.empty() ? "" : "; did you mean ",
                                             near, near.empty() ? "" : "?")));
  }
  return Show(*parsed);
}

}  // namespace
}  // namespace lockstep::settings

int main(int argc, char** argv) { return lockstep::settings::Main(argc, argv); }
