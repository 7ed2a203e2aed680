#include "collector/agent/own_collector.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/settings/merge.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/time_units.h"
#include "collector/common/own_programs.h"
#include "collector/common/runtime_folder.h"
#include "collector/host/proc.h"

namespace lockstep {
absl::StatusOr<std::vector<std::string>> SettledOptions(bool files) {
  static constexpr absl::string_view kOwn[] = {"listen", "key",      "known-keys", "keys",    "insecure",
                                               "out",    "upstream", "server-key", "metrics", "late-after"};
  // Merge() exports settings without an option into this process's environment. The old values are restored, so the
  // collector inherits the agent's.
  std::map<std::string, std::optional<std::string>> before;
  for (const settings::Row& row : settings::Table()) {
    if (row.section != "collector" || !row.option.empty()) continue;
    const char* value = getenv(row.variable.c_str());
    before[row.variable] = value == nullptr ? std::optional<std::string>() : value;
  }
  const absl::StatusOr<settings::Merged> merged = settings::Merge("collector", {}, files);
  for (const auto& [name, value] : before) value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  if (!merged.ok()) return merged.status();
  std::vector<std::string> options;
  for (const settings::Value& value : merged->values) {
    const bool own = std::find(std::begin(kOwn), std::end(kOwn), absl::string_view(value.row->key)) != std::end(kOwn);
    if (!own && !value.row->option.empty()) options.insert(options.end(), {value.row->option, value.text});
  }
  return options;
}

absl::StatusOr<std::unique_ptr<OwnCollector>> OwnCollector::Start(const OwnCollectorOptions& options) {
  std::unique_ptr<OwnCollector> own(new OwnCollector(options));
  absl::StatusOr<std::string> endpoint = SocketIn(options.folder, "agent.sock");
  if (!endpoint.ok()) return endpoint.status();
  own->endpoint_ = *std::move(endpoint);
  own->program_ = OwnProgram("collector");
  const std::string& program = own->program_[0];
  if (access(program.c_str(), X_OK) != 0)
    return absl::NotFoundError(absl::StrCat("--alone needs ", program, ": ", strerror(errno)));
  if (absl::Status status = MakeFolder(options.out); !status.ok()) return status;
  own->lock_.reset(open((options.folder + "/agent.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!own->lock_.ok() || flock(own->lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::UnavailableError(absl::StrCat("another agent --alone already uses ", options.folder, " (",
                                               strerror(errno), "); set LOCKSTEP_RUNTIME_DIR to another folder"));
  }
  if (absl::Status status = own->Spawn(); !status.ok()) return status;
  return own;
}

OwnCollector::~OwnCollector() { End(2 * kSecond); }

absl::Status OwnCollector::Spawn() {
  const std::string late = absl::StrFormat("%.3f", static_cast<double>(options_.late_after_ns) / 1e9);
  std::vector<std::string> words = program_;
  words.insert(words.end(), {"--no-config", "--listen", endpoint_, "--out", options_.out, "--late-after", late});
  words.insert(words.end(), options_.more.begin(), options_.more.end());
  // Only a collector that other hosts reach needs keys.
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    bool ours = false;
    for (const char* name : {"LOCKSTEP_KEYS=", "LOCKSTEP_KEY=", "LOCKSTEP_SERVER_KEY=", "LOCKSTEP_KNOWN_KEYS=",
                             "LOCKSTEP_LISTEN=", "LOCKSTEP_OUT="}) {
      ours |= strncmp(*entry, name, strlen(name)) == 0;
    }
    if (!ours) environment.push_back(*entry);
  }
  const UniqueFd log(open(options_.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log.ok()) return absl::UnavailableError(absl::StrCat("cannot open ", options_.log, ": ", strerror(errno)));
  // Ctrl-C on a terminal should reach only the agent, which ends the collector after sending its last data.
  const absl::StatusOr<pid_t> pid = StartCompanion(words, log.get(), &environment);
  if (!pid.ok()) return pid.status();
  pid_ = *pid;
  began_ns_ = MonotonicNs();
  return absl::OkStatus();
}

void OwnCollector::Tick(int64_t mono_ns) {
  if (pid_ > 0) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) return;
    pid_ = -1;
    pause_ns_ = mono_ns - began_ns_ > 60 * kSecond ? kSecond : std::clamp(2 * pause_ns_, kSecond, 60 * kSecond);
    next_ns_ = mono_ns + pause_ns_;
    if (options_.say) {
      options_.say(absl::StrCat("the collector on ", endpoint_,
                                WIFSIGNALED(status) ? " was killed by signal " : " exited with status ",
                                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), " (see ", options_.log,
                                "); restarting it in ", pause_ns_ / kSecond, " s"));
    }
  }
  if (mono_ns < next_ns_) return;
  if (const absl::Status status = Spawn(); !status.ok()) {
    next_ns_ = mono_ns + 10 * kSecond;
    if (options_.say) options_.say(std::string(status.message()));
  }
}

void OwnCollector::End(int64_t limit_ns) {
  if (pid_ <= 0) return;
  EndCompanion(pid_, limit_ns);
  pid_ = -1;
}

}  // namespace lockstep
