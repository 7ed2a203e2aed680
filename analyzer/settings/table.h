// Every verb with its options, and every setting: key in a configuration file, environment variable, option. This is
// the only list of these names: parsing, --help, man pages, completion, docs/options.md and `lockstep config` all use
// it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::settings {

enum class Kind {
  kText,
  kFile,
  kFolder,
  kFlag,     // the option takes no value; in a file and in the environment: yes, no
  kNotFlag,  // like kFlag, but the option means no
  kNumber,   // an integer, at least 0
  kSeconds,
  kBytes,  // 500M, 4G
  kAge,    // 90s, 10m, 36h, 7d
  kRanks,  // 0-7,16
  kChoice,
  kEndpoint,  // tcp://HOST:PORT, ipc://PATH
  kListen,    // like kEndpoint; port 0 or * means any free port
};

struct Row {
  std::string section;  // the verb, or "recorder"
  std::string key;
  std::string variable;  // empty for an option that files and the environment cannot set
  // "--late-after"; empty if there is no option. In that case, a value from a file is exported into this process's
  // environment, except in the section [recorder].
  std::string option;
  Kind kind = Kind::kText;
  std::string value;     // the placeholder for the value in --help: "FILE"
  std::string choices;   // kChoice: "text|json|html"
  char separator = 0;    // separates the parts of a list in a file or the environment; the option may be repeated
  std::string fallback;  // the default; if the kind does not accept it, only the help text uses it
  // For numbers, seconds (at least 1e-9 means above 0), bytes and ages; most = 0 means no limit.
  double least = 0, most = 0;
  bool common = false;   // also read from [common]
  std::string excludes;  // keys of this section that cannot be set together with this one
  std::string needs;     // a key that must be set if this key is set
  std::string meaning;
  bool hidden = false;  // for Lockstep's own processes; not in --help
};

// Options on one subject; the title may be empty.
struct Group {
  std::string title;
  std::vector<Row> rows;  // for display only; lookups return the rows of Table()
};

struct Example {
  std::string command, meaning;
};

struct Verb {
  std::string name;
  std::string purpose;             // half a line, for `lockstep --help`
  std::vector<std::string> usage;  // "lockstep run [OPTIONS] -- COMMAND"
  std::vector<std::string> text;   // paragraphs
  std::vector<Example> examples;   // at most three
  std::vector<Group> groups;
  std::vector<std::string> notes;  // paragraphs at the end; one begins with "Exit status: "
  std::string operand{};           // "PATH"; empty if there is none
  Kind operand_kind = Kind::kText;
  size_t least_operands = 0, most_operands = 0;
  bool command = false;  // the first operand ends the options, and everything after it belongs to the command
};

inline constexpr std::string_view kCommon = "common", kRecorder = "recorder";

const std::vector<Verb>& Verbs();
const Verb* FindVerb(std::string_view name);
// The options of every verb, with all their names in `option`: "-h, --help".
const std::vector<Row>& CommonOptions();

// Settings: everything that files or the environment can set.
const std::vector<Row>& Table();

// Variables without a key, and the programs that read them.
struct LoneVariable {
  std::string name, readers, meaning;
};
const std::vector<LoneVariable>& LoneVariables();

std::vector<std::string> Sections();  // without [common]
const Row* FindByKey(std::string_view section, std::string_view key);
// The next two functions also find options that are not settings.
const Row* FindByOption(std::string_view section, std::string_view option);
const Row* FindOptionKey(std::string_view section, std::string_view key);

bool IsFlag(const Row& row);
// Returns the word in `known` that is closest to `word`; empty if none is close.
std::string Nearest(std::string_view word, const std::vector<std::string>& known);
// Returns "text, json, html".
std::string ChoiceList(const Row& row);

}  // namespace lockstep::settings
