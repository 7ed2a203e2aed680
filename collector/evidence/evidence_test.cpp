#include "collector/evidence/evidence.h"
#include "analyzer/util/time_units.h"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/evidence/process_evidence.h"
#include "collector/evidence/child_pipe.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kLongestStop = 50'000'000;

bool WaitFor(const std::function<bool()>& condition) {
  for (int64_t begin = MonotonicNs(); MonotonicNs() - begin < 30 * kSecond;) {
    if (condition()) return true;
    usleep(2000);
  }
  return condition();
}

// A program that has printed "ready". The destructor kills it.
class Program {
 public:
  explicit Program(std::vector<std::string> words, const std::function<void()>& before = {}) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(ends[1], 1);
      if (before) before();
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    close(ends[1]);
    char text[64] = {};
    ready_ = read(ends[0], text, sizeof text - 1) > 0 && absl::StartsWith(text, "ready");
    close(ends[0]);
  }
  ~Program() {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  bool ready() const { return ready_; }

 private:
  pid_t pid_ = -1;
  bool ready_ = false;
};

EvidenceOptions Options() {
  EvidenceOptions options;
  options.helper = LOCKSTEP_EVIDENCE_HELPER;
  options.gpus = options.hardware_log = false;
  options.sample_gap_ns = 0;
  options.deadline_ns = 60 * kSecond;  // the tests' machine may be busy
  return options;
}

std::vector<std::string> Texts(const EvidenceReport& report, const ThreadStack& thread) {
  return StackTexts(thread, report.process().evidence());
}

std::vector<const ThreadStack*> Having(const EvidenceReport& report, const std::string& text) {
  std::vector<const ThreadStack*> found;
  for (const ThreadStack& thread : report.process().evidence().threads()) {
    if (absl::StrContains(absl::StrJoin(Texts(report, thread), "\n"), text)) found.push_back(&thread);
  }
  return found;
}

char StateOf(pid_t pid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  return stat ? stat->state : '?';
}

TEST(Evidence, ThreadsBlockedInAFutexHaveNamesAndLines) {
  Program program({LOCKSTEP_STACK_TARGET, "blocked", "3"});
  ASSERT_TRUE(program.ready());
  const EvidenceReport report = GatherEvidence(program.pid(), Options());
  const ProcessEvidence& evidence = report.process().evidence();
  EXPECT_EQ(evidence.stacks_refused(), "");
  EXPECT_EQ(evidence.threads_total(), 4u);
  EXPECT_LT(evidence.longest_stop_ns(), kLongestStop);
  ASSERT_EQ(evidence.threads_size(), 4);
  EXPECT_EQ(evidence.threads(0).tid(), program.pid());
  const auto waiting = Having(report, "target::WaitInNobodysName (stack_target.cpp:");
  ASSERT_EQ(waiting.size(), 3u) << EvidenceText(report);
  for (const ThreadStack* thread : waiting) {
    EXPECT_THAT(Texts(report, *thread), Contains(StartsWith("target::Waiter (stack_target.cpp:")));
    EXPECT_THAT(Texts(report, *thread), Contains(StartsWith("pthread_cond_wait")));
    EXPECT_GT(thread->stopped_ns(), 0);
  }
  EXPECT_THAT(report.process().stack(), Contains(StartsWith("main (stack_target.cpp:")));
  EXPECT_GT(evidence.memory().resident_bytes(), 0);
  EXPECT_GE(evidence.memory().oom_score(), 0);
  bool build_id = false;
  for (const StackModule& module : evidence.modules()) build_id |= module.build_id().size() >= 16;
  EXPECT_TRUE(build_id);
  EXPECT_EQ(StateOf(program.pid()), 'S');
}

TEST(Evidence, ABusyThreadIsShownWhereItIs) {
  Program program({LOCKSTEP_STACK_TARGET, "busy"});
  ASSERT_TRUE(program.ready());
  EvidenceOptions options = Options();
  options.sample_gap_ns = 300'000'000;
  const EvidenceReport report = GatherEvidence(program.pid(), options);
  ASSERT_EQ(Having(report, "target::SpinForever").size(), 1u) << EvidenceText(report);
  EXPECT_THAT(Having(report, "target::SpinForever")[0]->state(), "R");
  EXPECT_GE(report.process().sample_gap_ns(), 300'000'000);
  EXPECT_GE(report.process().cpu_ns_between_samples(), 0);
}

