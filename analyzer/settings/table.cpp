#include "analyzer/settings/table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "recorder/ring/settings.h"

namespace lockstep::settings {
namespace {

// As the table below is written: what most rows leave out comes last.
struct Line {
  const char* section;
  const char* key;
  const char* variable;  // null: LOCKSTEP_SECTION_KEY
  const char* option;    // null: --KEY
  Kind kind = Kind::kText;
  const char* choices = "";
  const char* fallback = "";
  bool common = false;
  char separator = 0;
  const char* excludes = "";
  const char* needs = "";
};

constexpr const char* kNoOption = "";
constexpr const char* kDerived = nullptr;
constexpr const char* kRedact = "no|paths|stacks";

constexpr Line kLines[] = {
    {"agent", "collector", "LOCKSTEP_COLLECTOR", kDerived, Kind::kEndpoint, "", "", true, ',', "alone"},
    {"agent", "alone", kDerived, kDerived, Kind::kFlag, "", "no", false, 0, "collector"},
    {"agent", "out", kDerived, kDerived, Kind::kText, "", "incidents beside the spool", false, 0, "", "alone"},
    {"agent", "key", "LOCKSTEP_KEY", kDerived, Kind::kText, "", "agent.key where keys are", true},
    {"agent", "server-key", "LOCKSTEP_SERVER_KEY", kDerived, Kind::kText, "", "collector.pub where keys are", true},
    {"agent", "keys", "LOCKSTEP_KEYS", kNoOption, Kind::kText, "", "~/.config/lockstep/keys, /etc/lockstep/keys", true},
    {"agent", "insecure", kDerived, kDerived, Kind::kFlag, "", "no", true},
    {"agent", "spool", "LOCKSTEP_SPOOL", kDerived, Kind::kText, "",
     "/var/lib/lockstep/spool, of a user ~/.local/state/lockstep/spool"},
    {"agent", "spool-bytes", "LOCKSTEP_SPOOL_BYTES", kDerived, Kind::kBytes, "", "4G"},
    {"agent", "keep-rings", kDerived, kDerived, Kind::kAge, "", "7d"},
    {"agent", "keep-ring-bytes", kDerived, kDerived, Kind::kBytes, "", "5G"},
    {"agent", "rings", "LOCKSTEP_AGENT_RINGS", kDerived, Kind::kText, "", "the default places", false, ':'},
    {"agent", "containers", kDerived, "--no-containers", Kind::kNotFlag, "", "yes"},
    {"agent", "log", "LOCKSTEP_AGENT_LOG", kDerived, Kind::kText, "", "agent.log in the spool"},
    {"agent", "metrics", "LOCKSTEP_METRICS", kDerived, Kind::kText, "", ""},
    {"agent", "host", "LOCKSTEP_HOST", kDerived, Kind::kText, "", "uname"},
    {"agent", "late-after", kDerived, kDerived, Kind::kSeconds, "", "5", true},
    {"agent", "redact", "LOCKSTEP_REDACT", kDerived, Kind::kChoice, kRedact, "no", true},
    {"agent", "rack", "LOCKSTEP_RACK", kNoOption, Kind::kText, "", "not told", true},
    {"agent", "switch", "LOCKSTEP_SWITCH", kNoOption, Kind::kText, "", "of SLURM_TOPOLOGY_ADDR", true},
    {"agent", "runtime-dir", "LOCKSTEP_RUNTIME_DIR", kNoOption, Kind::kText, "",
     "/run/lockstep, of a user $XDG_RUNTIME_DIR/lockstep", true},
    {"agent", "dir", "LOCKSTEP_DIR", kNoOption, Kind::kText, "", "/dev/shm/lockstep-UID"},

    {"analyze", "format", kDerived, kDerived, Kind::kChoice, "text|json|html", "text"},
    {"analyze", "output", kDerived, kDerived, Kind::kText, "", "standard output"},
    {"analyze", "late-after", kDerived, kDerived, Kind::kSeconds, "", "5", true},
    {"analyze", "topology", kDerived, kDerived, Kind::kText, "", ""},
    {"analyze", "archive", "LOCKSTEP_ARCHIVE", kDerived, Kind::kText, "", "", true},
    {"analyze", "keys", "LOCKSTEP_KEYS", kNoOption, Kind::kText, "", "~/.config/lockstep/keys, /etc/lockstep/keys",
     true},
    {"analyze", "redact", "LOCKSTEP_REDACT", kDerived, Kind::kChoice, kRedact, "no", true},
    {"analyze", "start", kDerived, kDerived, Kind::kFlag, "", "no"},

    {"archive", "to", "LOCKSTEP_ARCHIVE", kDerived, Kind::kText, "", ""},
    {"archive", "password-file", kDerived, kDerived, Kind::kText, "", ""},
    {"archive", "ca", kDerived, kDerived, Kind::kText, "", "the system's"},
    {"archive", "insecure", kDerived, kDerived, Kind::kFlag, "", "no"},
    {"archive", "follow", kDerived, kDerived, Kind::kText, "", ""},
    {"archive", "every", kDerived, kDerived, Kind::kSeconds, "", "5"},
    {"archive", "spool", kDerived, kDerived, Kind::kText, "", "~/.local/state/lockstep/archive"},
    {"archive", "spool-limit", kDerived, kDerived, Kind::kNumber, "", "1073741824"},
    {"archive", "retry-for", kDerived, kDerived, Kind::kSeconds, "", "30"},
    {"archive", "days", kDerived, kDerived, Kind::kNumber, "", "90; links: 7"},
    {"archive", "limit", kDerived, kDerived, Kind::kNumber, "", "100"},
    {"archive", "host", kDerived, kDerived, Kind::kText, "", "all"},
    {"archive", "place", kDerived, kDerived, Kind::kText, "", "all"},
    {"archive", "job", kDerived, kDerived, Kind::kText, "", "all"},
    {"archive", "keys", "LOCKSTEP_KEYS", kNoOption, Kind::kText, "", "~/.config/lockstep/keys, /etc/lockstep/keys",
     true},
    {"archive", "redact", "LOCKSTEP_REDACT", kDerived, Kind::kChoice, kRedact, "no", true},
    {"archive", "json", kDerived, kDerived, Kind::kFlag, "", "no"},
    {"archive", "sql", kDerived, kDerived, Kind::kFlag, "", "no"},

    {"clean", "dir", "LOCKSTEP_DIR", kDerived, Kind::kText, "", "/dev/shm/lockstep-UID"},
    {"clean", "older-than", kDerived, kDerived, Kind::kAge, "", "0"},
    {"clean", "incidents", kDerived, kDerived, Kind::kText, "", ""},
    {"clean", "keep", kDerived, kDerived, Kind::kAge, "", "7d", true},
    {"clean", "keep-bytes", kDerived, kDerived, Kind::kBytes, "", "5G", true},
    {"clean", "dry-run", kDerived, kDerived, Kind::kFlag, "", "no"},

    {"collector", "listen", "LOCKSTEP_LISTEN", kDerived, Kind::kEndpoint, "", "tcp://127.0.0.1:9470", false, ','},
    {"collector", "key", "LOCKSTEP_KEY", kDerived, Kind::kText, "", "collector.key where keys are", true},
    {"collector", "known-keys", "LOCKSTEP_KNOWN_KEYS", kDerived, Kind::kText, "", "where keys are"},
    {"collector", "keys", "LOCKSTEP_KEYS", kDerived, Kind::kText, "", "", true},
    {"collector", "insecure", kDerived, kDerived, Kind::kFlag, "", "no", true},
    {"collector", "out", "LOCKSTEP_OUT", kDerived, Kind::kText, "", "the current folder"},
    {"collector", "upstream", kDerived, kDerived, Kind::kEndpoint, "", "", false, ','},
    {"collector", "server-key", "LOCKSTEP_SERVER_KEY", kDerived, Kind::kText, "", "", true, 0, "", "upstream"},
    {"collector", "metrics", kDerived, kDerived, Kind::kText, "", ""},
    {"collector", "on-verdict", kDerived, kDerived, Kind::kText, "", "nothing is done"},
    {"collector", "on-verdict-timeout", kDerived, kDerived, Kind::kSeconds, "", "60"},
    {"collector", "late-after", kDerived, kDerived, Kind::kSeconds, "", "5", true},
    {"collector", "hang-after", kDerived, kDerived, Kind::kSeconds, "", "never"},
    {"collector", "silent-after", kDerived, kDerived, Kind::kSeconds, "", "5"},
    {"collector", "quota", kDerived, kDerived, Kind::kBytes, "", "1T"},
    {"collector", "host-quota", kDerived, kDerived, Kind::kBytes, "", "4G"},
    {"collector", "archive", "LOCKSTEP_ARCHIVE", kDerived, Kind::kText, "", "", true},
    {"collector", "group", "LOCKSTEP_GROUP", kDerived, Kind::kText, "", "the owner alone", true},
    {"collector", "keep", kDerived, kDerived, Kind::kAge, "", "7d", true},
    {"collector", "keep-bytes", kDerived, kDerived, Kind::kBytes, "", "5G", true},
    {"collector", "runtime-dir", "LOCKSTEP_RUNTIME_DIR", kNoOption, Kind::kText, "",
     "/run/lockstep, of a user $XDG_RUNTIME_DIR/lockstep", true},

    {"doctor", "collector", "LOCKSTEP_COLLECTOR", kDerived, Kind::kEndpoint, "", "the one that this host knows", true},
    {"doctor", "key", "LOCKSTEP_KEY", kDerived, Kind::kText, "", "operator.key, reader.key where keys are", true},
    {"doctor", "server-key", "LOCKSTEP_SERVER_KEY", kDerived, Kind::kText, "", "collector.pub where keys are", true},
    {"doctor", "keys", "LOCKSTEP_KEYS", kNoOption, Kind::kText, "", "~/.config/lockstep/keys, /etc/lockstep/keys",
     true},
    {"doctor", "insecure", kDerived, kDerived, Kind::kFlag, "", "no", true},
    {"doctor", "nccl", kDerived, kDerived, Kind::kText, "", "those found where programs look"},
    {"doctor", "ranks", kDerived, kDerived, Kind::kNumber, "", "8"},
    {"doctor", "library", "LOCKSTEP_LIBRARY", kNoOption, Kind::kText, "", "../lib/liblockstep.so beside the program",
     true},
    {"doctor", "dir", "LOCKSTEP_DIR", kNoOption, Kind::kText, "", "/dev/shm/lockstep-UID"},
    {"doctor", "json", kDerived, kDerived, Kind::kFlag, "", "no"},
    {"doctor", "runtime-dir", "LOCKSTEP_RUNTIME_DIR", kNoOption, Kind::kText, "",
     "/run/lockstep, of a user $XDG_RUNTIME_DIR/lockstep", true},

    {"dump", "collector", "LOCKSTEP_COLLECTOR", kDerived, Kind::kEndpoint, "", "the one that this host knows", true},
    {"dump", "key", "LOCKSTEP_KEY", kDerived, Kind::kText, "", "operator.key, reader.key where keys are", true},
    {"dump", "server-key", "LOCKSTEP_SERVER_KEY", kDerived, Kind::kText, "", "collector.pub where keys are", true},
    {"dump", "keys", "LOCKSTEP_KEYS", kNoOption, Kind::kText, "", "~/.config/lockstep/keys, /etc/lockstep/keys", true},
    {"dump", "insecure", kDerived, kDerived, Kind::kFlag, "", "no", true},
    {"dump", "everything", kDerived, kDerived, Kind::kFlag, "", "no"},
    {"dump", "json", kDerived, kDerived, Kind::kFlag, "", "no"},
    {"dump", "timeout", kDerived, kDerived, Kind::kSeconds, "", "600"},
    {"dump", "runtime-dir", "LOCKSTEP_RUNTIME_DIR", kNoOption, Kind::kText, "",
     "/run/lockstep, of a user $XDG_RUNTIME_DIR/lockstep", true},

    {"evidence", "keys", "LOCKSTEP_KEYS", kNoOption, Kind::kText, "", "~/.config/lockstep/keys, /etc/lockstep/keys",
     true},
    {"evidence", "redact", "LOCKSTEP_REDACT", kDerived, Kind::kChoice, kRedact, "no", true},
    {"evidence", "ring", kDerived, kDerived, Kind::kText, "", ""},

    {"export", "perfetto", kDerived, kDerived, Kind::kText, "", ""},
    {"export", "chrome", kDerived, kDerived, Kind::kText, "", ""},
    {"export", "csv", kDerived, kDerived, Kind::kText, "", ""},
    {"export", "ranks", kDerived, kDerived, Kind::kText, "", "all"},
    {"export", "keys", "LOCKSTEP_KEYS", kNoOption, Kind::kText, "", "~/.config/lockstep/keys, /etc/lockstep/keys",
     true},
    {"export", "redact", "LOCKSTEP_REDACT", kDerived, Kind::kChoice, kRedact, "no", true},
    {"export", "around-stop", kDerived, kDerived, Kind::kSeconds, "", "all"},

    {"keygen", "role", kDerived, kDerived, Kind::kChoice, "collector|relay|agent|operator|reader", ""},
    {"keygen", "name", kDerived, kDerived, Kind::kText, "", "the role"},

    {"run", "ranks", kDerived, "-n", Kind::kNumber, "", "the command runs once"},
    {"run", "out", kDerived, kDerived, Kind::kText, "", "made up, where there is something to say", false, 0,
     "collector"},
    {"run", "collector", kDerived, kDerived, Kind::kEndpoint, "", "", false, 0, "out"},
    {"run", "group", "LOCKSTEP_GROUP", kDerived, Kind::kText, "", "the owner alone", true},
    {"run", "kill-on-hang", kDerived, kDerived, Kind::kFlag, "", "no"},
    {"run", "gpu", kDerived, kDerived, Kind::kChoice, "off|done|full|events|watch|auto", "LOCKSTEP_GPU, else watch",
     false, 0, "profiler"},
    {"run", "profiler", kDerived, kDerived, Kind::kFlag, "", "no", false, 0, "gpu"},
    {"run", "late-after", kDerived, kDerived, Kind::kSeconds, "", "5", true},
    {"run", "hang-after", kDerived, kDerived, Kind::kSeconds, "", "never"},
    {"run", "redact", "LOCKSTEP_REDACT", kDerived, Kind::kChoice, kRedact, "no", true},
    {"run", "quiet", kDerived, kDerived, Kind::kFlag, "", "no"},
    {"run", "library", "LOCKSTEP_LIBRARY", kNoOption, Kind::kText, "", "../lib/liblockstep.so beside the program",
     true},
    {"run", "rack", "LOCKSTEP_RACK", kNoOption, Kind::kText, "", "not told", true},
    {"run", "switch", "LOCKSTEP_SWITCH", kNoOption, Kind::kText, "", "of SLURM_TOPOLOGY_ADDR", true},
    {"run", "dir", "LOCKSTEP_DIR", kNoOption, Kind::kText, "", "/dev/shm, else the temporary folder"},
    {"run", "server-key", "LOCKSTEP_SERVER_KEY", kNoOption, Kind::kText, "", "collector.pub where keys are", true},
    {"run", "keys", "LOCKSTEP_KEYS", kNoOption, Kind::kText, "", "~/.config/lockstep/keys, /etc/lockstep/keys", true},

    {"top", "once", kDerived, kDerived, Kind::kFlag, "", "no"},
    {"top", "json", kDerived, kDerived, Kind::kFlag, "", "no"},
    {"top", "collector", "LOCKSTEP_COLLECTOR", kDerived, Kind::kEndpoint, "", "the one that this host knows", true},
    {"top", "key", "LOCKSTEP_KEY", kDerived, Kind::kText, "", "operator.key, reader.key where keys are", true},
    {"top", "server-key", "LOCKSTEP_SERVER_KEY", kDerived, Kind::kText, "", "collector.pub where keys are", true},
    {"top", "keys", "LOCKSTEP_KEYS", kNoOption, Kind::kText, "", "~/.config/lockstep/keys, /etc/lockstep/keys", true},
    {"top", "insecure", kDerived, kDerived, Kind::kFlag, "", "no", true},
    {"top", "runtime-dir", "LOCKSTEP_RUNTIME_DIR", kNoOption, Kind::kText, "",
     "/run/lockstep, of a user $XDG_RUNTIME_DIR/lockstep", true},

    {"view", "compare", kDerived, kDerived, Kind::kFlag, "", "no"},
    {"view", "live", kDerived, kDerived, Kind::kText, "", ""},
    {"view", "theme", kDerived, kDerived, Kind::kChoice, "light|dark", "the desktop's"},
    {"view", "tab", kDerived, kDerived, Kind::kChoice, "matrix|wait-for|timeline|stacks|bandwidth", "matrix"},
    {"view", "select-anomaly", kDerived, kDerived, Kind::kNumber, "", ""},
    {"view", "search", kDerived, kDerived, Kind::kText, "", ""},
    {"view", "size", kDerived, kDerived, Kind::kText, "", "as it was"},
    {"view", "fresh", kDerived, kDerived, Kind::kFlag, "", "no"},
    {"view", "screenshot", kDerived, kDerived, Kind::kText, "", ""},
    {"view", "print-selection", kDerived, kDerived, Kind::kFlag, "", "no"},
    {"view", "exit-after-first-paint", kDerived, kDerived, Kind::kFlag, "", "no"},
};

std::string Upper(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '-' ? '_' : static_cast<char>(toupper(static_cast<unsigned char>(c)));
  return out;
}

std::vector<Row> MakeTable() {
  std::vector<Row> rows;
  for (const Line& line : kLines) {
    Row row;
    row.section = line.section;
    row.key = line.key;
    row.variable = line.variable != nullptr ? line.variable : "LOCKSTEP_" + Upper(line.section) + "_" + Upper(line.key);
    row.option = line.option != nullptr ? line.option : std::string("--") + line.key;
    row.kind = line.kind;
    row.choices = line.choices;
    row.separator = line.separator;
    row.fallback = line.fallback;
    row.common = line.common;
    row.excludes = line.excludes;
    row.needs = line.needs;
    rows.push_back(std::move(row));
  }
  for (const ring::RecorderSetting& setting : ring::kRecorderSettings) {
    Row row;
    row.section = std::string(kRecorder);
    row.key = setting.key;
    row.variable = setting.variable;
    row.choices = setting.kind;
    const std::string kind = setting.kind;
    if (kind == "on|off") {
      row.kind = Kind::kFlag;
    } else if (kind == "NUMBER") {
      row.kind = Kind::kNumber;
    } else if (kind.find('|') != std::string::npos && row.key != "budget") {
      row.kind = Kind::kChoice;
    }
    row.fallback = setting.fallback;
    row.meaning = setting.meaning;
    row.common = row.key == "group";
    rows.push_back(std::move(row));
  }
  return rows;
}

bool WholeNumber(std::string_view text) {
  return !text.empty() && text.size() <= 18 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool WithUnit(std::string_view text, std::string_view units) {
  if (!text.empty() && units.find(text.back()) != units.npos) text.remove_suffix(1);
  return WholeNumber(text);
}

bool PositiveSeconds(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const double value = strtod(copy.c_str(), &end);
  return !copy.empty() && *end == 0 && !isspace(static_cast<unsigned char>(copy[0])) && std::isfinite(value) &&
         value >= 0;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

const std::vector<Row>& Table() {
  static const auto& rows = *new std::vector<Row>(MakeTable());
  return rows;
}

const std::vector<LoneVariable>& LoneVariables() {
  static const auto& variables = *new std::vector<LoneVariable>{
      {"LOCKSTEP_CONFIG", "every verb and the recorder", "another configuration file, read after /etc/lockstep.conf"},
      {"LOCKSTEP_ARCHIVE_PASSWORD", "archive, and analyze and collector for \"before\"",
       "the archive's password; no key, for a configuration file may be read by others: archive has --password-file"},
      {"LOCKSTEP_VIEW_VERBOSE", "view", "set: says on standard error what it loads"},
      {"LOCKSTEP_ENROOT_ENVIRONMENT", "the Enroot hook", "its file of variables (default /etc/lockstep/enroot.env)"},
      {"LOCKSTEP_PROGRAM", "Slurm's prolog and epilog", "the lockstep program (default lockstep)"},
      {"LOCKSTEP_SLURM_ENVIRONMENT", "Slurm's prolog, TaskProlog and epilog",
       "a file of variables instead of `environment` beside them"},
      {"LOCKSTEP_SLURM_RUN", "Slurm's prolog and epilog", "where the node's agent runs (default /run/lockstep-slurm)"},
      {"LOCKSTEP_SLURM_RINGS", "Slurm's prolog, TaskProlog and epilog",
       "where rings are (default /dev/shm/lockstep-slurm)"},
  };
  return variables;
}

std::vector<std::string> Sections() {
  std::vector<std::string> sections;
  for (const Row& row : Table()) {
    if (sections.empty() || sections.back() != row.section) sections.push_back(row.section);
  }
  return sections;
}

const Row* FindByKey(std::string_view section, std::string_view key) {
  for (const Row& row : Table()) {
    if (row.section == section && row.key == key) return &row;
  }
  return nullptr;
}

const Row* FindByOption(std::string_view section, std::string_view option) {
  for (const Row& row : Table()) {
    if (row.section == section && !row.option.empty() && row.option == option) return &row;
  }
  return nullptr;
}

bool ReadFlag(std::string_view text, bool* value) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(tolower(static_cast<unsigned char>(c)));
  for (const char* yes : {"yes", "on", "true", "1"}) {
    if (lower == yes) return *value = true, true;
  }
  for (const char* no : {"no", "off", "false", "0"}) {
    if (lower == no) return *value = false, true;
  }
  return false;
}

std::string WrongValue(const Row& row, std::string_view value) {
  bool flag = false;
  if (value.empty()) return "takes a value";
  if (row.separator != 0) {
    const std::vector<std::string> parts = Split(value, row.separator);
    if (parts.empty()) return "takes a value";
    Row one = row;
    one.separator = 0;
    for (const std::string& part : parts) {
      if (std::string wrong = WrongValue(one, part); !wrong.empty()) return wrong;
    }
    return "";
  }
  switch (row.kind) {
    case Kind::kFlag:
    case Kind::kNotFlag:
      return ReadFlag(value, &flag) ? "" : "takes yes or no";
    case Kind::kNumber:
      return WholeNumber(value) ? "" : "takes a whole number";
    case Kind::kSeconds:
      return PositiveSeconds(value) ? "" : "takes a number of seconds";
    case Kind::kBytes:
      return WithUnit(value, "kKMGT") ? "" : "takes a number of bytes like 500M or 10G";
    case Kind::kAge:
      return WithUnit(value, "smhd") ? "" : "takes an age such as 90s, 10m, 36h or 7d";
    case Kind::kChoice: {
      for (const std::string& choice : Split(row.choices, '|')) {
        if (choice == value) return "";
      }
      std::string text = "takes one of ";
      for (const char c : row.choices) text += c == '|' ? std::string(", ") : std::string(1, c);
      return text;
    }
    case Kind::kEndpoint:
      if (value.substr(0, 6) == "tcp://" && value.find(':', 6) != value.npos) return "";
      return value.substr(0, 6) == "ipc://" && value.size() > 6 ? ""
                                                                : "takes an endpoint, tcp://ADDRESS:PORT or ipc://PATH";
    case Kind::kText:
      break;
  }
  return "";
}

std::vector<std::string> WrongRecorderVariables() {
  std::vector<std::string> lines;
  for (const Row& row : Table()) {
    const char* value = row.section == kRecorder ? getenv(row.variable.c_str()) : nullptr;
    if (value == nullptr || *value == 0) continue;
    // As the recorder reads them: without regard to case, and 0 or no for off.
    std::string text = value;
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(tolower(c)); });
    bool on = true;
    if (row.kind == Kind::kChoice && ReadFlag(text, &on) &&
        ("|" + row.choices + "|").find(on ? "|on|" : "|off|") != std::string::npos)
      continue;
    const std::string wrong = WrongValue(row, text);
    if (!wrong.empty())
      lines.push_back(row.variable + " " + wrong + ", not '" + std::string(value).substr(0, 60) +
                      "': the recorder goes by its default, " + row.fallback);
  }
  return lines;
}

std::string Nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  if (word.size() > 64) return "";
  for (const std::string& candidate : known) {
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j <= candidate.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= candidate.size(); ++j) {
        const size_t above = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1)});
        diagonal = above;
      }
    }
    if (row.back() < least && row.back() < candidate.size()) {
      least = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace lockstep::settings
