#include "analyzer/settings/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_replace.h"
#include "analyzer/settings/verbs.h"
#include "recorder/ring/settings.h"

namespace lockstep::settings {
namespace {

void AddRecorderRows(std::vector<Row>* rows) {
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
    rows->push_back(std::move(row));
  }
}

struct Tables {
  std::vector<Verb> verbs = MakeVerbs();
  std::vector<Row> settings, others;  // others: options that are not settings

  Tables() {
    for (const Verb& verb : verbs) {
      for (const Group& group : verb.groups) {
        for (const Row& row : group.rows) (row.variable.empty() ? others : settings).push_back(row);
      }
    }
    AddRecorderRows(&settings);
  }
};

const Tables& AllTables() {
  static const auto& tables = *new Tables;
  return tables;
}

template <typename Match>
const Row* Find(const std::vector<Row>& rows, std::string_view section, const Match& match) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.section == section && match(row); });
  return found == rows.end() ? nullptr : &*found;
}

template <typename Match>
const Row* FindAnywhere(std::string_view section, const Match& match) {
  const Row* row = Find(AllTables().settings, section, match);
  return row != nullptr ? row : Find(AllTables().others, section, match);
}

}  // namespace

const std::vector<Verb>& Verbs() { return AllTables().verbs; }

const Verb* FindVerb(std::string_view name) {
  const std::vector<Verb>& verbs = Verbs();
  const auto found = std::find_if(verbs.begin(), verbs.end(), [&](const Verb& verb) { return verb.name == name; });
  return found == verbs.end() ? nullptr : &*found;
}

const std::vector<Row>& CommonOptions() {
  static const auto& rows = *new std::vector<Row>([] {
    std::vector<Row> made;
    for (const auto& [names, meaning] :
         {std::pair("-h, --help", "show this and exit"), std::pair("-V, --version", "show the version and exit"),
          std::pair("--no-config", "read no configuration file")}) {
      Row row;
      row.option = names;
      row.meaning = meaning;
      row.kind = Kind::kFlag;
      made.push_back(std::move(row));
    }
    return made;
  }());
  return rows;
}

const std::vector<Row>& Table() { return AllTables().settings; }

const std::vector<LoneVariable>& LoneVariables() {
  static const auto& variables = *new std::vector<LoneVariable>{
      {"LOCKSTEP_CONFIG", "every verb and the recorder", "another configuration file, read after /etc/lockstep.conf"},
      {"LOCKSTEP_ARCHIVE_PASSWORD", "archive; analyze and collector for the row \"before\"",
       "the archive's password. Configuration files cannot set it, because others may read them; use --password-file "
       "of archive"},
      {"LOCKSTEP_INCIDENT", "the command of --on-verdict",
       "set by Lockstep: the incident's folder; empty if none was written"},
      {"LOCKSTEP_VERDICT", "the command of --on-verdict",
       "set by Lockstep, like all LOCKSTEP_VERDICT_* variables: the value of `verdict` in the JSON. In all of them, "
       "`?` or a space replaces control "
       "characters, bidirectional characters and invalid UTF-8"},
      {"LOCKSTEP_VERDICT_FINDING", "the command of --on-verdict",
       "`kind` of the first finding; empty if there is none"},
      {"LOCKSTEP_VERDICT_JOB", "the command of --on-verdict", "`job`, at most 200 characters"},
      {"LOCKSTEP_VERDICT_JOB_ID", "the command of --on-verdict",
       "`job` up to its first / or #, if it starts with a letter or digit and has only letters, digits and . _ -; "
       "otherwise empty"},
      {"LOCKSTEP_VERDICT_ACTION", "the command of --on-verdict", "`recommended.action`: exclude, requeue, wait or ask"},
      {"LOCKSTEP_VERDICT_CONFIDENCE", "the command of --on-verdict", "`recommended.confidence` with four decimals"},
      {"LOCKSTEP_VERDICT_HOSTS", "the command of --on-verdict",
       "`recommended.hosts`, separated by spaces; at most 256, and only names of letters, digits and . _ -"},
      {"LOCKSTEP_VERDICT_HOSTS_LEFT_OUT", "the command of --on-verdict", "how many hosts are not in the list"},
      {"LOCKSTEP_VERDICT_RANKS", "the command of --on-verdict", "the first 256 of `recommended.ranks`"},
      {"LOCKSTEP_VERDICT_WHY", "the command of --on-verdict", "`recommended.why`, at most 1,000 characters"},
      {"LOCKSTEP_VIEW_VERBOSE", "view", "if set, prints to standard error what it loads"},
      {"LOCKSTEP_ENROOT_ENVIRONMENT", "the Enroot hook",
       "file with variables for the hook (default /etc/lockstep/enroot.env)"},
      {"LOCKSTEP_PROGRAM", "Slurm's prolog and epilog", "the lockstep program (default lockstep)"},
      {"LOCKSTEP_SLURM_ENVIRONMENT", "Slurm's prolog, TaskProlog and epilog",
       "a file with variables, used instead of the file `environment` in the folder of the scripts"},
      {"LOCKSTEP_SLURM_RUN", "Slurm's prolog and epilog",
       "runtime folder of the node's agent (default /run/lockstep-slurm)"},
      {"LOCKSTEP_SLURM_RINGS", "Slurm's prolog, TaskProlog and epilog",
       "folder for rings (default /dev/shm/lockstep-slurm)"},
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
  return Find(Table(), section, [&](const Row& row) { return row.key == key; });
}

const Row* FindByOption(std::string_view section, std::string_view option) {
  return FindAnywhere(section, [&](const Row& row) { return !row.option.empty() && row.option == option; });
}

const Row* FindOptionKey(std::string_view section, std::string_view key) {
  return FindAnywhere(section, [&](const Row& row) { return row.key == key; });
}

bool IsFlag(const Row& row) { return row.kind == Kind::kFlag || row.kind == Kind::kNotFlag; }

std::string ChoiceList(const Row& row) { return absl::StrReplaceAll(row.choices, {{"|", ", "}}); }

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
