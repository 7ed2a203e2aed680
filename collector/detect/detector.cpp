#include "collector/detect/detector.h"

#include <algorithm>

#include "analyzer/util/time_units.h"
#include "collector/detect/gap_history.h"

namespace lockstep {
namespace {

constexpr int64_t kLookAtMergedEvery = kSecond / 5;
constexpr int64_t kFirstRefresh = 5 * kSecond, kLastRefresh = 60 * kSecond;
constexpr uint32_t kMostQuickRounds = 10;
constexpr int64_t kRecoverySettle = kSecond;
constexpr int64_t kLookForRestartEvery = kSecond / 2;

}  // namespace

const char* LevelName(Level level) {
  switch (level) {
    case Level::kMoving: return "moving";
    case Level::kLate: return "late";
    case Level::kHung: return "hung";
    case Level::kRecovered: return "recovered";
  }
  return "unknown";
}

void Detector::Late(int64_t now, const LateInput& report) {
  if (report.over) {
    const auto found = late_.find(report.comm);
    if (found == late_.end()) return;
    found->second.hosts.erase(report.host);
    if (found->second.hosts.empty() && !found->second.merged) late_.erase(found);
    return;
  }
  const int64_t since = std::max(rebased_ns_, now - std::max<int64_t>(0, report.in_flight_ns));
  auto [entry, fresh] = late_.try_emplace(report.comm);
  LateState& late = entry->second;
  if (fresh) {
    late.input = report;
    late.since_ns = since;
    fresh_.push_back(report.comm);
  } else {
    late.since_ns = std::min(late.since_ns, since);
    if (late.hosts.empty() && late.input.doing.empty()) late.input.doing = report.doing;
    late.input.limit_ns = std::max(late.input.limit_ns, report.limit_ns);
  }
  late.hosts.insert(report.host);
}

void Detector::Ended(int64_t now, int32_t rank, EndKind kind) {
  if (!ended_.insert(rank).second || kind == EndKind::kWell) return;
  if (!any_ended_badly_ && EndFollows(now, rank, kind)) {
    // Counts from the time when the wait passed its limit: of several exits at once, any may be seen first.
    ended_wait_ns_ = StillFor(now, finding_, LongestWait(now));
    ends_follow_ns_ = now - ended_wait_ns_ + LimitOf(finding_.comm);
  }
  any_ended_badly_ = true;
  ended_badly_ns_ = now;
  gather_again_ = true;
  refresh_ns_ = 0;
}

void Detector::HostSilent(int64_t now, const std::string& host, int64_t silent_ns) {
  const bool fresh = silent_.try_emplace(host, now - silent_ns).second;
  // The host's processes are no longer observed, so the analysis may have to be repeated.
  if (fresh) gather_again_ = true;
}

void Detector::HostBack(const std::string& host) {
  if (silent_.erase(host) != 0) gather_again_ = true;
}

void Detector::Rebase(int64_t now) {
  rebased_ns_ = now;
  for (auto& [comm, late] : late_) late.since_ns = now;
  watched_.clear();
}

int64_t Detector::LimitOf(uint64_t comm) const {
  int64_t p99 = 0;
  if (const MergedComm* merged = progress_.Find(comm); merged != nullptr) p99 = merged->p99_gap_ns;
  int64_t limit = LearnedLimit(limits_.late_after, p99);
  if (const auto late = late_.find(comm); late != late_.end()) limit = std::max(limit, late->second.input.limit_ns);
  return limit;
}

void Detector::FillLimit(uint64_t comm, Decision* decision) const {
  decision->comm = comm;
  decision->limit_ns = LimitOf(comm);
  if (const MergedComm* merged = progress_.Find(comm); merged != nullptr) {
    decision->comm_name = merged->name;
    decision->p99_gap_ns = merged->p99_gap_ns;
    decision->gaps = merged->gaps;
  }
  if (const auto late = late_.find(comm); late != late_.end() && late->second.input.p99_gap_ns > decision->p99_gap_ns) {
    decision->p99_gap_ns = late->second.input.p99_gap_ns;
    decision->gaps = late->second.input.gaps;
  }
}

bool Detector::Warm(uint64_t comm) const {
  const MergedComm* merged = progress_.Find(comm);
  // Requires at least one gap, because a single graph launch issues many operations at once.
  return merged != nullptr && merged->total_max >= kWarmTotal && merged->gaps > 0;
}

void Detector::NoteMerged(int64_t now) {
  progress_.Tick(now);
  if (now - merged_looked_ns_ < kLookAtMergedEvery) return;
  merged_looked_ns_ = now;
  progress_.ForEachBehind([&](const MergedComm& merged) {
    const int64_t since = std::max(merged.behind_since_ns, rebased_ns_);
    if (now - since < limits_.late_after || now - since < LearnedLimit(limits_.late_after, merged.p99_gap_ns)) return;
    auto [entry, fresh] = late_.try_emplace(merged.id);
    LateState& late = entry->second;
    if (late.merged) return;
    late.merged = true;
    late.min_then = merged.issued_min;
    if (!fresh) return;
    late.since_ns = since;
    late.input.comm = merged.id;
    late.input.sequence = merged.issued_min + 1;
    late.input.limit_ns = LearnedLimit(limits_.late_after, merged.p99_gap_ns);
    late.input.p99_gap_ns = merged.p99_gap_ns;
    late.input.gaps = merged.gaps;
    fresh_.push_back(merged.id);
  });
  absl::erase_if(late_, [&](auto& entry) {
    LateState& late = entry.second;
    if (!late.merged) return false;
    const MergedComm* merged = progress_.Find(entry.first);
    if (merged != nullptr && merged->behind_since_ns != 0 && merged->issued_min == late.min_then) return false;
    late.merged = false;
    return late.hosts.empty();
  });
}

Decision Detector::LateDecision(int64_t now, uint64_t comm, const LateState& late) const {
  Decision decision;
  decision.level = Level::kLate;
  decision.at_ns = now;
  FillLimit(comm, &decision);
  decision.sequence = late.input.sequence;
  decision.age_ns = now - late.since_ns;
  decision.waiting = late.input.waiting;
  decision.missing = progress_.Missing(comm);
  if (decision.missing.empty()) decision.missing = late.input.missing;
  decision.doing = late.input.doing;
  decision.rule = late.hosts.empty() ? "behind" : "in flight";
  decision.reason = late.hosts.empty() ? "members have not called an operation that others have called"
                                       : "in flight for longer than usual";
  return decision;
}

void Detector::EndEpisode(int64_t now) {
  level_ = Level::kMoving;
  since_ns_ = now;
  found_ = gather_again_ = false;
  gathered_ns_ = judge_again_ns_ = refresh_ns_ = 0;
  moved_again_ns_ = restarted_ns_ = 0;
  told_ = untold_ = judged_rounds_ = 0;
  watched_.clear();
}

std::vector<Decision> Detector::Tick(int64_t now) {
  NoteMerged(now);
  std::vector<Decision> decisions;
  for (const uint64_t comm : fresh_) {
    const auto late = late_.find(comm);
    if (late == late_.end()) continue;
    if (told_ >= kToldLates) {
      ++untold_;
      continue;
    }
    ++told_;
    decisions.push_back(LateDecision(now, comm, late->second));
  }
  fresh_.clear();
  if (level_ == Level::kHung) {
    std::optional<Decision> over = LookForRecovery(now);
    if (!over) over = LookForRestart(now);
    if (over) decisions.push_back(std::move(*over));
    return decisions;
  }
  if (!late_.empty()) {
    if (level_ == Level::kMoving) {
      level_ = Level::kLate;
      since_ns_ = now;
    }
  } else if (level_ == Level::kLate) {
    Decision over;
    over.level = Level::kRecovered;
    over.at_ns = now;
    over.age_ns = now - since_ns_;
    over.more = untold_;
    over.rule = "late";
    over.reason = "no rank is waiting longer than its limit now";
    EndEpisode(now);
    decisions.push_back(std::move(over));
  }
  return decisions;
}

int64_t Detector::LongestWait(int64_t now) const {
  int64_t longest = 0;
  for (const auto& [comm, late] : late_) longest = std::max(longest, now - late.since_ns);
  progress_.ForEachBehind([&](const MergedComm& merged) {
    longest = std::max(longest, now - std::max(merged.behind_since_ns, rebased_ns_));
  });
  return longest;
}

bool Detector::Suspicious(int64_t now) const {
  if (!late_.empty() || urgent()) return true;
  if (ended_badly_ns_ != 0 && now - ended_badly_ns_ >= limits_.dead_settle) return true;
  return !ended_.empty() && LongestWait(now) >= limits_.dead_settle;
}

Wish Detector::Wanted(int64_t now) const {
  Wish wish;
  if (level_ == Level::kHung || !Suspicious(now)) return wish;
  int64_t moved_ns = 0;
  if (found_) {
    for (const uint64_t comm : finding_.comms) {
      const MergedComm* merged = progress_.Find(comm);
      if (merged != nullptr) moved_ns = std::max(moved_ns, merged->moved_ns);
    }
  }
  // The named ranks have moved and are stuck again, so the finding is outdated.
  const bool stale = moved_ns > gathered_ns_ && now - moved_ns >= limits_.late_after / 5 * 4;
  const bool unclear = found_ && finding_.kind == FINDING_UNSPECIFIED && judged_rounds_ < kMostQuickRounds;
  const int64_t since = now - gathered_ns_;
  if (gathered_ns_ == 0 || since >= std::max(refresh_ns_, kSecond / 2) ||
      (since >= limits_.sample_gap && (stale || gather_again_ || unclear))) {
    wish.digests = true;
  } else if (found_ && now >= judge_again_ns_) {
    for (const RootView& root : finding_.roots) {
      if (root.known && !root.ended && root.silent_ns < limits_.silent_after) wish.samples.push_back(root.rank);
    }
  }
  return wish;
}

Decision Detector::Judge(int64_t now, const RootFinding& finding, bool all_ranks) {
  Decision decision = Consider(now, finding);
  ended_wait_ns_ = 0;
  finding_ = finding;
  found_ = true;
  // If the decision depends only on time, judges again at that time. If the data is old, that may be at once.
  const int64_t old = finding.as_of_ns > 0 ? std::max<int64_t>(0, now - finding.as_of_ns) : 0;
  const int64_t limit =
      decision.next_limit_ns > 0 ? std::min(decision.limit_ns, decision.next_limit_ns) : decision.limit_ns;
  const int64_t lacking = limit - decision.age_ns - old;
  if (old >= limits_.sample_gap) {
    judge_again_ns_ = now + std::clamp<int64_t>(lacking, 0, limits_.sample_gap);
  } else {
    judge_again_ns_ = now + (lacking > 0 ? std::clamp(lacking, kSecond / 10, limits_.sample_gap) : limits_.sample_gap);
  }
  if (all_ranks) {
    ++judged_rounds_;
    gathered_ns_ = now;
    gather_again_ = false;
    refresh_ns_ = std::clamp(2 * refresh_ns_, ended_badly_ns_ != 0 ? kSecond / 2 : kFirstRefresh, kLastRefresh);
    // There is no root to sample, so only new digests can show whether anything moved in the meantime.
    if (finding.roots.empty() && finding.blocked_ns >= 0) refresh_ns_ = std::clamp<int64_t>(lacking, 0, refresh_ns_);
    // The data shows no rank that waits for the exited process, so the job is ending, or will become late.
    if (ended_badly_ns_ != 0 && now - ended_badly_ns_ > 4 * kSecond && finding.waited_ns == 0) ended_badly_ns_ = 0;
  }
  if (!decision.hung()) return decision;
  level_ = Level::kHung;
  since_ns_ = now;
  declared_ = decision;
  ended_then_ = ended_.size();
  ended_badly_ns_ = 0;
  moved_again_ns_ = restarted_ns_ = 0;
  stall_began_ns_ = now - decision.age_ns;
  return decision;
}

Decision Detector::Recovered(int64_t now, int64_t moved_ns, const char* rule, const char* reason) {
  Decision decision = declared_;
  decision.level = Level::kRecovered;
  decision.at_ns = now;
  decision.age_ns = moved_ns - stall_began_ns_;
  decision.more = untold_;
  decision.rule = rule;
  decision.reason = reason;
  EndEpisode(now);
  return decision;
}

std::optional<Decision> Detector::LookForRecovery(int64_t now, int64_t progress_ns) {
  if (level_ != Level::kHung) return std::nullopt;
  int64_t last = progress_ns;
  if (last == INT64_MIN) {
    for (const uint64_t comm : finding_.comms) {
      const MergedComm* merged = progress_.Find(comm);
      if (merged != nullptr) last = std::max(last, merged->moved_ns);
    }
  }
  // Exited processes and destroyed communicators also count as movement, but not as recovery.
  if (last <= since_ns_ || ended_.size() != ended_then_) return std::nullopt;
  if (moved_again_ns_ == 0) moved_again_ns_ = last;
  if (now - moved_again_ns_ < kRecoverySettle || last <= moved_again_ns_) return std::nullopt;
  learned_ = std::max(learned_, 2 * (moved_again_ns_ - stall_began_ns_));
  return Recovered(now, moved_again_ns_, "hung", "the job is moving again");
}

// Returns a decision if the involved ranks have created communicators and continue in those. The old ones belong to an
// earlier generation in the same processes and never move again, whether destroyed or not. The creation alone is not
// enough, because it may hang, too.
std::optional<Decision> Detector::LookForRestart(int64_t now) {
  if (level_ != Level::kHung || now - restart_looked_ns_ < kLookForRestartEvery) return std::nullopt;
  restart_looked_ns_ = now;
  int64_t last = 0;
  progress_.ForEach([&](const MergedComm& merged) {
    if (merged.met_ns <= since_ns_ || merged.total_max == 0 || merged.moved_ns <= std::max(since_ns_, last)) return;
    const std::vector<int32_t> members = progress_.Members(merged.id).List();
    const bool theirs = finding_.involved.empty() || std::any_of(members.begin(), members.end(), [&](int32_t rank) {
                          return std::binary_search(finding_.involved.begin(), finding_.involved.end(), rank);
                        });
    if (theirs) last = merged.moved_ns;
  });
  if (last == 0) return std::nullopt;
  if (restarted_ns_ == 0) restarted_ns_ = last;
  if (now - restarted_ns_ < kRecoverySettle || last <= restarted_ns_) return std::nullopt;
  return Recovered(now, restarted_ns_, "restart",
                   "its ranks continue in new communicators: they restarted inside their processes");
}

}  // namespace lockstep
