#include "collector/detect/ends.h"

#include <signal.h>
#include <string.h>

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/time_units.h"

namespace lockstep {
namespace {

bool CrashSignal(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL || signal == SIGSYS;
}

}  // namespace

bool EndedBadly(const Process& process) {
  return process.life == Life::kKilled || process.life == Life::kGone ||
         (process.life == Life::kExited && process.exit_code != 0);
}

EndKind KindOfEnd(const Process& process) {
  if (!EndedBadly(process)) return EndKind::kWell;
  if (process.life == Life::kExited || process.signal == SIGABRT) return EndKind::kGaveUp;
  return process.life == Life::kKilled && CrashSignal(process.signal) ? EndKind::kCrashed : EndKind::kKilled;
}

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

std::vector<size_t> FindFirstEnds(const EndingFacts& facts, const std::vector<HostEnd>& ends) {
  std::vector<size_t> causes;
  struct Span {
    int64_t low = INT64_MIN, high = INT64_MAX;
  };
  const auto span_of = [](const HostEnd& end) {
    if (end.uncertainty_ns < 0) return Span{};
    return Span{end.shared_ns - end.uncertainty_ns, end.shared_ns + end.uncertainty_ns};
  };
  const auto after_ending = [&](const HostEnd& end) {
    return facts.ending_since_ns != 0 && end.uncertainty_ns >= 0 && end.shared_ns >= facts.ending_since_ns;
  };
  // On each host, only the first abnormal exit can be the first of all, because the clock of one host is exact.
  absl::flat_hash_map<std::string, int64_t> first_of;
  for (const HostEnd& end : ends) {
    if (!EndedBadly(*end.process) || after_ending(end)) continue;
    const auto [entry, fresh] = first_of.try_emplace(end.host, end.process->ended_mono_ns);
    if (!fresh) entry->second = std::min(entry->second, end.process->ended_mono_ns);
  }
  std::vector<size_t> candidates;
  int64_t least_high = INT64_MAX;
  for (size_t i = 0; i < ends.size(); ++i) {
    const auto of = first_of.find(ends[i].host);
    if (!EndedBadly(*ends[i].process) || after_ending(ends[i]) || of == first_of.end() ||
        ends[i].process->ended_mono_ns != of->second) {
      continue;
    }
    candidates.push_back(i);
    least_high = std::min(least_high, span_of(ends[i]).high);
  }
  for (size_t i : candidates) {
    if (span_of(ends[i]).low <= least_high) causes.push_back(i);
  }
  const auto by_launcher = [&](size_t i) {
    return ends[i].process->life == Life::kKilled && ends[i].process->signal == SIGTERM;
  };
  if (!std::all_of(causes.begin(), causes.end(), by_launcher)) std::erase_if(causes, by_launcher);

  std::vector<bool> is_cause(ends.size(), false);
  for (size_t i : causes) is_cause[i] = true;
  for (size_t i = 0; i < ends.size(); ++i) {
    Process& process = *ends[i].process;
    process.consequence = false;
    if (process.life == Life::kRunning || process.life == Life::kUnknown || is_cause[i]) continue;
    if (after_ending(ends[i])) {
      process.consequence = true;
      continue;
    }
    if (!EndedBadly(process) || causes.empty()) continue;
    bool later =
        least_high != INT64_MAX && span_of(ends[i]).low != INT64_MIN && span_of(ends[i]).low - least_high > kSecond;
    if (const auto of = first_of.find(ends[i].host);
        of != first_of.end() && causes.size() == 1 && ends[causes[0]].host == ends[i].host) {
      later = process.ended_mono_ns - of->second > kSecond;
    }
    const bool own =
        process.life == Life::kKilled && (facts.launcher ? CrashSignal(process.signal) : process.signal != SIGABRT);
    process.consequence = !own || !later;
  }
  return causes;
}

std::string EndText(const Process& process) {
  switch (process.life) {
    case Life::kRunning: return process.state.empty() ? "running" : absl::StrCat("running, state ", process.state);
    case Life::kExited: return absl::StrCat("exited ", process.exit_code);
    case Life::kKilled: return absl::StrCat("killed by signal ", process.signal, " (", strsignal(process.signal), ")");
    case Life::kGone: return "gone";
    case Life::kUnknown: break;
  }
  return "unknown";
}

}  // namespace lockstep
