#include "collector/run/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/settings/merge.h"
#include "analyzer/settings/table.h"
#include "analyzer/settings/types.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"
#include "collector/common/say.h"
#include "collector/host/environment.h"
#include "collector/host/proc.h"
#include "collector/host/reading_group.h"
#include "collector/host/unrecorded.h"
#include "collector/incident/incident.h"
#include "collector/rings/folder.h"
#include "collector/rings/keeper.h"
#include "collector/run/agent.h"
#include "collector/run/join.h"
#include "collector/run/watch.h"

namespace lockstep {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP};
constexpr int kStatusNotExecutable = 126, kStatusNotFound = 127, kStatusHung = 90, kStatusDesync = 91;
// Time between SIGTERM and SIGKILL when Lockstep ends a job.
constexpr int64_t kGrace = 5 * kSecond;
// A terminal and a program above this one may both pass on one Ctrl-C. Signals this close count as one.
constexpr int64_t kOneInterrupt = kSecond / 4;
// Multiples of --late-after, after which a job that has recorded nothing is reported, because no ring shows whether it
// is still starting. The shorter one counts from when NCCL or PyTorch was loaded, and only if no process uses a GPU.
constexpr int64_t kUnrecordedFor = 24, kUnrecordedWithoutGpuFor = 5;
// A gap of this length between two ticks means that this process itself was stopped. No rank is then blamed for the
// gap.
constexpr int64_t kAbsence = 3 * kSecond;

struct Child {
  int rank = -1;
  pid_t pid = 0;
  bool alive = false;
  bool failed_to_start = false;
  int error = 0;
  int code = 0, status = 0;
  int64_t ended_ns = 0;
};

// Returns what turns recording off on this host or in this job; empty if nothing does. Follows the recorder's rules.
std::string WhySwitchedOff() {
  if (const absl::StatusOr<settings::Merged> merged = settings::Merge("recorder"); merged.ok()) {
    for (const settings::Value& value : merged->values) {
      bool on = true;
      if (value.row->key == "record" && settings::ParseFlag(value.text, &on) && !on) {
        const bool variable = value.from == value.row->variable;
        return variable ? absl::StrCat("LOCKSTEP=", value.text, " is set")
                        : absl::StrCat("recording is off (record = ", value.text, " in ", value.from, ")");
      }
    }
  }
  for (const char* file : {"/etc/lockstep/off", "/run/lockstep/off"}) {
    if (access(file, F_OK) == 0) return absl::StrCat("the file ", file, " exists, which stops recording on this host");
  }
  return "";
}

class Run {
 public:
  explicit Run(const RunOptions& options) : options_(options) {}

  int Main() {
    Environment environment = CurrentEnvironment();
    if (const absl::StatusOr<Redactor> redactor = MakeRedactor(options_.redact); redactor.ok()) {
      SetHostRedaction(*redactor);
    } else {
      Say(redactor.status().message());
      return 2;
    }
    if (!options_.group.empty()) {
      // The group may come from a site-wide setting, which must not prevent a job from running.
      const absl::StatusOr<gid_t> group = FindReadingGroup(options_.group);
      if (group.ok()) {
        group_ = *group;
      } else {
        Say(absl::StrCat(group.status().message(), "; only their owner can read incidents"));
      }
    }
    job_ = JobName(environment, options_.redact == RedactLevel::kStacks ? "job" : options_.command[0]);
    // Reports an error now, not days later when there is something to write.
    if (const std::string why = WhyNoIncidentFolder(options_.out); !why.empty())
      Say(absl::StrCat("--out ", options_.out, ": ", why, "; no incident can be stored there"));
    if (const int status = PrepareRecording(&environment); status != 0) return status;
    if (const int status = Start(environment); status != 0) return status;
    Loop();
    return End();
  }

