#include "collector/tools/check/job.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"
#include "collector/host/proc.h"
#include "collector/host/process_sample.h"
#include "collector/run/run.h"
#include "collector/tools/check/torch_hook.h"

namespace lockstep::check {
namespace {

constexpr int kLookMs = 20;
constexpr int64_t kSearch = 500 * kMs;       // for new ranks
constexpr int64_t kLastLooks = 2 * kSecond;  // between the two looks at each rank before the time limit
constexpr int64_t kGrace = 30 * kSecond;     // after SIGTERM, while PyTorch ranks write their dumps
// Long enough for all other ranks to reach their next wait, and far below any detection limit.
constexpr int64_t kDelayFrom = 30 * kMs, kDelayTo = 300 * kMs;

volatile sig_atomic_t g_job = 0, g_interrupted = 0;

void Forward(int signal, siginfo_t* info, void*) {
  g_interrupted = 1;
  // A terminal signals its whole foreground group, so the job already has the signal.
  if (g_job > 0 && info->si_code != SI_KERNEL) kill(g_job, signal);
}

// Returns the processes below the keeper, which is the only child of `lockstep run` that starts processes.
std::vector<pid_t> JobProcesses(pid_t run, const ProcessTree& tree) {
  std::vector<pid_t> found = tree.Below(run);
  std::erase_if(found, [&](pid_t pid) {
    const std::optional<ProcStat> stat = ReadProcStat(pid);
    return !stat || stat->parent == run || stat->ended();
  });
  return found;
}

// Stops one rank after another, each for a moment.
class Delays {
 public:
  explicit Delays(uint64_t seed) : random_(seed) {}
  ~Delays() { Continue(); }

  void Step(int64_t now, pid_t run) {
    if (now < next_) return;
    Continue();
    std::vector<pid_t> ranks = JobProcesses(run, ProcessTree::Read());
    std::erase_if(ranks, [](pid_t pid) { return !ReadEnvironment(pid, "RANK"); });
    next_ = now + Between(kDelayFrom, kDelayTo);
    if (ranks.empty()) return;
    stopped_ = ranks[static_cast<size_t>(Between(0, static_cast<int64_t>(ranks.size()) - 1))];
    if (kill(stopped_, SIGSTOP) != 0) stopped_ = 0;
  }
  void Continue() {
    if (stopped_ > 0) kill(stopped_, SIGCONT);
    stopped_ = 0;
  }

 private:
  int64_t Between(int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random_); }
  std::mt19937_64 random_;
  int64_t next_ = 0;
  pid_t stopped_ = 0;
};

// The processes of the ranks that run.
class Ranks {
 public:
  void Find(pid_t run) {
    for (const pid_t pid : JobProcesses(run, ProcessTree::Read())) {
      int32_t rank = -1;
      if (!absl::SimpleAtoi(ReadEnvironment(pid, "RANK").value_or(""), &rank)) continue;
      // A rank's helper processes have the same environment. They are its children, which follow their parent.
      if (ranks_.contains(rank)) continue;
      UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
      if (fd.ok()) ranks_[rank] = {.pid = pid, .fd = std::move(fd), .sampler = {}, .process = {}};
    }
  }

  // Waits a moment, or until a rank ends.
  void Wait() {
    std::vector<pollfd> fds;
    for (const auto& [rank, one] : ranks_) fds.push_back({one.fd.get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), kLookMs) <= 0) return;
    size_t i = 0;
    std::erase_if(ranks_, [&](const auto& entry) {
      if (fds[i++].revents == 0) return false;
      const int status = ReadWaitStatus(entry.second.pid, entry.second.fd.get()).value_or(0);
      if (status != 0 && failed_ < 0) {
        failed_ = entry.first;
        failed_status_ = status;
      }
      return true;
    });
  }

  // Describes the signal that killed the first rank that failed; empty if none did. The launcher sends SIGTERM.
  std::string Killed() const {
    if (failed_ < 0 || !WIFSIGNALED(failed_status_) || WTERMSIG(failed_status_) == SIGTERM) return "";
    const int signal = WTERMSIG(failed_status_);
    return absl::StrCat("rank ", failed_, " was killed by signal ", signal, " (", strsignal(signal), ")");
  }

  void Sample() {
    const ProcessTree tree = ProcessTree::Read();
    for (auto& [rank, one] : ranks_) one.sampler.Sample(one.pid, tree, &one.process);
  }

  std::map<int32_t, Process> Samples() const {
    std::map<int32_t, Process> samples;
    for (const auto& [rank, one] : ranks_) samples.emplace(rank, one.process);
    return samples;
  }

 private:
  struct One {
    pid_t pid = 0;
    UniqueFd fd;
    ProcessSampler sampler;
    Process process;
  };
  std::map<int32_t, One> ranks_;
  int32_t failed_ = -1;
  int failed_status_ = 0;
};

