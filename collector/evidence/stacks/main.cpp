// lockstep evidence PID: everything about a process, as text. Also the disposable child of those who gather it.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/settings/merge.h"
#include "collector/evidence/child_pipe.h"
#include "collector/evidence/evidence.h"
#include "collector/evidence/stacks/gpu_state.h"
#include "collector/evidence/stacks/stack_child.h"

namespace {

constexpr char kUsage[] =
    "Usage: lockstep evidence [--ring FILE] [--redact LEVEL] PID\n\n"
    "Prints what can be learned about a process from outside: native and Python stacks of all its threads, whether it "
    "moves,\n"
    "its memory, its GPUs, hardware errors of this host. Each thread is stopped for a moment (under 50 ms, usually "
    "under 1).\n"
    "--ring: the process's ring file; where ptrace is refused, its recorder is asked (if it runs with "
    "LOCKSTEP_HELPER=on).\n"
    "--redact: no, paths (folders become hashes) or stacks (also names of files, functions and threads that are not "
    "public)\n"
    "(LOCKSTEP_REDACT; default no).\n";

// Nobody may wait for a child of ours for good, whatever became of its parent.
void LimitTime(int milliseconds) {
  signal(SIGALRM, SIG_DFL);
  itimerval timer{};
  timer.it_value = {milliseconds / 1000, (milliseconds % 1000) * 1000};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

int main(int count, char** given) {
  // What the agent starts is not for files to change.
  const bool inner = std::any_of(given, given + count, [](const char* word) {
    return strcmp(word, "--stacks-of") == 0 || strcmp(word, "--gpus-of") == 0;
  });
  absl::StatusOr<lockstep::settings::Merged> merged =
      lockstep::settings::Merge("evidence", {inner ? given + count : given + 1, given + count});
  if (!merged.ok())
    return fprintf(stderr, "lockstep evidence: %s\n", std::string(merged.status().message()).c_str()), 2;
  if (inner) merged->words = {given + 1, given + count};
  lockstep::settings::Tell(*merged);
  lockstep::settings::Arguments arguments(given[0], merged->words);
  const int argc = arguments.argc();
  char** argv = arguments.argv();
  int stacks_of = 0, gpus_of = 0, pid = 0, limit_ms = 10'000;
  const char* nvml = nullptr;
  const char* ring = nullptr;
  lockstep::StackChildOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--help" || word == "-h") {
      fputs(kUsage, stdout);
      return 0;
    }
    bool fine = true;
    if (word == "--stacks-of") {
      fine = absl::SimpleAtoi(value, &stacks_of) && stacks_of > 0 && ++i > 0;
    } else if (word == "--gpus-of") {
      fine = absl::SimpleAtoi(value, &gpus_of) && gpus_of > 0 && ++i > 0;
    } else if (word == "--limit-ms") {
      fine = absl::SimpleAtoi(value, &limit_ms) && limit_ms > 0 && ++i > 0;
    } else if (word == "--ring-fd") {
      fine = absl::SimpleAtoi(value, &options.ring) && options.ring > 2 && ++i > 0;
    } else if (word == "--ring") {
      fine = value[0] != 0;
      ring = value;
      ++i;
    } else if (word == "--redact") {
      const absl::StatusOr<lockstep::RedactLevel> level = lockstep::ParseRedactLevel(value);
      std::string key;
      const absl::StatusOr<lockstep::Redactor> redactor =
          level.ok() ? lockstep::MakeRedactor(*level, "", &key) : absl::StatusOr<lockstep::Redactor>(level.status());
      if (!redactor.ok())
        return fprintf(stderr, "lockstep evidence: %s\n", std::string(redactor.status().message()).c_str()), 2;
      lockstep::SetHostRedaction(*redactor);
      ++i;
    } else if (word == "--nvml") {
      nvml = value;
      ++i;
    } else if (word == "--no-stop") {
      options.may_stop = false;
    } else {
      fine = pid == 0 && absl::SimpleAtoi(word, &pid) && pid > 0;
    }
    if (!fine) {
      fprintf(stderr, "lockstep evidence: cannot use '%s'\n%s", argv[i], kUsage);
      return 2;
    }
  }
  if (stacks_of > 0) {
    LimitTime(limit_ms);
    options.limit_ns = int64_t{1'000'000} * limit_ms;
    return lockstep::RunStackChild(stacks_of, options, STDOUT_FILENO);
  }
  if (gpus_of > 0) {
    LimitTime(limit_ms);
    lockstep::ProcessEvidence evidence;
    lockstep::ReadGpus(
        gpus_of, nvml, [&] { lockstep::WriteEvidence(STDOUT_FILENO, evidence); }, &evidence);
    return lockstep::WriteEvidence(STDOUT_FILENO, evidence) ? 0 : 1;
  }
  if (pid == 0) {
    fputs(kUsage, stderr);
    return 2;
  }
  lockstep::EvidenceOptions look;
  if (ring != nullptr) {
    look.ring = open(ring, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (look.ring < 0) {
      fprintf(stderr, "lockstep evidence: cannot open %s: %s\n", ring, strerror(errno));
      return 2;
    }
  }
  const lockstep::EvidenceReport report = lockstep::GatherEvidence(pid, look);
  fputs(lockstep::EvidenceText(report).c_str(), stdout);
  return report.process().life() == lockstep::ProcessState::GONE ? 1 : 0;
}