 private:
  // Returns 0, or the exit status if the recorder's library is missing.
  int PrepareRecording(Environment* environment) {
    switched_off_ = WhySwitchedOff();
    for (const std::string& wrong : settings::WrongRecorderVariables()) Say(wrong);
    const absl::StatusOr<std::string> library = FindLibrary(*environment);
    if (!library.ok()) {
      Say(library.status().message());
      return 2;
    }
    absl::StatusOr<RingFolder> folder = MakeRingFolder(GetVariable(*environment, "LOCKSTEP_DIR"));
    if (!folder.ok()) {
      Say(absl::StrCat("not recording: cannot create a folder for rings: ", folder.status().message()));
      return 0;
    }
    folder_ = *folder;
    library_ = *library;
    PrependPreload(environment, library_);
    SetVariable(environment, "LOCKSTEP_DIR", folder_.path);
    if (!HasVariable(*environment, "LOCKSTEP_JOB")) SetVariable(environment, "LOCKSTEP_JOB", job_);
    const int ring_kib = RingKib(options_.ranks, folder_.path);
    if (ring_kib != 0 && !HasVariable(*environment, "LOCKSTEP_RING_KIB")) {
      SetVariable(environment, "LOCKSTEP_RING_KIB", absl::StrCat(ring_kib));
    }
    if (options_.profiler) {
      SetVariable(environment, "LOCKSTEP_GPU", "profiler");
      // A preloaded recorder sets the variable itself after searching for installed plugins. A statically linked NCCL
      // needs it set here.
      if (GetVariable(*environment, "NCCL_PROFILER_PLUGIN").empty() && !ProfilerIsInstalled(*environment)) {
        SetVariable(environment, "NCCL_PROFILER_PLUGIN", library_);
      }
    } else if (!options_.gpu.empty()) {
      SetVariable(environment, "LOCKSTEP_GPU", options_.gpu);
    } else if (!HasVariable(*environment, "LOCKSTEP_GPU")) {
      SetVariable(environment, "LOCKSTEP_GPU", "watch");
    }
    return 0;
  }

