// lockstep evidence PID: prints everything about a process. Also the disposable child of programs that gather evidence.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/settings/options.h"
#include "collector/evidence/child_pipe.h"
#include "collector/evidence/evidence.h"
#include "collector/evidence/stacks/gpu_state.h"
#include "collector/evidence/stacks/stack_child.h"

namespace {

namespace settings = lockstep::settings;

// Ends this program after a time limit when it runs as a child. Otherwise it could hang forever if its parent died.
void LimitTime(int milliseconds) {
  signal(SIGALRM, SIG_DFL);
  itimerval timer{};
  timer.it_value = {milliseconds / 1000, (milliseconds % 1000) * 1000};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

int main(int count, char** given) {
  // Configuration files must not affect processes that the agent starts.
  const bool inner = std::any_of(given, given + count, [](const char* word) {
    return strcmp(word, "--stacks-of") == 0 || strcmp(word, "--gpus-of") == 0;
  });
  std::vector<std::string> words(given + 1, given + count);
  if (inner) words.insert(words.begin(), "--no-config");
  const absl::StatusOr<settings::ParsedOptions> parsed = settings::Parse("evidence", words);
  if (const std::optional<int> status = settings::Finished("evidence", parsed)) return *status;
  if (inner) {
    const int limit_ms = parsed->Given("limit-ms") ? static_cast<int>(parsed->Number("limit-ms")) : 10'000;
    LimitTime(limit_ms);
    if (parsed->Given("stacks-of")) {
      lockstep::StackChildOptions options;
      options.may_stop = !parsed->Flag("no-stop");
      if (parsed->Given("ring-fd")) options.ring = static_cast<int>(parsed->Number("ring-fd"));
      options.limit_ns = int64_t{1'000'000} * limit_ms;
      return lockstep::RunStackChild(static_cast<int>(parsed->Number("stacks-of")), options, STDOUT_FILENO);
    }
    const std::string nvml = parsed->Text("nvml");
    lockstep::ProcessEvidence evidence;
    lockstep::ReadGpus(
        static_cast<int>(parsed->Number("gpus-of")), nvml.empty() ? nullptr : nvml.c_str(),
        [&] { lockstep::WriteEvidence(STDOUT_FILENO, evidence); }, &evidence);
    return lockstep::WriteEvidence(STDOUT_FILENO, evidence) ? 0 : 1;
  }
  int pid = 0;
  if (!absl::SimpleAtoi(parsed->operand(), &pid) || pid <= 0)
    return settings::UsageError(
        "evidence",
        parsed->Wrong(parsed->operand().empty() ? "no PID given" : "'" + parsed->operand() + "' is no PID"));
  const absl::StatusOr<lockstep::Redactor> redactor =
      lockstep::MakeRedactor(lockstep::ParseRedactLevel(parsed->Text("redact")).value());
  if (!redactor.ok()) return settings::UsageError("evidence", redactor.status());
  lockstep::SetHostRedaction(*redactor);
  lockstep::EvidenceOptions look;
  if (const std::string ring = parsed->Text("ring"); !ring.empty()) {
    look.ring = open(ring.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (look.ring < 0) {
      fprintf(stderr, "lockstep evidence: cannot open %s: %s\n", ring.c_str(), strerror(errno));
      return 2;
    }
  }
  const lockstep::EvidenceReport report = lockstep::GatherEvidence(pid, look);
  fputs(lockstep::EvidenceText(report).c_str(), stdout);
  return report.process().life() == lockstep::ProcessState::GONE ? 1 : 0;
}