void PrependPath(const char* name, const std::string& folder) {
  const char* old = getenv(name);
  const std::string rest = old == nullptr || *old == '\0' ? "" : absl::StrCat(":", old);
  setenv(name, (folder + rest).c_str(), 1);
}

std::string HookFolder(const JobOptions& options) { return options.folder + "/python"; }

// Sets variables for the job's processes. The values of the last two can be set by the user.
void SetJobEnvironment(const JobOptions& options) {
  if (!options.standins.empty()) PrependPath("LD_LIBRARY_PATH", options.standins);
  PrependPath("PYTHONPATH", HookFolder(options));
  setenv("LOCKSTEP_CHECK_DUMPS", DumpsIn(options.folder).c_str(), 1);
  setenv("LOCKSTEP_CHECK_STACKS", StacksIn(options.folder).c_str(), 1);
  setenv("TORCH_FR_BUFFER_SIZE", "20000", 0);
  // In a check of a few steps, each rank must not compute on all cores.
  setenv("OMP_NUM_THREADS", "1", 0);
}

[[noreturn]] void BeJob(const JobOptions& options, pid_t parent) {
  // If the check dies, this process dies, and its keeper kills all ranks, even a stopped one.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  dup2(2, 1);  // standard output is reserved for the report
  SetJobEnvironment(options);
  RunOptions run;
  run.ranks = options.ranks;
  run.out = RecordsIn(options.folder);
  run.dumps = DumpsIn(options.folder);
  run.kill_on_hang = run.quiet = true;
  run.tell = false;
  run.late_after_ns = options.late_after_ns;
  run.command = options.command;
  const int status = RunJob(run);
  exit(status);
}

}  // namespace

std::string RecordsIn(const std::string& folder) { return folder + "/incident"; }

std::string DumpsIn(const std::string& folder) { return folder + "/dumps"; }

std::string StacksIn(const std::string& folder) { return folder + "/stacks"; }

std::string StandinFolder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const char* place : {"../lib/lockstep/standin", "../standin/lib"}) {
    const std::filesystem::path folder = std::filesystem::weakly_canonical(self.parent_path() / place, error);
    if (!error && access((folder / "libnccl.so.2").c_str(), R_OK) == 0) return folder.string();
  }
  return "";
}

absl::StatusOr<JobEnd> RunOnce(const JobOptions& options) {
  std::error_code error;
  for (const std::string& folder : {DumpsIn(options.folder), StacksIn(options.folder), HookFolder(options)})
    std::filesystem::create_directories(folder, error);
  const absl::Status hook = WriteFileSafely(HookFolder(options) + "/sitecustomize.py", kTorchHook);
  if (!hook.ok()) return hook;
  struct sigaction old[4];
  const int kSignals[4] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  const pid_t self = getpid(), run = fork();
  if (run < 0) return absl::ResourceExhaustedError(absl::StrCat("cannot start a process: ", strerror(errno)));
  if (run == 0) BeJob(options, self);
  g_job = run;
  struct sigaction forward {};
  forward.sa_sigaction = Forward;
  forward.sa_flags = SA_SIGINFO;
  for (int i = 0; i < 4; ++i) {
    sigaction(kSignals[i], &forward, &old[i]);
    // A signal that this process was started to ignore (nohup) stays ignored, here and in the job.
    if (old[i].sa_handler == SIG_IGN) sigaction(kSignals[i], &old[i], nullptr);
  }

  JobEnd end;
  Delays delays(options.seed);
  Ranks ranks;
  const int64_t limit = MonotonicNs() + options.end_after_ns;
  int64_t ended = 0, next_search = 0;
  bool looked = false;
  int status = 0;
  while (waitpid(run, &status, WNOHANG) == 0) {
    const int64_t now = MonotonicNs();
    if (ended == 0) {
      if (now >= next_search) {
        ranks.Find(run);
        next_search = now + kSearch;
      }
      if (now >= limit || g_interrupted != 0) {
        ended = now;
        delays.Continue();
        if (g_interrupted == 0) {
          ranks.Sample();
          end.cut_ns = RealtimeNs();
          end.running = ranks.Samples();
          kill(run, SIGTERM);
        }
      } else if (now >= limit - kLastLooks) {
        delays.Continue();
        if (!std::exchange(looked, true)) ranks.Sample();
      } else if (options.delays) {
        delays.Step(now, run);
      }
    } else if (now - ended > kGrace) {
      for (const pid_t pid : JobProcesses(run, ProcessTree::Read())) kill(pid, SIGKILL);
      ended = now;
    }
    ranks.Wait();
    if (ended == 0 && g_interrupted == 0) end.killed = ranks.Killed();
  }
  g_job = 0;
  for (int i = 0; i < 4; ++i) sigaction(kSignals[i], &old[i], nullptr);
  end.interrupted = g_interrupted != 0;
  end.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

}  // namespace lockstep::check