TEST(Evidence, AStoppedProcessIsReadAndStaysStopped) {
  Program program({LOCKSTEP_STACK_TARGET, "blocked", "2"});
  ASSERT_TRUE(program.ready());
  kill(program.pid(), SIGSTOP);
  ASSERT_TRUE(WaitFor([&] { return StateOf(program.pid()) == 'T'; }));
  const EvidenceReport report = GatherEvidence(program.pid(), Options());
  EXPECT_EQ(Having(report, "target::WaitInNobodysName").size(), 2u) << EvidenceText(report);
  EXPECT_EQ(report.process().state(), "T");
  ASSERT_TRUE(WaitFor([&] { return StateOf(program.pid()) == 'T'; })) << "looking at a process must not continue it";
  kill(program.pid(), SIGCONT);
  EXPECT_TRUE(WaitFor([&] { return StateOf(program.pid()) == 'S'; }));
}

TEST(Evidence, AThreadInUninterruptibleSleepIsNotStopped) {
  Program program({LOCKSTEP_STACK_TARGET, "vfork"});
  ASSERT_TRUE(program.ready());
  ASSERT_TRUE(WaitFor([&] { return StateOf(program.pid()) == 'D'; }));
  const EvidenceReport report = GatherEvidence(program.pid(), Options());
  ASSERT_EQ(report.process().evidence().threads_size(), 1);
  const ThreadStack& thread = report.process().evidence().threads(0);
  EXPECT_EQ(thread.state(), "D");
  EXPECT_EQ(thread.stopped_ns(), 0);
  EXPECT_THAT(thread.refused(), HasSubstr("uninterruptible sleep (D)"));
  EXPECT_EQ(StateOf(program.pid()), 'D');
  EXPECT_EQ(report.process().threads_in_d(), 1u);
  // The kernel function, or the system call, is available without a stop.
  EXPECT_THAT(Texts(report, thread), Not(IsEmpty()));
}

TEST(Evidence, DeepRecursionIsTruncated) {
  Program program({LOCKSTEP_STACK_TARGET, "deep", "100000"});
  ASSERT_TRUE(program.ready());
  const EvidenceReport report = GatherEvidence(program.pid(), Options());
  const auto deep = Having(report, "target::Deeper");
  ASSERT_EQ(deep.size(), 1u) << EvidenceText(report);
  EXPECT_TRUE(deep[0]->truncated());
  EXPECT_GE(deep[0]->frames_size(), 200);
  EXPECT_LE(deep[0]->frames_size(), 512);
  EXPECT_LT(report.process().evidence().longest_stop_ns(), kLongestStop);
}

TEST(Evidence, FiveHundredThreadsAreRead) {
  Program program({LOCKSTEP_STACK_TARGET, "blocked", "500"});
  ASSERT_TRUE(program.ready());
  const EvidenceReport report = GatherEvidence(program.pid(), Options());
  EXPECT_EQ(report.process().evidence().threads_size(), 501);
  EXPECT_EQ(Having(report, "target::WaitInNobodysName").size(), 500u) << EvidenceText(report);
  EXPECT_LT(report.process().evidence().longest_stop_ns(), kLongestStop);
}

TEST(Evidence, AProcessThatEndsDuringTheReadIsNoError) {
  for (int i = 0; i < 6; ++i) {
    Program program({LOCKSTEP_STACK_TARGET, "brief", absl::StrCat(1 << (2 * i))});
    ASSERT_TRUE(program.ready());
    const EvidenceReport report = GatherEvidence(program.pid(), Options());
    EXPECT_LE(report.process().evidence().threads_size(), 64);
    EvidenceText(report);
  }
  const EvidenceReport gone = GatherEvidence(INT32_MAX - 1, Options());
  EXPECT_EQ(gone.process().life(), ProcessState::GONE);
  EXPECT_THAT(gone.process().evidence().stacks_refused(), HasSubstr("gone"));
}

