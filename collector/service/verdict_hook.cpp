#include "collector/service/verdict_hook.h"

#include <fcntl.h>

#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {
namespace {

constexpr size_t kMostJobs = 64;
// Leaves the mark, unless it exists: then the command has been started. If no mark can be written, for example on a
// full disk, the command runs all the same.
constexpr char kOnce[] = R"((set -C; : > "$1") 2> /dev/null || { [ -e "$1" ] && exit 0; }; exec /bin/sh -c "$0")";

}  // namespace

absl::Status RunWithInput(const std::vector<std::string>& argv, const std::string& input, int64_t limit_ns) {
  ChildRun run;
  run.input = input;
  run.limit_ns = limit_ns;
  const absl::StatusOr<ChildResult> result = RunChild(argv, run);
  // What it left running in its group is its own.
  return result.ok() ? result->Ended() : result.status();
}

VerdictHook::VerdictHook(std::string command, int64_t limit_ns, std::function<void(const std::string&)> say)
    : command_(std::move(command)), limit_ns_(limit_ns), say_(std::move(say)) {}

VerdictHook::~VerdictHook() {
  std::unique_lock lock(mutex_);
  for (auto& [job, told] : next_) told.json.clear();
  idle_.wait(lock, [this] { return next_.empty(); });
}

void VerdictHook::Run(const std::string& job, const std::string& json, const std::string& mark) {
  std::unique_lock lock(mutex_);
  const auto [at, fresh] = next_.try_emplace(job);
  // A verdict that a newer one replaces is not passed later either.
  if (!at->second.mark.empty()) UniqueFd(open(at->second.mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).reset();
  at->second = {json, mark};
  if (!fresh) return;
  if (next_.size() > kMostJobs) {
    next_.erase(at);
    lock.unlock();
    say_(absl::StrCat("the command of --on-verdict was not started for job ", job, ": it already runs for ", kMostJobs,
                      " other jobs"));
    return;
  }
  std::thread([this, job] { Work(job); }).detach();
}

void VerdictHook::Work(const std::string& job) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const Told told = std::exchange(next_[job], {});
    if (told.json.empty()) break;
    lock.unlock();
    std::vector<std::string> words = {"/bin/sh", "-c", command_};
    if (!told.mark.empty()) words = {"/bin/sh", "-c", kOnce, command_, told.mark};
    const absl::Status status = RunWithInput(words, told.json, limit_ns_);
    say_(status.ok() ? absl::StrCat("the command of --on-verdict accepted the verdict of job ", job)
                     : absl::StrCat("the command of --on-verdict failed for job ", job, ": ", status.message()));
    lock.lock();
  }
  next_.erase(job);
  idle_.notify_all();
}

}  // namespace lockstep
