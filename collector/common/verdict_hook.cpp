#include "collector/common/verdict_hook.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {
namespace {

constexpr size_t kMostJobs = 64;
constexpr int64_t kPauseGrows = 4;
constexpr char kIncident[] = "LOCKSTEP_INCIDENT=", kVerdict[] = "LOCKSTEP_VERDICT";
constexpr size_t kMostNames = 256, kMostJob = 200, kMostWhy = 1000, kMostWord = 253;
// Creates the mark, unless it exists, which means that the command was already started. If the mark cannot be created,
// for example because the disk is full, the command runs anyway.
constexpr char kOnce[] = R"((set -C; : > "$1") 2> /dev/null || { [ -e "$1" ] && exit 0; }; exec /bin/sh -c "$0")";

// Returns whether a command would read `name` as one word, not as an option or a pattern.
bool IsWord(std::string_view name) {
  return !name.empty() && name.size() <= kMostWord && absl::ascii_isalnum(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-'; });
}

}  // namespace

std::vector<std::string> VerdictVariables(const std::string& json) {
  const nlohmann::json verdict = ParseJson(json);
  const nlohmann::json &recommended = JsonMember(verdict, "recommended"), &findings = JsonList(verdict, "findings");
  const std::string job = JsonText(verdict, "job");
  const std::string id = job.substr(0, job.find_first_of("/#"));
  std::vector<std::string> hosts, ranks;
  size_t left_out = 0;
  for (const nlohmann::json& host : JsonList(recommended, "hosts")) {
    if (hosts.size() < kMostNames && host.is_string() && IsWord(host.get_ref<const std::string&>())) {
      hosts.push_back(host.get<std::string>());
    } else {
      ++left_out;
    }
  }
  for (const nlohmann::json& rank : JsonList(recommended, "ranks")) {
    if (ranks.size() < kMostNames && rank.is_number_integer()) ranks.push_back(absl::StrCat(rank.get<int64_t>()));
  }
  const auto variable = [](const char* name, const std::string& value, size_t limit = kMostWord) {
    return absl::StrCat(kVerdict, name, "=", Printable(value, limit));
  };
  return {variable("", JsonText(verdict, "verdict")),
          variable("_FINDING", findings.empty() ? "" : JsonText(findings[0], "kind")),
          variable("_JOB", job, kMostJob),
          variable("_JOB_ID", IsWord(id) ? id : ""),
          variable("_ACTION", JsonText(recommended, "action")),
          variable("_CONFIDENCE", absl::StrFormat("%.4f", JsonReal(recommended, "confidence"))),
          variable("_HOSTS", absl::StrJoin(hosts, " "), kMostNames * (kMostWord + 1)),
          variable("_HOSTS_LEFT_OUT", absl::StrCat(left_out)),
          variable("_RANKS", absl::StrJoin(ranks, " "), kMostNames * (kMostWord + 1)),
          variable("_WHY", JsonText(recommended, "why"), kMostWhy)};
}

absl::Status RunWithInput(const std::vector<std::string>& argv, const std::string& input, int64_t limit_ns,
                          const std::vector<std::string>* environment) {
  ChildRun run;
  run.input = input;
  run.limit_ns = limit_ns;
  run.environment = environment;
  const absl::StatusOr<ChildResult> result = RunChild(argv, run);
  // Does not wait for processes that the command left running in its group.
  return result.ok() ? result->Ended() : result.status();
}

VerdictHook::VerdictHook(HookOptions options) : options_(std::move(options)) {}

VerdictHook::~VerdictHook() {
  std::unique_lock lock(mutex_);
  ends_ns_ = MonotonicNs() + options_.limit_ns;
  // Drop waiting verdicts that have a mark file: the next collector starts their commands.
  for (auto& [job, told] : next_) {
    if (!told.mark.empty()) told.json.clear();
  }
  changed_.notify_all();
  changed_.wait(lock, [this] { return next_.empty(); });
}

int64_t VerdictHook::LimitNs() const {
  if (ends_ns_ == 0) return options_.limit_ns;
  return std::clamp<int64_t>(ends_ns_ - MonotonicNs(), kMs, options_.limit_ns);
}

void VerdictHook::Run(const std::string& job, const ToldVerdict& verdict) {
  std::unique_lock lock(mutex_);
  const auto [at, fresh] = next_.try_emplace(job);
  // A replaced verdict gets its mark, so that no later process delivers it.
  if (!at->second.mark.empty()) UniqueFd(open(at->second.mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).reset();
  at->second = verdict;
  changed_.notify_all();  // so that an older verdict is not retried
  if (!fresh) return;
  if (next_.size() > kMostJobs) {
    next_.erase(at);
    lock.unlock();
    options_.say(absl::StrCat("the command of --on-verdict was not started for job ", job,
                              ": it is already running for ", kMostJobs, " other jobs"));
    return;
  }
  std::thread([this, job] { Work(job); }).detach();
}

absl::Status VerdictHook::Start(const ToldVerdict& told, int64_t limit_ns) const {
  std::vector<std::string> words = {"/bin/sh", "-c", options_.command};
  if (!told.mark.empty()) words = {"/bin/sh", "-c", kOnce, options_.command, told.mark};
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!absl::StartsWith(*entry, kIncident) && !absl::StartsWith(*entry, kVerdict)) environment.emplace_back(*entry);
  }
  for (std::string& variable : VerdictVariables(told.json)) environment.push_back(std::move(variable));
  environment.push_back(kIncident + told.folder);
  return RunWithInput(words, told.json, limit_ns, &environment);
}

bool VerdictHook::Pause(std::unique_lock<std::mutex>* lock, const std::string& job, const ToldVerdict& told,
                        int failures) {
  int64_t pause = options_.first_pause_ns;
  for (int i = 1; i < failures; ++i) pause *= kPauseGrows;
  const int64_t until = MonotonicNs() + pause;
  const auto over = [&] {
    // A newer verdict replaces an older one. When this program ends, the next one delivers verdicts that have a mark
    // file.
    return !next_[job].json.empty() || (ends_ns_ != 0 && (!told.mark.empty() || until >= ends_ns_));
  };
  return !changed_.wait_for(*lock, std::chrono::nanoseconds(pause), over);
}

void VerdictHook::Work(const std::string& job) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const ToldVerdict told = std::exchange(next_[job], {});
    if (told.json.empty()) break;
    for (int failures = 0;;) {
      const int64_t limit = LimitNs();
      lock.unlock();
      const absl::Status status = Start(told, limit);
      const bool again = !status.ok() && ++failures < options_.starts;
      // Removes the mark, so that the command is started again, even by the next collector.
      if (again && !told.mark.empty()) unlink(told.mark.c_str());
      options_.say(status.ok() ? absl::StrCat("the command of --on-verdict accepted the verdict of job ", job)
                               : absl::StrCat("the command of --on-verdict failed for job ", job, " (attempt ",
                                              failures, " of ", options_.starts, "): ", status.message()));
      lock.lock();
      if (!again || !Pause(&lock, job, told, failures)) break;
    }
  }
  next_.erase(job);
  changed_.notify_all();
}

}  // namespace lockstep