class Folder : public support::TempFolder {
 public:
  Folder() { chmod(path().c_str(), 0755); }
  std::string Write(const std::string& name, const std::string& content) const {
    const std::string file = absl::StrCat(path(), "/", name);
    support::WriteFile(file, content);
    chmod(file.c_str(), 0755);
    return file;
  }
};

TEST(Evidence, StrippedProgramsGiveFileBuildIdAndOffset) {
  Folder folder;
  const std::string copy = folder.Write("stripped", support::ReadFile(LOCKSTEP_STACK_TARGET));
  if (system(absl::StrCat("strip --strip-all ", copy, " 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "strip is not installed";
  Program program({copy, "blocked", "1"});
  ASSERT_TRUE(program.ready());
  const EvidenceReport report = GatherEvidence(program.pid(), Options());
  const auto waiting = Having(report, "stripped at 0x");
  ASSERT_EQ(waiting.size(), 2u) << EvidenceText(report);
  const ProcessEvidence& evidence = report.process().evidence();
  for (const StackFrame& frame : waiting[1]->frames()) {
    if (!absl::StrContains(FrameText(frame, evidence), "stripped at 0x")) continue;
    EXPECT_GT(frame.offset(), 0u);
    EXPECT_GE(evidence.modules(static_cast<int>(frame.module()) - 1).build_id().size(), 16u);
  }
}

TEST(Evidence, DamagedFilesAreHarmless) {
  Folder folder;
  const std::string good = support::ReadFile(LOCKSTEP_STACK_TARGET);
  std::mt19937 random(5);
  int answered = 0;
  for (int i = 0; i < 12; ++i) {
    // Damages the end of the file: tables, names and debug information. The head and the code stay, because the loader
    // needs them.
    std::string bad = good;
    const size_t from = i % 2 == 0 ? good.size() / 2 : good.size() - 4096;
    for (int k = 0; k < 400; ++k) bad[from + random() % (bad.size() - from)] = static_cast<char>(random());
    if (i % 3 == 2) bad.resize(bad.size() - 64 * 7);
    const std::string path = folder.Write(absl::StrCat("bad", i), bad);
    Program program({path, "blocked", "2"});
    if (!program.ready()) continue;
    EvidenceOptions options = Options();
    options.deadline_ns = 20 * kSecond;
    const EvidenceReport report = GatherEvidence(program.pid(), options);
    EXPECT_EQ(report.process().evidence().threads_size(), 3) << report.process().evidence().stacks_refused();
    EXPECT_THAT(StateOf(program.pid()), AnyOf('S', 'R'));
    ++answered;
  }
  EXPECT_GT(answered, 3);
}

TEST(Evidence, ADeletedOrReplacedFileIsReportedOrReadFromTheKernel) {
  Folder folder;
  const std::string path = folder.Write("moved", support::ReadFile(LOCKSTEP_STACK_TARGET));
  Program program({path, "blocked", "1"});
  ASSERT_TRUE(program.ready());
  unlink(path.c_str());
  folder.Write("moved", std::string(100'000, 'x'));
  const EvidenceReport report = GatherEvidence(program.pid(), Options());
  ASSERT_EQ(report.process().evidence().threads_size(), 2);
  EXPECT_THAT(absl::StrJoin(Texts(report, report.process().evidence().threads(0)), "\n"),
              AnyOf(HasSubstr("main"), HasSubstr("moved at 0x"), HasSubstr("pause")));
}

TEST(Evidence, RefusedAccessIsReported) {
  Folder folder;
  const std::string helper = folder.Write("lockstep-evidence", support::ReadFile(LOCKSTEP_EVIDENCE_HELPER));
  Program program({LOCKSTEP_STACK_TARGET, geteuid() == 0 ? "blocked" : "undumpable", "1"});
  ASSERT_TRUE(program.ready());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    // The child continues as an unprivileged user.
    if (geteuid() == 0 && (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0)) _exit(1);
    dup2(ends[1], 1);
    execl(helper.c_str(), helper.c_str(), absl::StrCat(program.pid()).c_str(), nullptr);
    _exit(1);
  }
  close(ends[1]);
  std::string text;
  char bytes[4096];
  for (ssize_t got; (got = read(ends[0], bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(got));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(text, HasSubstr("Stacks: ptrace refused (Operation not permitted): "));
  EXPECT_THAT(text, HasSubstr("CAP_SYS_PTRACE"));
  EXPECT_THAT(text, HasSubstr("Thread ")) << "states are visible without the permission";
}

// Returns how many of the process's threads are stopped, by a tracer or a signal.
size_t StoppedThreads(pid_t pid) {
  size_t stopped = 0;
  DIR* tasks = opendir(absl::StrCat("/proc/", pid, "/task").c_str());
  if (tasks == nullptr) return 0;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    const std::optional<ProcStat> stat =
        ParseProcStat(ReadSmallFile(absl::StrCat("/proc/", pid, "/task/", entry->d_name, "/stat")));
    stopped += stat && (stat->state == 't' || stat->state == 'T');
  }
  closedir(tasks);
  return stopped;
}

pid_t StartReader(pid_t of) {
  const pid_t helper = fork();
  if (helper != 0) return helper;
  const int null = open("/dev/null", O_WRONLY);
  dup2(null, 1);
  execl(LOCKSTEP_EVIDENCE_HELPER, LOCKSTEP_EVIDENCE_HELPER, "--stacks-of", absl::StrCat(of).c_str(), nullptr);
  _exit(127);
}

TEST(Evidence, TheReaderMayBeKilledAtAnyPoint) {
  Program program({LOCKSTEP_STACK_TARGET, "blocked", "40"});
  ASSERT_TRUE(program.ready());
  std::mt19937 random(17);
  for (int i = 0; i < 25; ++i) {
    const pid_t helper = StartReader(program.pid());
    usleep(static_cast<useconds_t>(random() % 30000));
    kill(helper, SIGKILL);
    waitpid(helper, nullptr, 0);
    EXPECT_EQ(StoppedThreads(program.pid()), 0u)
        << "the kernel must have continued every thread when the reader has ended";
  }
  EXPECT_EQ(Having(GatherEvidence(program.pid(), Options()), "target::WaitInNobodysName").size(), 40u);
}

// A busy machine or a debugger may stop the reader while it holds a thread. Then the reader's timer kills it.
TEST(Evidence, AStoppedReaderHoldsNoThread) {
  Program program({LOCKSTEP_STACK_TARGET, "blocked", "40"});
  ASSERT_TRUE(program.ready());
  std::mt19937 random(19);
  int caught = 0;
  for (int i = 0; i < 200 && caught < 5; ++i) {
    const pid_t helper = StartReader(program.pid());
    int status = 0;
    for (bool over = false; !over;) {
      usleep(static_cast<useconds_t>(random() % 500));
      kill(helper, SIGSTOP);
      ASSERT_EQ(waitpid(helper, &status, WUNTRACED), helper);
      over = !WIFSTOPPED(status);
      if (!over && StoppedThreads(program.pid()) > 0) {
        ++caught;
        EXPECT_TRUE(WaitFor([&] { return StoppedThreads(program.pid()) == 0; })) << "a stopped reader holds a thread";
        EXPECT_EQ(waitpid(helper, &status, 0), helper);
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
        over = true;
      } else if (!over) {
        kill(helper, SIGCONT);
      }
    }
  }
  EXPECT_GT(caught, 0) << "the reader was never stopped while a thread was stopped";
  EXPECT_EQ(Having(GatherEvidence(program.pid(), Options()), "target::WaitInNobodysName").size(), 40u);
}

TEST(Evidence, WithoutStoppingThreadsThereIsLessEvidence) {
  Program program({LOCKSTEP_STACK_TARGET, "blocked", "2"});
  ASSERT_TRUE(program.ready());
  Folder folder;
  const std::string out = folder.path() + "/out";
  ASSERT_EQ(
      system(absl::StrCat(LOCKSTEP_EVIDENCE_HELPER, " --no-stop --stacks-of ", program.pid(), " | cat >", out).c_str()),
      0);
  std::string bytes = support::ReadFile(out);
  EvidenceReport report;
  ProcessEvidence* evidence = report.mutable_process()->mutable_evidence();
  ASSERT_TRUE(TakeMessages(&bytes, evidence));
  EXPECT_EQ(bytes, "");
  ASSERT_EQ(evidence->threads_size(), 3);
  for (const ThreadStack& thread : evidence->threads()) {
    EXPECT_EQ(thread.stopped_ns(), 0);
    EXPECT_THAT(thread.refused(), HasSubstr("not stopped"));
    EXPECT_GT(thread.frames_size(), 0);
  }
}

TEST(Evidence, AProcessThatIsAlreadyTracedIsReported) {
  Program program({LOCKSTEP_STACK_TARGET, "blocked", "1"});
  ASSERT_TRUE(program.ready());
  ASSERT_EQ(ptrace(PTRACE_SEIZE, program.pid(), nullptr, nullptr), 0);
  const EvidenceReport report = GatherEvidence(program.pid(), Options());
  EXPECT_THAT(report.process().evidence().stacks_refused(), HasSubstr(absl::StrCat("process ", getpid(), " (")));
  EXPECT_THAT(report.process().evidence().stacks_refused(), HasSubstr("already traces it"));
}

TEST(Evidence, AProcessInAContainerIsReadThroughItsRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root for namespaces";
  const std::string script = absl::StrCat("mount -t tmpfs none /mnt && cp ", LOCKSTEP_STACK_TARGET,
                                          " /mnt/inside && exec /mnt/inside blocked 2");
  Program program({"unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script});
  if (!program.ready()) GTEST_SKIP() << "cannot create namespaces here";
  pid_t inside = 0;
  for (pid_t pid : Descendants(program.pid())) inside = pid;
  ASSERT_GT(inside, 0);
  const EvidenceReport report = GatherEvidence(inside, Options());
  const auto waiting = Having(report, "target::WaitInNobodysName (stack_target.cpp:");
  ASSERT_EQ(waiting.size(), 2u) << EvidenceText(report);
  EXPECT_LT(waiting[0]->inner_tid(), 10);
  EXPECT_NE(waiting[0]->inner_tid(), waiting[0]->tid());
  kill(inside, SIGKILL);
}

TEST(Evidence, AMissingOrHungHelperIsReported) {
  Folder folder;
  Program program({LOCKSTEP_STACK_TARGET, "blocked", "1"});
  ASSERT_TRUE(program.ready());
  EvidenceOptions options = Options();
  options.helper = folder.path() + "/none";
  EXPECT_THAT(GatherEvidence(program.pid(), options).process().evidence().stacks_refused(), HasSubstr("cannot start"));
  options.helper = folder.Write("hangs", "#!/bin/sh\nexec sleep 1000\n");
  options.deadline_ns = 200'000'000;
  EXPECT_THAT(GatherEvidence(program.pid(), options).process().evidence().stacks_refused(),
              HasSubstr("not done within 0.2 s"));
  options.deadline_ns = 20 * kSecond;
  options.helper = folder.Write("lies", "#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' '\\377'\n");
  EXPECT_THAT(GatherEvidence(program.pid(), options).process().evidence().stacks_refused(), HasSubstr("gave up"));
  options.helper = folder.Write("dies", "#!/bin/sh\nkill -SEGV $$\n");
  EXPECT_THAT(GatherEvidence(program.pid(), options).process().evidence().stacks_refused(), HasSubstr("signal 11"));
}

TEST(Evidence, GpusAreReadThroughNvmlOrTheReasonIsGiven) {
  EvidenceOptions options = Options();
  options.stacks = false;
  options.gpus = true;
  options.nvml = LOCKSTEP_FAKE_NVML_LIBRARY;
  const auto gather = [&](const char* mode) {
    setenv("LOCKSTEP_FAKE_NVML", mode, 1);
    return GatherEvidence(getpid(), options).process().evidence();
  };
  ProcessEvidence evidence = gather("fine");
  ASSERT_EQ(evidence.gpus_size(), 2) << evidence.gpus_unread();
  EXPECT_EQ(evidence.gpus(0).pci(), "0000:1b:00.0");
  EXPECT_EQ(evidence.gpus(0).name(), "Fake? GPU");
  EXPECT_TRUE(evidence.gpus(0).of_process());
  EXPECT_EQ(evidence.gpus(1).temperature_c(), 61);
  EXPECT_EQ(evidence.gpus(1).uncorrected_ecc(), -1);
  EXPECT_THAT(evidence.gpus(1).unread(), Contains("uncorrected ECC errors: Not Supported"));
  evidence = gather("lost");
  EXPECT_EQ(evidence.gpus(0).lost(), "");
  EXPECT_EQ(evidence.gpus(1).lost(), "GPU is lost");
  evidence = gather("no-driver");
  EXPECT_THAT(evidence.gpus_unread(), HasSubstr("Driver Not Loaded"));
  evidence = gather("crash");
  EXPECT_EQ(evidence.gpus_size(), 1) << "GPUs that were read before must be kept";
  EXPECT_THAT(evidence.gpus_unread(), HasSubstr("signal 6"));
  options.deadline_ns = kSecond;
  evidence = gather("hang");
  EXPECT_THAT(evidence.gpus_unread(), HasSubstr("did not answer: not done within 1.0 s"));
  options.nvml = "/nonexistent/libnvidia-ml.so";
  options.deadline_ns = 20 * kSecond;
  EXPECT_THAT(gather("fine").gpus_unread(), HasSubstr("no NVIDIA driver library"));
  unsetenv("LOCKSTEP_FAKE_NVML");
}

// Returns this machine's interpreters of Python 3.8 to 3.14, from /usr, /usr/local and pyenv.
std::vector<std::string> Pythons() {
  std::vector<std::string> found;
  for (int minor = 8; minor <= 14; ++minor) {
    std::vector<std::string> places = {absl::StrCat("/usr/bin/python3.", minor),
                                       absl::StrCat("/usr/local/bin/python3.", minor)};
    const char* home = getenv("HOME");
    const std::string versions = getenv("PYENV_ROOT") != nullptr
                                     ? absl::StrCat(getenv("PYENV_ROOT"), "/versions")
                                     : absl::StrCat(home == nullptr ? "" : home, "/.pyenv/versions");
    if (DIR* dir = opendir(versions.c_str())) {
      while (const dirent* entry = readdir(dir))
        places.push_back(absl::StrCat(versions, "/", entry->d_name, "/bin/python3.", minor));
      closedir(dir);
    }
    for (const std::string& place : places) {
      if (access(place.c_str(), X_OK) == 0) found.push_back(place);
    }
  }
  return found;
}

// The comments are the line numbers of the script.
constexpr char kScript[] =
    "import threading, time, functools, sys\n"                                     // 1
    "def waits(lock):\n"                                                           // 2
    "    lock.acquire()\n"                                                         // 3
    "    lock.acquire()\n"                                                         // 4
    "class Job:\n"                                                                 // 5
    "    def hold(self, a, b):\n"                                                  // 6
    "        sys.stdout.write('ready\\n'); sys.stdout.flush()\n"                   // 7
    "        return sum(range(10 ** 15))\n"                                        // 8
    "    def step(self):\n"                                                        // 9
    "        x = 1\n"                                                              // 10
    "        return functools.reduce(\n"                                           // 11
    "            self.hold,\n"                                                     // 12
    "            [1, 2])\n"                                                        // 13
    "def trailing():\n"                                                            // 14
    "    Job().step()\n"                                                           // 15
    "t = threading.Thread(target=waits, args=(threading.Lock(),), daemon=True)\n"  // 16
    "t.start()\n"                                                                  // 17
    "time.sleep(0.2)\n"                                                            // 18
    "trailing()\n";                                                                // 19

TEST(Evidence, PythonStacksAreReadWhileTheInterpreterLockIsHeld) {
  Folder folder;
  const std::string script = folder.Write("job.py", kScript);
  const std::vector<std::string> pythons = Pythons();
  if (pythons.empty()) GTEST_SKIP() << "no Python 3.8 to 3.14 here";
  for (const std::string& python : pythons) {
    SCOPED_TRACE(python);
    Program program({python, script});
    ASSERT_TRUE(program.ready());
    const EvidenceReport report = GatherEvidence(program.pid(), Options());
    const ProcessEvidence& evidence = report.process().evidence();
    EXPECT_TRUE(absl::EndsWith(python, evidence.python_version())) << evidence.python_version();
    EXPECT_EQ(evidence.python_refused(), "");
    ASSERT_EQ(evidence.threads_size(), 2) << EvidenceText(report);
    // reduce() is written in C, so the stack is Python, C, Python.
    std::vector<std::string> texts;
    for (const std::string& text : report.process().python_stack()) texts.push_back(text);
    ASSERT_EQ(texts.size(), 4u) << EvidenceText(report);
    const bool qualified =
        evidence.python_version() != "3.8" && evidence.python_version() != "3.9" && evidence.python_version() != "3.10";
    EXPECT_EQ(texts[0], absl::StrCat(qualified ? "Job.hold (" : "hold (", script, ":8)"));
    EXPECT_THAT(texts[1], ContainsRegex("step \\(.*job.py:1[1-3]\\)"));
    EXPECT_EQ(texts[2], absl::StrCat("trailing (", script, ":15)"));
    EXPECT_EQ(texts[3], absl::StrCat("<module> (", script, ":19)"));
    EXPECT_TRUE(evidence.threads(0).holds_interpreter_lock());
    EXPECT_FALSE(evidence.threads(1).holds_interpreter_lock());
    // The native frames of sum() are inside hold(), and no frame of the interpreter's evaluation loop is left.
    const std::vector<std::string> merged = Texts(report, evidence.threads(0));
    EXPECT_THAT(merged, Not(Contains(HasSubstr("_PyEval_EvalFrameDefault")))) << EvidenceText(report);
    const auto place = [&](const std::string& text) {
      return std::find_if(merged.begin(), merged.end(),
                          [&](const std::string& frame) { return absl::StrContains(frame, text); }) -
             merged.begin();
    };
    EXPECT_GT(place("hold ("), 0) << EvidenceText(report);
    EXPECT_LT(place("trailing ("), static_cast<ptrdiff_t>(merged.size()));
    EXPECT_LT(place("hold ("), place("step ("));
    const auto waiting = Having(report, absl::StrCat("waits (", script, ":4)"));
    ASSERT_EQ(waiting.size(), 1u) << EvidenceText(report);
    EXPECT_EQ(waiting[0], &evidence.threads(1));
    EXPECT_LT(evidence.longest_stop_ns(), kLongestStop);
  }
}

TEST(Evidence, AStoppedPythonProcessIsRead) {
  const std::vector<std::string> pythons = Pythons();
  if (pythons.empty()) GTEST_SKIP() << "no Python 3.8 to 3.14 here";
  Program program(
      {pythons.back(), "-c",
       "import time\ndef f(n):\n  f(n - 1) if n else (print('ready', flush=True), time.sleep(1000))\nf(300)"});
  ASSERT_TRUE(program.ready());
  kill(program.pid(), SIGSTOP);
  ASSERT_TRUE(WaitFor([&] { return StateOf(program.pid()) == 'T'; }));
  const EvidenceReport report = GatherEvidence(program.pid(), Options());
  EXPECT_THAT(report.process().python_stack(), Contains("f (<string>:3)")) << EvidenceText(report);
  EXPECT_TRUE(report.process().evidence().threads(0).truncated());
  EXPECT_EQ(StateOf(program.pid()), 'T');
}

TEST(Evidence, TwoReportsHaveTwoStacks) {
  Program program({LOCKSTEP_STACK_TARGET, "blocked", "1"});
  ASSERT_TRUE(program.ready());
  Process process;
  process.stack = {"[kernel] futex_wait"};
  TakeEvidence(GatherEvidence(program.pid(), Options()), 0, &process);
  EXPECT_THAT(process.stack, Contains(StartsWith("main")));
  EXPECT_TRUE(process.stack_later.empty());
  TakeEvidence(GatherEvidence(program.pid(), Options()), 0, &process);
  EXPECT_EQ(process.stack, process.stack_later);
}

}  // namespace
}  // namespace lockstep