  int Start(const Environment& environment) {
    LaunchPlan plan;
    plan.command = options_.command;
    plan.ring_folder = folder_.path;
    if (options_.ranks == 0) {
      plan.environments.push_back(environment);
    } else {
      const absl::StatusOr<int> port = FreePort();
      if (!port.ok()) {
        Say(port.status().message());
        RemoveRingFolder(folder_.path);
        return 1;
      }
      for (int rank = 0; rank < options_.ranks; ++rank) {
        plan.environments.push_back(environment);
        SetRank(&plan.environments.back(), rank, options_.ranks, *port);
      }
    }
    children_.resize(plan.environments.size());
    for (size_t i = 0; i < children_.size(); ++i) children_[i].rank = options_.ranks == 0 ? -1 : static_cast<int>(i);

    struct sigaction action {};
    for (const int signal : kOwnActions) {
      if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) plan.ignored.insert(signal);
    }
    sigset_t watched;
    sigemptyset(&watched);
    for (int signal : kForwarded) {
      // Signals that this process was started to ignore (nohup) stay ignored, here and in the job.
      if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&watched, signal);
    }
    sigprocmask(SIG_BLOCK, &watched, &plan.signal_mask);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes (ulimit -f) must not end this process
    // If the keeper is killed, the job's processes become children of this process.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    absl::StatusOr<Keeper> keeper = Keeper::Start(plan, folder_.lock_fd);
    if (!keeper.ok()) {
      Say(keeper.status().message());
      RemoveRingFolder(folder_.path);
      return 1;
    }
    keeper_ = std::make_unique<Keeper>(std::move(*keeper));
    signals_.reset(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));

    WatchOptions watch;
    watch.limits.SetLateAfter(options_.late_after_ns);
    if (options_.hang_after_ns > 0) {
      watch.limits.watchdog = options_.hang_after_ns;
      watch.limits.unseen_after = std::min(watch.limits.unseen_after, options_.hang_after_ns);
      watch.limits.unseen_init_after = std::min(watch.limits.unseen_init_after, options_.hang_after_ns);
    }
    watch.job = job_;
    watch.command = options_.command;
    watch.out = options_.out;
    watch.ranks_expected = options_.ranks;
    watch.launcher = options_.ranks == 0;
    watch.quiet = options_.quiet;
    watch.tell = options_.tell;
    watch.group = group_;
    watch.hook.command = options_.on_verdict;
    watch.hook.limit_ns = options_.on_verdict_ns;
    watch.hook.say = [](const std::string& line) { Say(line); };
    watch_ = std::make_unique<Watch>(watch, &agent_);
    unrecorded_ = std::make_unique<Unrecorded>(library_);
    if (!folder_.path.empty()) {
      if (const absl::Status status = agent_.Watch(folder_.path); !status.ok()) Say(status.message());
    }
    if (!options_.collector.empty() && !folder_.path.empty()) {
      JoinOptions join;
      join.collector = options_.collector;
      join.ring_folder = folder_.path;
      join.job = HasVariable(environment, "LOCKSTEP_JOB") ? GetVariable(environment, "LOCKSTEP_JOB") : job_;
      join.late_after_ns = options_.late_after_ns;
      join.redact = options_.redact;
      join.communicators = [this] {
        agent_.Sample();
        std::vector<uint64_t> comms;
        for (const ring::Snapshot* digest : agent_.Digests()) {
          for (const ring::CommSnapshot& comm : digest->comms) {
            if (comm.id != 0) comms.push_back(comm.id);
          }
        }
        return comms;
      };
      absl::StatusOr<std::unique_ptr<Join>> joined = Join::Start(join);
      if (joined.ok()) {
        join_ = *std::move(joined);
      } else {
        Say(absl::StrCat("the job cannot join the collector, so it is watched locally: ", joined.status().message()));
      }
    }
    return 0;
  }

  bool Running() const {
    if (keeper_gone_) return false;
    if (!all_started_) return true;
    return std::any_of(children_.begin(), children_.end(), [](const Child& child) { return child.alive; });
  }

  void Loop() {
    int64_t last = MonotonicNs();
    int64_t next_look = last + kSecond / 5;
    while (Running()) {
      const bool recording = !folder_.path.empty();
      const int64_t wake = std::min(
          {recording && join_ == nullptr ? watch_->NextTick() : INT64_MAX, kill_at_ != 0 ? kill_at_ : INT64_MAX,
           recording && agent_.readable() == 0 ? next_look : INT64_MAX, MonotonicNs() + kSecond});
      const int64_t left = std::max<int64_t>(0, wake - MonotonicNs());
      // Signals wait until all ranks are known; otherwise some ranks would miss them.
      pollfd fds[4] = {{keeper_->fd(), POLLIN, 0},
                       {all_started_ ? signals_.get() : -1, POLLIN, 0},
                       {agent_.fd(), POLLIN, 0},
                       {join_ == nullptr ? -1 : join_->fd(), POLLIN, 0}};
      const timespec timeout{left / kSecond, left % kSecond};
      ppoll(fds, 4, &timeout, nullptr);
      const int64_t now = MonotonicNs();
      if (now - last > kAbsence) watch_->Rebase(now);
      last = now;
      if (fds[1].revents != 0) OnSignals();
      if (fds[2].revents != 0) agent_.Handle();
      const bool ended = fds[0].revents != 0 && OnKeeper();
      if (interrupted_ns_ != 0 && kill_at_ == 0 && now - interrupted_ns_ >= kGrace) SayWhoIsLeft();
      if (kill_at_ != 0 && now >= kill_at_) SignalJob(SIGKILL, now);
      if (!recording) continue;
      if (agent_.readable() == 0 && now >= next_look) {
        const std::vector<pid_t> processes = JobProcesses();
        unrecorded_->Look(processes);
        next_look = now + (now - started_ns_ < 10 * kSecond ? kSecond : 10 * kSecond);
        SayUnrecorded(processes, now);
      }
      // With a collector, the collector detects hangs.
      if (join_ != nullptr) {
        join_->Step(MonotonicNs());
      } else if (ended || now >= watch_->NextTick()) {
        watch_->Tick(MonotonicNs());
      }
      const bool hung = join_ != nullptr ? join_->hung() : watch_->hung();
      if (hung && options_.kill_on_hang && kill_at_ == 0) {
        hung_job_ended_ = true;
        EndJob("ending the hung job");
      }
    }
  }

  // Once. The report at the end is enough if recording is off, or if no process has loaded the recorder.
  void SayUnrecorded(const std::vector<pid_t>& processes, int64_t now) {
    if (unrecorded_said_ || interrupted_ns_ != 0 || started_ns_ == 0 || !switched_off_.empty() || options_.quiet)
      return;
    const int64_t late = options_.late_after_ns, since = now - started_ns_;
    const int64_t loaded = unrecorded_->WithoutGpuSince(processes);
    const bool without_gpu = loaded != INT64_MAX && now - loaded >= kUnrecordedWithoutGpuFor * late;
    if (!without_gpu && (since < kUnrecordedFor * late || !unrecorded_->RecorderIsLoaded(processes))) return;
    unrecorded_said_ = true;
    const bool acts = options_.kill_on_hang || options_.hang_after_ns > 0;
    Say(absl::StrCat("nothing has been recorded after ", DurationText(since), ": ", unrecorded_->Reason(switched_off_),
                     ". Calls of gloo and MPI are not recorded",
                     acts ? ", so --hang-after and --kill-on-hang have no effect on them" : "",
                     ". If the job hangs: lockstep attach --job ", job_));
  }

  std::vector<pid_t> JobProcesses() const { return Descendants(keeper_->pid()); }

  // Sends SIGTERM now and SIGKILL after kGrace.
  void EndJob(const std::string& why) {
    const int64_t now = MonotonicNs();
    watch_->Ending(now);
    Say(why);
    SignalJob(SIGTERM, now);
  }

  void SignalJob(int signal, int64_t now) {
    for (pid_t pid : JobProcesses()) {
      kill(pid, signal);
      // A stopped process handles SIGTERM only after it continues.
      if (signal == SIGTERM) kill(pid, SIGCONT);
    }
    kill_at_ = now + (signal == SIGTERM ? kGrace : kSecond / 10);
  }

  // Once.
  void SayWhoIsLeft() {
    if (left_said_) return;
    left_said_ = true;
    std::vector<int32_t> left, stopped;
    for (const Child& child : children_) {
      if (!child.alive) continue;
      left.push_back(child.rank);
      if (const std::optional<ProcStat> stat = ReadProcStat(child.pid); stat && stat->state == 'T')
        stopped.push_back(child.rank);
    }
    const auto named = [](const std::vector<int32_t>& ranks, const char* one, const char* several) {
      return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", FoldRanks(ranks), ranks.size() == 1 ? one : several);
    };
    Say(absl::StrCat(named(left, " is", " are"), " still running after Ctrl-C",
                     stopped.empty() ? "" : absl::StrCat(" (", named(stopped, " is", " are"), " stopped by a signal)"),
                     "; press Ctrl-C again to end the job"));
  }

  // The ranks of -n have no launcher above them that would end them.
  void OnInterrupt(int64_t now) {
    if (options_.ranks == 0 || kill_at_ != 0) return;
    if (interrupted_ns_ == 0) {
      interrupted_ns_ = now;
    } else if (now - interrupted_ns_ > kOneInterrupt) {
      EndJob("ending the job after the second Ctrl-C: SIGTERM now, SIGKILL in 5 s");
    }
  }

  void OnSignals() {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT) watch_->Ending(MonotonicNs());
      // A terminal signals its whole foreground group, so the job already has the signal.
      if (info.ssi_code != SI_KERNEL) {
        for (const Child& child : children_) {
          if (child.alive) kill(child.pid, signal);
        }
      }
      if (signal == SIGINT) OnInterrupt(MonotonicNs());
      if (signal == SIGTSTP) {
        // Stops together with the job, so the shell sees a stopped job. Continues here after SIGCONT.
        raise(SIGSTOP);
        watch_->Rebase(MonotonicNs());
      }
    }
  }

  // Returns true if a process of the job has exited.
  bool OnKeeper() {
    bool ended = false;
    while (const std::optional<KeeperEvent> event = keeper_->Next(&keeper_gone_)) {
      Child* child = event->child >= 0 && static_cast<size_t>(event->child) < children_.size()
                         ? &children_[static_cast<size_t>(event->child)]
                         : nullptr;
      switch (event->kind) {
        case KeeperEvent::kStarted:
          child->pid = event->pid;
          child->alive = true;
          if (started_ns_ == 0) started_ns_ = event->mono_ns;
          watch_->Started(child->rank, child->pid);
          break;
        case KeeperEvent::kStartFailed:
          child->failed_to_start = true;
          child->error = event->error;
          child->ended_ns = event->mono_ns;
          break;
        case KeeperEvent::kEnded: {
          if (child != nullptr && child->alive) {
            child->alive = false;
            child->code = event->code;
            child->status = event->status;
            child->ended_ns = event->mono_ns;
          }
          watch_->Ended(event->pid,
                        {event->code == CLD_EXITED ? W_EXITCODE(event->status, 0) : event->status, event->mono_ns});
          ended = true;
          break;
        }
        case KeeperEvent::kAllStarted: all_started_ = true; break;
      }
    }
    return ended;
  }

  int End() {
    if (keeper_gone_) {
      // The keeper was killed from outside, so this process takes over its work.
      Say("the keeper process was killed; ending the job");
      EndDescendants(0, 10 * kSecond);
      RemoveRingFolder(folder_.path);
      keeper_->Finish();
      return 1;
    }
    const Child* unstarted = nullptr;
    for (const Child& child : children_) {
      if (child.failed_to_start && unstarted == nullptr) unstarted = &child;
    }
    if (unstarted != nullptr) {
      Say(absl::StrCat("cannot start '", options_.command[0], "': ", strerror(unstarted->error)));
    } else if (!folder_.path.empty()) {
      const bool recorded = agent_.readable() > 0;
      if (join_ != nullptr) {
        const bool badly = std::any_of(children_.begin(), children_.end(), [](const Child& child) {
          return child.code != CLD_EXITED || child.status != 0;
        });
        join_->Finish(badly && recorded && !hung_job_ended_);
      }
      // A collector knows nothing of a job without rings.
      const bool dumps = !options_.dumps.empty() && !NamesIn(options_.dumps, 1).empty();
      if (join_ == nullptr || !recorded) watch_->Finish(dumps ? "" : unrecorded_->Reason(switched_off_));
    }
    keeper_->Finish();
    const VerdictKind declared = join_ != nullptr ? join_->verdict() : watch_->declared();
    // Ends the indexes and the command of --on-verdict first, because this process may now die by the command's signal.
    watch_.reset();
    if (hung_job_ended_) return declared == VERDICT_DESYNC ? kStatusDesync : kStatusHung;
    if (unstarted != nullptr) {
      return unstarted->error == ENOENT || unstarted->error == ENOTDIR ? kStatusNotFound : kStatusNotExecutable;
    }
    return JobStatus();
  }

  int JobStatus() {
    const Child* first = nullptr;
    for (const Child& child : children_) {
      const bool bad = child.code != CLD_EXITED || child.status != 0;
      if (bad && (first == nullptr || child.ended_ns < first->ended_ns)) first = &child;
    }
    if (first == nullptr) return 0;
    if (first->code == CLD_EXITED) return first->status;
    if (options_.ranks == 0) DieOf(first->status);
    return 128 + first->status;
  }

  static void DieOf(int signal) {
    // Only the command's core dump matters, not this process's.
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    ::signal(signal, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    raise(signal);
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
  }

  const RunOptions options_;
  std::optional<gid_t> group_;
  std::string job_, library_;
  std::string switched_off_;  // why recording is off; empty if it is on
  RingFolder folder_;
  std::unique_ptr<Keeper> keeper_;
  Agent agent_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Join> join_;  // null if the job is watched here
  std::unique_ptr<Unrecorded> unrecorded_;
  bool unrecorded_said_ = false;
  std::vector<Child> children_;
  UniqueFd signals_;
  bool all_started_ = false, keeper_gone_ = false, hung_job_ended_ = false;
  bool left_said_ = false;
  int64_t started_ns_ = 0;
  int64_t interrupted_ns_ = 0;  // the first SIGINT; 0 if there was none
  int64_t kill_at_ = 0;         // when to send SIGKILL; 0 if this process is not ending the job
};

}  // namespace

int RunJob(const RunOptions& options) { return Run(options).Main(); }

}  // namespace lockstep
