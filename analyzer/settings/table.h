// Every setting of every program: its key in a configuration file, its environment variable, its option. The one place
// where these names are; docs/options.md, `lockstep config` and the reading of files come from it.
#ifndef LOCKSTEP_ANALYZER_SETTINGS_TABLE_H_
#define LOCKSTEP_ANALYZER_SETTINGS_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::settings {

enum class Kind {
  kText,
  kFlag,     // the option takes no value; in a file and in the environment: yes, no
  kNotFlag,  // the same, and the option means no
  kNumber,   // whole, from 0
  kSeconds,
  kBytes,  // 500M, 4G
  kAge,    // 90s, 10m, 36h, 7d
  kChoice,
  kEndpoint,  // tcp://..., ipc://...
};

struct Row {
  std::string section;  // the verb, or "recorder"
  std::string key;
  std::string variable;
  std::string option;  // "--late-after"; empty: no option, what a file says goes into the environment of the program
  Kind kind = Kind::kText;
  std::string choices;   // kChoice: "text|json|html"
  char separator = 0;    // of a list, in a file and in the environment; as options each has its own
  std::string fallback;  // the default, for people
  bool common = false;   // also taken from [common]
  std::string excludes;  // keys of this section which, set by something that counts less, are passed over
  std::string needs;     // a key without which this one, unless given as an option, is passed over
  std::string meaning;   // of the recorder's; the programs' own --help says it of the others
};

inline constexpr std::string_view kCommon = "common", kRecorder = "recorder";

const std::vector<Row>& Table();

// Variables that are no key's, and what reads them.
struct LoneVariable {
  std::string name, readers, meaning;
};
const std::vector<LoneVariable>& LoneVariables();

std::vector<std::string> Sections();  // without [common]
const Row* FindByKey(std::string_view section, std::string_view key);
const Row* FindByOption(std::string_view section, std::string_view option);

// Empty, or what `row` takes instead of `value`: "takes a number of seconds above 0".
std::string WrongValue(const Row& row, std::string_view value);
// Variables of the recorder in this process's environment whose value it does not understand, a line each: it goes by
// its default then and says so nowhere but in its ring.
std::vector<std::string> WrongRecorderVariables();
// yes, on, true, 1 and no, off, false, 0.
bool ReadFlag(std::string_view text, bool* value);
// The one of `known` that `word` was probably meant to be; empty: none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_ANALYZER_SETTINGS_TABLE_H_
