#include "analyzer/report/state.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/report/phrases.h"

namespace lockstep {

const Rank* FindRank(const Bundle& bundle, int32_t rank) {
  auto it = std::lower_bound(bundle.ranks.begin(), bundle.ranks.end(), rank,
                             [](const Rank& a, int32_t b) { return a.rank < b; });
  return it != bundle.ranks.end() && it->rank == rank ? &*it : nullptr;
}

std::string ProcessText(const Process& process) {
  static const std::map<std::string, std::string> kLetters = {{"R", "running"},
                                                              {"S", "sleeping"},
                                                              {"D", "in uninterruptible sleep"},
                                                              {"T", "stopped"},
                                                              {"t", "stopped by a debugger"},
                                                              {"Z", "zombie: dead, not yet reaped"}};
  switch (process.life) {
    case Life::kKilled: return absl::StrCat("process killed by signal ", process.signal);
    case Life::kExited: return absl::StrCat("process exited ", process.exit_code);
    case Life::kGone: return "process gone";
    default: break;
  }
  std::string text;
  if (!process.state.empty()) {
    auto it = kLetters.find(process.state);
    text = absl::StrCat("process ", it == kLetters.end() ? "in state" : it->second, " (", Printable(process.state, 8),
                        ")");
    if (!process.wchan.empty() && process.wchan != "0")
      absl::StrAppend(&text, " in kernel function ", Printable(process.wchan, 64));
  }
  if (process.threads_in_d > 0) {
    absl::StrAppend(&text, text.empty() ? "process with " : ", ", process.threads_in_d,
                    process.threads_in_d == 1 ? " thread" : " threads", " in uninterruptible sleep (D)");
  }
  return text;
}

std::string HostText(const Rank& rank, bool with_time) {
  const ring::ThreadSnapshot* inside = nullptr;
  for (const ring::ThreadSnapshot& thread : rank.threads) {
    if (thread.call == ring::CallKind::kNone && thread.wait == ring::CallKind::kNone && thread.group_depth == 0)
      continue;
    if (inside == nullptr ||
        std::max(thread.since_ns, thread.wait_since_ns) > std::max(inside->since_ns, inside->wait_since_ns))
      inside = &thread;
  }
  if (inside == nullptr) return rank.threads.empty() ? "" : "no thread in an NCCL call";
  const bool call = inside->call != ring::CallKind::kNone;
  const bool wait = inside->wait != ring::CallKind::kNone;
  std::string text = call   ? absl::StrCat("thread inside nccl", ring::CallName(inside->call))
                     : wait ? absl::StrCat("thread inside ", ring::CallName(inside->wait))
                            : absl::StrCat("thread in an open group (depth ", inside->group_depth, ")");
  const int64_t since = call ? inside->since_ns : wait ? inside->wait_since_ns : inside->group_since_ns;
  // For an ended process the duration is unknown.
  if (with_time && since > 0 && rank.captured_ns > since && rank.process.life != Life::kGone)
    absl::StrAppend(&text, " for ", DurationText(rank.captured_ns - since));
  return text;
}

std::string RankStateText(const Rank& rank, bool with_time) {
  std::vector<std::string> parts;
  for (const std::string& text : {ProcessText(rank.process), HostText(rank, with_time)}) {
    if (!text.empty()) parts.push_back(text);
  }
  return absl::StrJoin(parts, "; ");
}

std::string MovingText(const Rank& rank) {
  const Process& process = rank.process;
  const int64_t cpu = process.cpu_ns_between_samples, io = process.io_bytes_between_samples;
  std::vector<std::string> parts;
  if (cpu >= 0) parts.push_back(absl::StrFormat("%.0f ms of CPU", static_cast<double>(cpu) / 1e6));
  if (io >= 0) parts.push_back(absl::StrCat(io, " bytes of I/O"));
  const bool sampled = !parts.empty();
  std::string text = absl::StrJoin(parts, ", ");
  if (sampled && process.sample_gap_ns > 0) absl::StrAppend(&text, " in ", DurationText(process.sample_gap_ns));
  const bool compared = !process.stack.empty() && !process.stack_later.empty();
  const bool same = compared && Frames(process.stack, 1) == Frames(process.stack_later, 1);
  if (compared)
    absl::StrAppend(&text, sampled ? ", " : "",
                    same ? "same frame in both samples" : "a different frame in the second sample");
  if (text.empty()) return "";
  // A helper thread uses little CPU; a spinning thread uses much and makes no progress.
  const bool computes = cpu > 0 && cpu >= process.sample_gap_ns / 100;
  const bool spins = same || (!compared && std::any_of(rank.threads.begin(), rank.threads.end(),
                                                       [](const ring::ThreadSnapshot& thread) {
                                                         return thread.wait != ring::CallKind::kNone;
                                                       }));
  const char* word = io > 0 || (compared && !same) ? "yes" : !computes ? "no" : spins ? "not seen" : "yes";
  return absl::StrCat(word, ": ", text, computes && spins && io <= 0 ? ": it may spin" : "");
}

std::vector<std::string> Frames(const std::vector<std::string>& stack, size_t limit) {
  std::vector<std::string> frames;
  for (const std::string& frame : stack) {
    if (frames.size() == limit) break;
    if (!IsSystemCallEntry(frame)) frames.push_back(Printable(WithoutOffset(frame), 160));
  }
  return frames;
}

std::vector<int64_t> WallClocksAhead(const Verdict& verdict, const Bundle& bundle) {
  constexpr int64_t kMost = INT64_MAX / 4;  // keeps sums of three in range
  absl::flat_hash_map<std::string, int64_t> zero;
  for (const Rank& rank : bundle.ranks) {
    zero.try_emplace(rank.host.empty() ? absl::StrCat("rank ", rank.rank) : rank.host,
                     std::clamp(rank.real_minus_mono_ns, -kMost, kMost));
  }
  std::vector<int64_t> ahead;
  int64_t first = 0;
  bool known = false;
  for (const ClockOffset& clock : verdict.clocks()) {
    auto it = zero.find(clock.host());
    const int64_t wall = (it == zero.end() ? 0 : it->second) - std::clamp(clock.offset_ns(), -kMost, kMost);
    if (!known && clock.uncertainty_ns() >= 0) first = wall, known = true;
    ahead.push_back(clock.uncertainty_ns() >= 0 ? wall - first : 0);
  }
  return ahead;
}

void MergedLines::Add(std::string text, int32_t rank) {
  if (text.empty()) return;
  auto [it, fresh] = index_.try_emplace(text, lines_.size());
  if (fresh) lines_.emplace_back(std::move(text), std::vector<int32_t>());
  lines_[it->second].second.push_back(rank);
}

std::vector<std::string> MergedLines::Lines(size_t total, size_t limit) const {
  std::vector<std::string> out;
  for (const auto& [text, ranks] : lines_)
    out.push_back(total == 1 ? text : absl::StrCat(ranks.size() == total ? "all" : RanksText(ranks), ": ", text));
  KeepFirst(limit, "", &out);
  return out;
}

}  // namespace lockstep
