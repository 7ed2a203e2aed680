#include "collector/evidence/evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"
#include "collector/common/own_programs.h"
#include "collector/evidence/child_pipe.h"
#include "collector/evidence/hardware_log.h"
#include "collector/evidence/memory_state.h"

namespace lockstep {
namespace {

// How long to wait for a killed child that is itself in uninterruptible sleep.
constexpr int64_t kReapLimit = 500'000'000;
constexpr int64_t kHardwareWindow = 3600 * kSecond;
constexpr size_t kMostTexts = 64;
constexpr char kNotAskedFor[] = "not requested";

}  // namespace

struct EvidenceJob::Child {
  pid_t pid = -1;
  UniqueFd fd;
  int64_t started = 0, deadline = 0;
  int64_t read_end_ns = 0;  // when it closed its output or was killed; 0 while it may send more
  bool may_stop = true;
  size_t bytes = 0;
  std::string buffer;
  int status = -1;
  bool done = false;
  std::string failed;  // why the child ended early; empty if it did not

  ~Child() {
    if (pid <= 0 || done) return;
    kill(pid, SIGKILL);
    for (int i = 0; i < 20 && waitpid(pid, nullptr, WNOHANG) == 0; ++i) poll(nullptr, 0, 5);
  }
};

EvidenceJob::EvidenceJob(pid_t pid, const EvidenceOptions& options)
    : pid_(pid), options_(options), start_(MonotonicNs()) {
  report_.set_pid(pid);
  ProcessState* process = report_.mutable_process();
  process->set_cpu_ns_between_samples(-1);
  process->set_io_bytes_between_samples(-1);
  process->mutable_evidence()->set_taken_ns(start_);
  if (options_.sample_gap_ns > 0) before_ = ReadActivity(pid);
  if (options_.stacks) Start(&stacks_, "--stacks-of");
  if (options_.gpus) Start(&gpus_, "--gpus-of");
  if (!options_.gpus) process->mutable_evidence()->set_gpus_unread(kNotAskedFor);
}

EvidenceJob::~EvidenceJob() = default;

void EvidenceJob::Start(std::unique_ptr<Child>* slot, const char* mode) {
  const bool again = *slot != nullptr;
  auto child = std::make_unique<Child>();
  child->may_stop = !again;
  child->started = MonotonicNs();
  child->deadline = start_ + options_.deadline_ns;
  UniqueFd end;
  if (!MakePipe(&child->fd, &end)) {
    child->failed = absl::StrCat("no pipe: ", strerror(errno));
    child->done = true;
    *slot = std::move(child);
    return;
  }
  std::vector<std::string> words =
      options_.helper.empty() ? OwnProgram("evidence") : std::vector<std::string>{options_.helper};
  words.insert(words.end(),
               {mode, absl::StrCat(pid_), "--limit-ms", absl::StrCat(options_.deadline_ns / 1'000'000 + 1000)});
  if (again) words.push_back("--no-stop");
  if (options_.ring >= 0) words.insert(words.end(), {"--ring-fd", "3"});
  if (!options_.nvml.empty()) words.insert(words.end(), {"--nvml", options_.nvml});

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, end.get(), 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  if (options_.ring >= 0) posix_spawn_file_actions_adddup2(&actions, options_.ring, 3);
#if __GLIBC_PREREQ(2, 34)
  // Other code may have left inheritable descriptors open.
  posix_spawn_file_actions_addclosefrom_np(&actions, options_.ring >= 0 ? 4 : 3);
#endif
  const absl::StatusOr<pid_t> pid = StartChild(words, actions);
  posix_spawn_file_actions_destroy(&actions);
  fcntl(child->fd.get(), F_SETFL, O_NONBLOCK);
  child->pid = pid.value_or(-1);
  if (!pid.ok()) {
    child->failed = std::string(pid.status().message());
    child->done = true;
  }
  *slot = std::move(child);
}

// Returns true if no further result will arrive.
bool EvidenceJob::PollChild(Child* child) {
  if (child->done) return true;
  bool over = false;
  char bytes[65536];
  while (child->read_end_ns == 0) {
    const ssize_t got = read(child->fd.get(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      over = got == 0;
      break;
    }
    child->bytes += static_cast<size_t>(got);
    child->buffer.append(bytes, static_cast<size_t>(got));
    if (child->bytes > kMostChildBytes ||
        !TakeMessages(&child->buffer, report_.mutable_process()->mutable_evidence())) {
      child->failed = "its output is damaged";
      over = true;
      break;
    }
  }
  const int64_t now = MonotonicNs();
  if (!over && child->read_end_ns == 0 && now > child->deadline) {
    child->failed = absl::StrCat("not done within ", DurationText(child->deadline - start_));
    over = true;
  }
  // A child that has closed its end is about to exit, or misbehaves.
  if (over && child->read_end_ns == 0) {
    child->read_end_ns = now;
    if (!child->failed.empty()) kill(child->pid, SIGKILL);
  }
  if (child->read_end_ns == 0) return false;
  const pid_t got = waitpid(child->pid, &child->status, WNOHANG);
  if (got == 0 && now - child->read_end_ns < kReapLimit) return false;
  if (got == 0) kill(child->pid, SIGKILL);
  child->done = true;
  if (!child->failed.empty() || child->status < 0) return true;
  if (WIFSIGNALED(child->status)) child->failed = absl::StrCat("it was killed by signal ", WTERMSIG(child->status));
  if (WIFEXITED(child->status) && WEXITSTATUS(child->status) != 0)
    child->failed = absl::StrCat("it exited with status ", WEXITSTATUS(child->status));
  return true;
}

bool EvidenceJob::Poll() {
  if (finished_) return true;
  bool done = true;
  if (stacks_) {
    if (PollChild(stacks_.get())) {
      // The child kills itself, which releases all threads, if a thread would stay stopped. The next child stops no
      // threads.
      const bool gave_up = stacks_->may_stop && stacks_->status >= 0 && WIFSIGNALED(stacks_->status) &&
                           WTERMSIG(stacks_->status) == SIGKILL && report_.process().evidence().threads_size() == 0 &&
                           MonotonicNs() < stacks_->deadline;
      if (gave_up) {
        Start(&stacks_, "--stacks-of");
        done = false;
      }
    } else {
      done = false;
    }
  }
  if (gpus_ && !PollChild(gpus_.get())) done = false;
  const int64_t now = MonotonicNs();
  if (before_.valid && now - start_ < options_.sample_gap_ns) done = false;
  if (done) Finish();
  return done;
}

void EvidenceJob::Wait() {
  while (!Poll()) {
    pollfd fds[2];
    nfds_t count = 0;
    for (const auto& child : {stacks_.get(), gpus_.get()}) {
      if (child != nullptr && !child->done && child->read_end_ns == 0) fds[count++] = {child->fd.get(), POLLIN, 0};
    }
    poll(fds, count, count == 0 ? 20 : 100);
  }
}

void EvidenceJob::Finish() {
  finished_ = true;
  ProcessState* process = report_.mutable_process();
  ProcessEvidence* evidence = process->mutable_evidence();
  if (stacks_ && !stacks_->failed.empty()) {
    const std::string what = absl::StrCat("the stack reader gave up: ", CleanUtf8(stacks_->failed, 500));
    if (evidence->stacks_refused().empty()) evidence->set_stacks_refused(what);
  }
  if (gpus_ && !gpus_->failed.empty()) {
    evidence->set_gpus_unread(absl::StrCat("the GPU driver did not answer: ", CleanUtf8(gpus_->failed, 500)));
  }
  if (options_.hardware_log) {
    ReadHardwareLog(kHardwareWindow, {}, evidence);
    NameGpus(evidence);
  } else {
    evidence->set_hardware_unread(kNotAskedFor);
  }
  if (const std::optional<ProcStat> stat = ReadProcStat(pid_)) {
    process->set_life(ProcessState::RUNNING);
    process->set_state(std::string(1, stat->state));
    process->set_wchan(CleanUtf8(ReadWchan(pid_), 256));
    const SleepingThreads sleeping = ReadThreadsInD(pid_);
    process->set_threads_in_d(sleeping.count);
    if (stat->state != 'D' && !sleeping.wchan.empty()) process->set_wchan(CleanUtf8(sleeping.wchan, 256));
    WrittenFiles files = ReadWrittenFiles(pid_);
    for (const std::string& file : files.paths) process->add_written_files(CleanUtf8(file, 4096));
    for (std::string& mount : files.mounts) process->add_written_mounts(std::move(mount));
    *evidence->mutable_memory() = ReadMemoryState(pid_);
    evidence->mutable_memory()->set_cgroup(CleanUtf8(evidence->memory().cgroup(), 1024));
    const Activity now = before_.valid ? ReadActivity(pid_) : Activity();
    if (now.valid) {
      process->set_sample_gap_ns(now.mono_ns - before_.mono_ns);
      process->set_cpu_ns_between_samples(now.cpu_ns - before_.cpu_ns);
      process->set_io_bytes_between_samples(now.io_bytes < 0 || before_.io_bytes < 0 ? -1
                                                                                     : now.io_bytes - before_.io_bytes);
    }
  } else {
    process->set_life(ProcessState::GONE);
  }
  HostRedaction().Redact(process);
  Process view;
  TakeEvidence(report_, 0, &view);
  for (std::string& text : view.stack) process->add_stack(std::move(text));
  for (std::string& text : view.python_stack) process->add_python_stack(std::move(text));
  process->set_stack_refused(view.stack_refused);
  evidence->set_took_ns(MonotonicNs() - start_);
}

EvidenceReport GatherEvidence(pid_t pid, const EvidenceOptions& options) {
  EvidenceJob job(pid, options);
  job.Wait();
  return job.report();
}

ProcessEvidence ReadLogAfterEnd() {
  ProcessEvidence log;
  log.set_taken_ns(MonotonicNs());
  log.set_gpus_unread("its process had exited");
  ReadHardwareLog(kHardwareWindow, {}, &log);
  return log;
}

void AddLogAfterEnd(const ProcessEvidence& log, Process* process) {
  if (process->evidence == nullptr) {
    process->evidence = std::make_shared<ProcessEvidence>(log);
    return;
  }
  auto evidence = std::make_shared<ProcessEvidence>(*process->evidence);
  evidence->set_taken_ns(log.taken_ns());
  *evidence->mutable_hardware() = log.hardware();
  evidence->set_hardware_unread(log.hardware_unread());
  evidence->set_hardware_since_ns(log.hardware_since_ns());
  NameGpus(evidence.get());
  process->evidence = std::move(evidence);
}

void TakeEvidence(const EvidenceReport& report, pid_t main_tid, Process* process) {
  auto evidence = std::make_shared<ProcessEvidence>(report.process().evidence());
  const bool second = process->evidence != nullptr;
  if (second && evidence->gpus_unread() == kNotAskedFor) {
    *evidence->mutable_gpus() = process->evidence->gpus();
    evidence->set_gpus_unread(process->evidence->gpus_unread());
  }
  if (second && evidence->hardware_unread() == kNotAskedFor) {
    *evidence->mutable_hardware() = process->evidence->hardware();
    evidence->set_hardware_unread(process->evidence->hardware_unread());
    evidence->set_hardware_since_ns(process->evidence->hardware_since_ns());
  }
  // The main thread shows the activity of a Python process, even if another thread makes the calls.
  const ThreadStack* main = nullptr;
  for (const ThreadStack& thread : evidence->threads()) {
    if (main == nullptr ||
        (main_tid != 0 && thread.inner_tid() == main_tid && StackTexts(*main, *evidence, true).empty()))
      main = &thread;
  }
  std::vector<std::string> stack, python;
  std::string refused = evidence->stacks_refused();
  if (main != nullptr) {
    stack = StackTexts(*main, *evidence);
    python = StackTexts(*main, *evidence, true);
    if (refused.empty() && stack.empty()) refused = main->refused();
  }
  if (stack.size() > kMostTexts) stack.resize(kMostTexts);
  if (python.size() > kMostTexts) python.resize(kMostTexts);
  process->stack_refused = refused;
  if (!python.empty()) process->python_stack = std::move(python);
  if (!stack.empty()) {
    (second ? process->stack_later : process->stack) = std::move(stack);
    // An earlier stack from the kernel is of a different kind, so the two cannot be compared.
    if (!second) process->stack_later.clear();
  }
  process->evidence = std::move(evidence);
}

}  // namespace lockstep
