#include "analyzer/engine/not_seen.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/util/nccl_version.h"
#include "analyzer/util/rank_text.h"

namespace lockstep {

Detail* AddNotSeen(NotSeen::Kind kind, const std::vector<int32_t>& ranks, Verdict* verdict) {
  NotSeen* not_seen = verdict->add_not_seen();
  not_seen->set_kind(kind);
  not_seen->mutable_detail()->mutable_ranks()->Assign(ranks.begin(), ranks.end());
  return not_seen->mutable_detail();
}

std::vector<int32_t> SayWhatWasRefused(const Bundle& bundle, Verdict* verdict) {
  std::vector<int32_t> refused;
  std::string why;
  for (const Rank& rank : bundle.ranks) {
    if (PlaceOfProcess(rank.process).where != Whereabouts::kUnknown || !rank.process.python_stack.empty()) continue;
    refused.push_back(rank.rank);
    if (why.empty()) why = rank.process.stack_refused;
  }
  if (!refused.empty()) {
    Detail* detail = AddNotSeen(NotSeen::STACKS_REFUSED, refused, verdict);
    if (!why.empty()) detail->set_name(why);
  }
  return refused;
}

namespace {

constexpr int kMostPlaces = 4;

// For a verdict that names no rank, in a job without recorded calls: adds what stacks cannot show.
void SayWhatStacksLeaveOpen(const Bundle& bundle, Verdict* verdict) {
  verdict->set_verdict(VERDICT_INCOMPLETE_DATA);
  std::vector<int32_t> moved, stopped;
  for (const Rank& rank : bundle.ranks) {
    const ProcessPlace place = PlaceOfProcess(rank.process);
    if (place.moved || place.works) moved.push_back(rank.rank);
    if (place.where == Whereabouts::kStopped) stopped.push_back(rank.rank);
  }
  if (!stopped.empty()) AddNotSeen(NotSeen::RANKS_STOPPED, stopped, verdict);
  if (!moved.empty()) AddNotSeen(NotSeen::RANKS_MOVING, moved, verdict);
  if (SayWhatWasRefused(bundle, verdict).size() == bundle.ranks.size()) return;
  std::map<std::string, std::vector<int32_t>> places;
  for (const Rank& rank : bundle.ranks) {
    if (std::string place = InnermostOf(rank); !place.empty()) places[std::move(place)].push_back(rank.rank);
  }
  Detail* detail = AddNotSeen(NotSeen::ONLY_STACKS, {}, verdict);
  for (const auto& [place, ranks] : places) {
    if (detail->members_size() == kMostPlaces) {
      detail->add_members(absl::StrCat(places.size() - kMostPlaces, " more places"));
      break;
    }
    detail->add_members(absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", FoldRanks(ranks), " ", place));
  }
}

// For a verdict that names no rank: adds that the data does not show whether the job still runs. Unless `doubted` is
// set, adds nothing if a rank made a call shortly before its data was taken.
void SayWhetherItRuns(const std::vector<Rank>& ranks, bool doubted, Verdict* verdict) {
  constexpr int64_t kMoves = 2'000'000'000;  // a running job calls NCCL more often than this
  int64_t least = INT64_MAX;                 // age of the newest record
  int64_t unmarked = 0;
  for (const Rank& rank : ranks) {
    unmarked += !IsFramework(rank) && rank.gpu_marks == ring::GpuMarks::kOff;
    if (rank.captured_ns == 0) continue;
    int64_t newest = 0;
    for (const Op& op : rank.ops) newest = std::max(newest, op.enter_ns);
    least = std::min(least, rank.captured_ns - newest);
  }
  if (least <= kMoves && !doubted) return;
  verdict->set_verdict(VERDICT_INCOMPLETE_DATA);
  Detail* detail = AddNotSeen(NotSeen::STILL_RUNNING, {}, verdict);
  if (least > kMoves && least != INT64_MAX) detail->set_duration_ns(least);
  if (unmarked > 0) detail->set_count(unmarked);
}

}  // namespace

void SayWhatIsNotSeen(const Model& model, int64_t late_after_ns, Verdict* verdict) {
  const std::vector<Rank>& ranks = model.bundle.ranks;
  if (OnlyProcessesKnown(model.bundle)) return SayWhatStacksLeaveOpen(model.bundle, verdict);
  if (ranks.size() < 2) return;
  const bool frameworks = std::ranges::all_of(ranks, IsFramework);
  if (frameworks && std::ranges::none_of(ranks, HasCalls)) {
    verdict->set_verdict(VERDICT_INCOMPLETE_DATA);
    AddNotSeen(NotSeen::NO_CALL_IN_DUMPS, {}, verdict);
    return;
  }
  if (frameworks && model.bundle.known_stalled) AddNotSeen(NotSeen::CREATIONS, {}, verdict);
  if (frameworks && !model.bundle.known_stalled && verdict->verdict() == VERDICT_HEALTHY) {
    bool retired = true;  // on all ranks: completions are not recorded, and no operation is watched
    for (const Rank& rank : ranks) {
      retired &= rank.ends_untold && std::ranges::all_of(rank.ops, [](const Op& op) { return op.retired; });
    }
    SayWhetherItRuns(ranks, retired, verdict);
  }
  const bool lives = std::ranges::any_of(ranks, [](const Rank& r) { return !EndedWell(r); });
  if (model.bundle.known_stalled && lives && verdict->verdict() == VERDICT_HEALTHY)
    SayWhetherItRuns(ranks, true, verdict);
  // Without GPU progress markers, finished and endless operations look the same. Only the CPU threads' waiting time
  // distinguishes them.
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < ranks.size(); ++i) {
    least = std::min(least, WaitedForUnseenWork(ranks[i], model.ranks[i]));
  }
  if (least < std::max<int64_t>(late_after_ns, 0)) return;
  verdict->set_verdict(model.bundle.known_stalled ? VERDICT_HUNG : VERDICT_LATE);
  AddNotSeen(NotSeen::GPUS_WITHOUT_MARKS, {}, verdict)->set_duration_ns(least);
}

void SayWhatIsNotWrapped(const Bundle& bundle, Verdict* verdict) {
  constexpr size_t kMostLibraries = 4;
  constexpr int kMostNames = 6;
  std::map<std::tuple<int32_t, int32_t, uint32_t, std::string>, std::vector<int32_t>> libraries;
  for (const Rank& rank : bundle.ranks) {
    if (rank.newest_nccl <= 0 || rank.nccl_version <= 0) continue;
    if (rank.nccl_version > rank.newest_nccl || rank.unwrapped > 0)
      libraries[{rank.nccl_version, rank.newest_nccl, rank.unwrapped, rank.unwrapped_names}].push_back(rank.rank);
  }
  size_t said = 0;
  for (const auto& [library, ranks] : libraries) {
    if (said++ == kMostLibraries) break;
    const auto& [version, newest, unwrapped, text] = library;
    Detail* detail = AddNotSeen(NotSeen::NOT_WRAPPED, ranks, verdict);
    detail->set_name(NcclVersionText(version));
    if (version > newest) detail->set_other_name(NcclVersionText(newest));
    detail->set_count(unwrapped);
    for (const absl::string_view name : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
      if (unwrapped > 0 && detail->members_size() < kMostNames) detail->add_members(std::string(name));
    }
  }
}

void SayWhatHadNoRoom(const std::vector<Rank>& ranks, Verdict* verdict) {
  std::map<uint64_t, std::vector<int32_t>> small;  // indexed by the ring's size
  std::vector<int32_t> in_memory;
  for (const Rank& rank : ranks) {
    if (rank.ring_place == ring::RingPlace::kMemory) {
      in_memory.push_back(rank.rank);
    } else if (rank.ring_bytes > 0 && rank.ring_bytes < rank.wanted_ring_bytes) {
      small[rank.ring_bytes].push_back(rank.rank);
    }
  }
  for (const auto& [bytes, of] : small)
    AddNotSeen(NotSeen::RING_SMALL, of, verdict)->set_number(static_cast<int64_t>(bytes));
  if (!in_memory.empty()) AddNotSeen(NotSeen::RING_IN_MEMORY, in_memory, verdict);
}

}  // namespace lockstep
