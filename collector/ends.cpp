#include "collector/ends.h"

#include <signal.h>
#include <string.h>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

bool EndedBadly(const Process& process) {
  return process.life == Life::kKilled || process.life == Life::kGone ||
         (process.life == Life::kExited && process.exit_code != 0);
}

bool CrashSignal(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL || signal == SIGSYS;
}

}  // namespace

void MarkConsequences(const EndingFacts& facts, const std::vector<Process*>& processes) {
  const Process* first = nullptr;
  for (const Process* process : processes) {
    if (!EndedBadly(*process)) continue;
    if (facts.ending_since_ns != 0 && process->ended_mono_ns >= facts.ending_since_ns) continue;
    if (first == nullptr || process->ended_mono_ns < first->ended_mono_ns) first = process;
  }
  for (Process* process : processes) {
    process->consequence = false;
    if (process->life == Life::kRunning || process->life == Life::kUnknown) continue;
    if (facts.ending_since_ns != 0 && process->ended_mono_ns >= facts.ending_since_ns) {
      process->consequence = true;
      continue;
    }
    if (!EndedBadly(*process) || process == first || first == nullptr) continue;
    const bool crashed = process->life == Life::kKilled && CrashSignal(process->signal);
    if (facts.launcher) {
      process->consequence = !crashed || process->ended_mono_ns - first->ended_mono_ns <= kSecond;
    } else {
      process->consequence = process->life != Life::kKilled || process->signal == SIGABRT;
    }
  }
}

std::string EndText(const Process& process) {
  switch (process.life) {
    case Life::kRunning:
      return process.state.empty() ? "running" : absl::StrCat("running, state ", process.state);
    case Life::kExited:
      return absl::StrCat("exited ", process.exit_code);
    case Life::kKilled:
      return absl::StrCat("killed by signal ", process.signal, " (", strsignal(process.signal), ")");
    case Life::kGone:
      return "gone";
    case Life::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace lockstep
