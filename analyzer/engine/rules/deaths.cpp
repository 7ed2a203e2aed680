#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/exits.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"
#include "proto/process.pb.h"

namespace lockstep {

namespace {

// Returns the kernel log's line about the end of this process; null if there is none.
const HardwareEvent* KernelOnEndOf(const Rank& rank) {
  constexpr int64_t kNear = 30'000'000'000;  // a core dump or a busy log delays the line
  const ProcessEvidence* evidence = rank.process.evidence.get();
  if (evidence == nullptr || rank.pid <= 0 || rank.process.life != Life::kKilled) return nullptr;
  const HardwareEvent* found = nullptr;
  for (const HardwareEvent& event : evidence->hardware()) {
    const bool out_of_memory = event.kind() == HardwareEvent::OUT_OF_MEMORY;
    if (event.pid() != rank.pid || out_of_memory != (rank.process.signal == SIGKILL) ||
        (!out_of_memory && event.kind() != HardwareEvent::CRASH))
      continue;
    // The kernel reuses PIDs.
    if (rank.process.ended_mono_ns != 0 && evidence->taken_ns() != 0 &&
        std::abs(evidence->taken_ns() - event.age_ns() - rank.process.ended_mono_ns) > kNear)
      continue;
    found = &event;
  }
  return found;
}

}  // namespace

Cause DeathCause(const Facts& facts, int32_t rank_index) {
  const Rank& rank = facts.bundle.ranks[rank_index];
  Cause c = CauseOf(RANK_DEAD, REASON_UNSPECIFIED, GRADE_RECORDED, {rank_index});
  switch (rank.process.life) {
    case Life::kKilled:
      c.reason = REASON_KILLED;
      c.Number(rank.process.signal);
      break;
    case Life::kExited:
      c.reason = REASON_EXITED;
      c.Number(rank.process.exit_code);
      if (!rank.process.exception.empty()) c.Name(rank.process.exception);
      break;
    default:
      c.reason = REASON_GONE;
      c.grade = GRADE_GOOD;
      c.detail.set_flag(EndedWell(rank));
  }
  if (const HardwareEvent* event = KernelOnEndOf(rank); event != nullptr) {
    c.Add(Evidence::KERNEL_LOG, {rank_index}).Name(event->text());
    if (event->kind() == HardwareEvent::OUT_OF_MEMORY) c.reason = REASON_KILLED_FOR_MEMORY;
  } else if (rank.process.life == Life::kKilled && rank.process.signal == SIGKILL && rank.process.evidence != nullptr &&
             rank.process.evidence->hardware_unread().empty()) {
    c.Flag(true);
  }
  // If the record of what this rank was doing is lost, a watchdog may have aborted the process because of another rank.
  const bool in_own_code = !rank.threads.empty() && !EndedWaiting(rank);
  const bool unrecorded = rank.damaged || (IsFramework(rank) && rank.memberships.empty());
  if (unrecorded && !in_own_code && rank.process.life == Life::kKilled && rank.process.signal == SIGABRT) {
    c.grade = GRADE_WEAK;
    c.doubtful = true;
    c.AddRival(Rival::WATCHDOG);
  }
  // The last call of the process, from records that outlive the process.
  const Op* last = nullptr;
  for (const Op& op : rank.ops) {
    if (op.membership == kNoIndex || op.recent_only) continue;
    if (last == nullptr || op.enter_ns > last->enter_ns) last = &op;
  }
  if (last != nullptr) {
    EvidenceItem& call = c.Add(Evidence::LAST_CALL, {rank_index}).On(facts.bundle, facts.model.CommOf(rank, *last));
    call.fields.set_operation(OpText(facts.bundle, rank, *last));
  }
  for (size_t s = 0; s < rank.streams.size(); ++s) {
    const ring::StreamSnapshot& stream = rank.streams[s];
    if (stream.late_completed == 0) continue;
    const Op* newest = nullptr;
    for (const Op& op : rank.ops) {
      if (op.stream != s || op.membership == kNoIndex || op.ticket <= 0 ||
          static_cast<uint64_t>(op.ticket) > stream.completed)
        continue;
      if (static_cast<uint64_t>(op.ticket) <= stream.completed - stream.late_completed) continue;
      if (newest == nullptr || op.ticket > newest->ticket) newest = &op;
    }
    EvidenceItem& late = c.Add(Evidence::LATE_ON_GPU, {rank_index}).Count(stream.late_completed);
    if (newest != nullptr) late.Call(CallNamed(OpText(facts.bundle, rank, *newest), ""));
  }
  return c;
}

std::vector<Cause> FromDeaths(const Facts& facts, const std::vector<Cause>& known) {
  // If a cause is known, a later death is a consequence of that cause. A doubtful cause, or a rank without data, is not
  // such a cause. Where only processes are known, FromStacks compares ends with what the other ranks are doing.
  const auto no_data = [](const Cause& c) { return c.kind == RANK_NO_DATA || c.doubtful; };
  if (!std::ranges::all_of(known, no_data) || ProcessesLookedAt(facts.bundle)) return {};
  const auto host_of = [](const Rank& rank) { return absl::StrCat(rank.host, "/", rank.boot_id); };
  std::map<std::string, int32_t> first;  // first end on each host, whose clock orders them
  for (size_t r = 0; r < facts.bundle.ranks.size(); ++r) {
    const Rank& rank = facts.bundle.ranks[r];
    const Process& p = rank.process;
    // A log shows an exception or a crash, or that peers lost the process. Any other end may be a consequence of what a
    // rank without data did.
    const bool crashed = p.life == Life::kKilled && p.signal != SIGABRT;
    const bool told = IsFramework(rank) && (!p.exception.empty() || p.life == Life::kGone || crashed);
    const bool ended = p.life == Life::kKilled || (p.life == Life::kExited && p.exit_code != 0);
    const bool abnormal = told || (ended && known.empty());
    if (!abnormal || facts.model.ranks[r].host != HostState::kDead) continue;
    auto [it, fresh] = first.try_emplace(host_of(rank), static_cast<int32_t>(r));
    if (!fresh && p.ended_mono_ns < facts.bundle.ranks[it->second].process.ended_mono_ns)
      it->second = static_cast<int32_t>(r);
  }
  if (first.empty()) return {};
  std::vector<int32_t> ranks;
  for (size_t i = 0; i < facts.bundle.ranks.size(); ++i) {
    const auto it = first.find(host_of(facts.bundle.ranks[i]));
    if (it == first.end()) continue;
    const Process &p = facts.bundle.ranks[i].process, &one = facts.bundle.ranks[it->second].process;
    const bool also = p.life == Life::kKilled && one.life == Life::kKilled && p.signal == one.signal &&
                      one.ended_mono_ns > 0 && std::abs(p.ended_mono_ns - one.ended_mono_ns) < kEndedTogether;
    if (also || static_cast<int32_t>(i) == it->second) ranks.push_back(static_cast<int32_t>(i));
  }
  Cause c = DeathCause(facts, ranks[0]);
  if (ranks.size() > 1) {
    c.ranks = ranks;
    c.grade = GRADE_OPEN;
    c.Add(Evidence::FIRST_TO_END, ranks);
  }
  return {c};
}

void DoubtKillsOnSeveralHosts(const Bundle& bundle, std::vector<Cause>* causes) {
  for (Cause& c : *causes) {
    if (c.kind != RANK_DEAD || c.reason != REASON_KILLED || c.detail.number() != SIGKILL) continue;
    const auto elsewhere = [&](int32_t r) { return bundle.ranks[r].host != bundle.ranks[c.ranks[0]].host; };
    if (std::ranges::any_of(c.ranks, elsewhere)) c.grade = std::min(c.grade, GRADE_OPEN);
  }
}

std::vector<Cause> FromAsyncErrors(const Facts& facts) {
  const Membership* first = nullptr;
  int32_t first_rank = -1;
  int64_t first_at = 0;
  for (size_t r = 0; r < facts.bundle.ranks.size(); ++r) {
    for (const Membership& ms : facts.bundle.ranks[r].memberships) {
      if (ms.async_error == 0) continue;
      const int64_t at = ms.recorded->async_error_ns + facts.bundle.ranks[r].real_minus_mono_ns;
      if (first == nullptr || at < first_at) first = &ms, first_rank = static_cast<int32_t>(r), first_at = at;
    }
  }
  if (first == nullptr) return {};
  Cause c = CauseOf(ASYNC_ERROR, REASON_UNSPECIFIED, GRADE_OPEN, {first_rank});
  c.comm = first->comm;
  constexpr int32_t kNcclUnhandledCudaError = 1;
  c.Name(CommText(facts.bundle, first->comm));
  if (first->async_error == kNcclUnhandledCudaError) {
    c.cause = "gpu";
    c.reason = REASON_CUDA_ERROR_REPORTED;
  } else {
    c.reason = REASON_ERROR_REPORTED;
    c.Number(first->async_error);
  }
  return {std::move(c)};
}

}  // namespace lockstep
