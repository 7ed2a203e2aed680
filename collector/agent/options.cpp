#include "collector/agent/options.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/settings/merge.h"
#include "analyzer/util/system.h"
#include "collector/common/runtime_folder.h"
#include "collector/rings/clean.h"

namespace lockstep {
namespace {

absl::Status Usage(const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat(text, " (lockstep agent --help shows the options)"));
}

// "4G", "500M", "1048576".
absl::Status ParseBytes(const std::string& name, std::string value, uint64_t* bytes) {
  uint64_t unit = 1, number = 0;
  const std::string whole = value;
  if (!value.empty()) {
    const size_t at = std::string("kMGT").find(value.back());
    if (at != std::string::npos) {
      unit = uint64_t{1} << (10 * (at + 1));
      value.pop_back();
    }
  }
  if (!absl::SimpleAtoi(value, &number) || number == 0 || number > (uint64_t{1} << 50) / unit ||
      number * unit < (1 << 20)) {
    return Usage(absl::StrCat(name, " takes a number of bytes from 1M to 1024T (k, M, G, T), not '", whole, "'"));
  }
  *bytes = number * unit;
  return absl::OkStatus();
}

void AddList(const std::string& text, char separator, std::vector<std::string>* list) {
  for (const absl::string_view word : absl::StrSplit(text, separator, absl::SkipEmpty())) list->emplace_back(word);
}

std::string DefaultSpool() {
  if (geteuid() == 0) return "/var/lib/lockstep/spool";
  if (const std::string state = EnvironmentValue("XDG_STATE_HOME"); !state.empty()) return state + "/lockstep/spool";
  if (const std::string home = EnvironmentValue("HOME"); !home.empty()) return home + "/.local/state/lockstep/spool";
  return RuntimeFolderPath() + "/spool";
}

// As the tools look for theirs.
std::string FindKey(const char* name) {
  std::vector<std::string> folders;
  if (const std::string keys = EnvironmentValue("LOCKSTEP_KEYS"); !keys.empty()) folders.push_back(keys);
  if (const std::string home = EnvironmentValue("HOME"); !home.empty())
    folders.push_back(home + "/.config/lockstep/keys");
  folders.push_back("/etc/lockstep/keys");
  for (const std::string& folder : folders) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return "";
}

void FillDefaults(AgentOptions* options) {
  if (options->spool.empty()) options->spool = DefaultSpool();
  if (options->log.empty()) options->log = options->spool + "/agent.log";
  if (options->host.empty()) options->host = HostName();
  // On loopback keys are used where somebody named some: a collector there may go without.
  bool keys = !EnvironmentValue("LOCKSTEP_KEYS").empty() || !options->security.own_key.empty() ||
              !options->security.server_key.empty();
  for (const std::string& endpoint : options->collectors) keys |= !wire::IsLocal(endpoint);
  if (keys && !options->security.insecure) {
    if (options->security.own_key.empty()) options->security.own_key = FindKey("agent.key");
    if (options->security.server_key.empty()) options->security.server_key = FindKey("collector.pub");
  }
}

}  // namespace

const char* AgentHelp() {
  return R"(Usage: lockstep agent [OPTIONS]

Watches the ranks of this host, reports to the collector, and keeps the rings of processes that end abnormally. One for a
host, as root for the jobs of all users; or one for a user. Without a collector it works by itself.

  --collector ENDPOINT  e.g. tcp://head:9470; several, tried in this order, with commas between them
                        (LOCKSTEP_COLLECTOR)
  --alone               no collector elsewhere: one of its own, for this host alone, on a socket in the runtime folder; lockstep
                        top and lockstep dump of this user and of root find it there
  --out DIR             with --alone: its incidents (default incidents beside the spool)
  --key FILE            own secret key (LOCKSTEP_KEY; otherwise agent.key in $LOCKSTEP_KEYS, ~/.config/lockstep/keys,
                        /etc/lockstep/keys)
  --server-key KEY      the collector's public key: a file, or its 40 characters (LOCKSTEP_SERVER_KEY; otherwise
                        collector.pub in those folders)
  --insecure            without keys
  --spool DIR           what is not with the collector yet (LOCKSTEP_SPOOL; default /var/lib/lockstep/spool, of a user
                        ~/.local/state/lockstep/spool)
  --spool-bytes N       at most so much of it: 500M, 4G (LOCKSTEP_SPOOL_BYTES; default 4G)
  --rings DIR           watch this LOCKSTEP_DIR and no other place; may come several times (LOCKSTEP_AGENT_RINGS, with
                        colons)
  --keep-rings AGE      rings of dead processes go so long after the last record: 90s, 10m, 36h, 7d (default 7d; 0: never). Those of
                        abnormal ends are in the spool by then
  --keep-ring-bytes N   and the oldest of them while a user's take more: 500M, 5G (default 5G, and never more than a quarter of
                        the memory that rings may take; 0: however much)
  --no-containers       look into no other process's mounts and environment
  --log FILE            (LOCKSTEP_AGENT_LOG; default agent.log in the spool)
  --metrics ADDRESS:PORT  serve Prometheus metrics there, on loopback only (LOCKSTEP_METRICS)
  --host NAME           this host's name (LOCKSTEP_HOST, as the recorder takes it)
  --late-after SECONDS  a wait shorter than this is never late (default 5)
  --redact LEVEL        before anything leaves the host: no, paths (folders become hashes) or stacks (also names of files,
                        functions and threads that are not public); docs/security.md (LOCKSTEP_REDACT; default no)
  -h, --help            this text
  -V, --version         the version

SIGTERM ends it: what is being written is finished, and what the collector takes within 3 s is sent. SIGHUP opens the log
anew. Exit status: 0 ended by a signal, 1 it cannot work here, 2 wrong arguments.
)";
}

namespace {

absl::StatusOr<AgentOptions> ParseWords(const std::vector<std::string>& words) {
  AgentOptions options;
  for (size_t at = 0; at < words.size(); ++at) {
    std::string option = words[at], value;
    if (option == "-h" || option == "--help") {
      options.help = true;
      return options;
    }
    if (option == "-V" || option == "--version") {
      options.version = true;
      return options;
    }
    if (option == "--insecure") {
      options.security.insecure = true;
      continue;
    }
    if (option == "--alone") {
      options.alone = true;
      continue;
    }
    if (option == "--no-containers") {
      options.containers = false;
      continue;
    }
    bool has_value = false;
    if (const size_t equals = option.find('='); option.rfind("--", 0) == 0 && equals != std::string::npos) {
      value = option.substr(equals + 1);
      option = option.substr(0, equals);
      has_value = true;
    }
    const bool known = option == "--collector" || option == "--key" || option == "--server-key" ||
                       option == "--spool" || option == "--spool-bytes" || option == "--rings" || option == "--log" ||
                       option == "--metrics" || option == "--host" || option == "--late-after" || option == "--out" ||
                       option == "--redact" || option == "--keep-rings" || option == "--keep-ring-bytes";
    if (!known) return Usage(absl::StrCat("unknown argument '", words[at], "'"));
    if (!has_value) {
      if (at + 1 >= words.size()) return Usage(absl::StrCat(option, " takes a value"));
      value = words[++at];
    }
    if (value.empty()) return Usage(absl::StrCat(option, " takes a value"));
    if (option == "--collector") {
      AddList(value, ',', &options.collectors);
    } else if (option == "--rings") {
      options.rings.push_back(value);
    } else if (option == "--key") {
      options.security.own_key = value;
    } else if (option == "--server-key") {
      options.security.server_key = value;
    } else if (option == "--spool") {
      options.spool = value;
    } else if (option == "--log") {
      options.log = value;
    } else if (option == "--metrics") {
      options.metrics = value;
    } else if (option == "--host") {
      options.host = value;
    } else if (option == "--redact") {
      const absl::StatusOr<RedactLevel> level = ParseRedactLevel(value);
      if (!level.ok()) return Usage(std::string(level.status().message()));
      options.redact = *level;
    } else if (option == "--out") {
      options.out = value;
    } else if (option == "--keep-rings") {
      if (!ParseAge(value, &options.keep_rings_s))
        return Usage(absl::StrCat("--keep-rings takes an age such as 90s, 10m, 36h or 7d, or 0, not '", value, "'"));
    } else if (option == "--keep-ring-bytes") {
      options.keep_ring_bytes = 0;
      if (absl::Status status = value == "0" ? absl::OkStatus() : ParseBytes(option, value, &options.keep_ring_bytes);
          !status.ok())
        return status;
    } else if (option == "--spool-bytes") {
      if (absl::Status status = ParseBytes(option, value, &options.spool_bytes); !status.ok()) return status;
    } else {
      double seconds = 0;
      if (!absl::SimpleAtod(value, &seconds) || !std::isfinite(seconds) || seconds <= 0 || seconds > 86400) {
        return Usage(absl::StrCat("--late-after takes a number of seconds above 0, not '", value, "'"));
      }
      options.late_after_ns = static_cast<int64_t>(seconds * 1e9);
    }
  }
  if (options.alone && !options.collectors.empty()) return Usage("--alone and --collector are two ways: choose one");
  if (!options.alone && !options.out.empty())
    return Usage("--out is for --alone: incidents are elsewhere the collector's");
  FillDefaults(&options);
  if (options.alone && options.out.empty())
    options.out = options.spool.substr(0, options.spool.find_last_of('/') + 1) + "incidents";
  return options;
}

}  // namespace

absl::StatusOr<AgentOptions> ParseAgentOptions(int argc, char** argv) {
  const absl::StatusOr<settings::Merged> merged = settings::Merge("agent", {argv + 1, argv + argc});
  if (!merged.ok()) return merged.status();
  settings::Tell(*merged);
  absl::StatusOr<AgentOptions> options = ParseWords(merged->words);
  if (!options.ok()) return absl::InvalidArgumentError(merged->Explain(std::string(options.status().message())));
  options->config_files = std::find(argv + 1, argv + argc, std::string("--no-config")) == argv + argc;
  return options;
}

}  // namespace lockstep
