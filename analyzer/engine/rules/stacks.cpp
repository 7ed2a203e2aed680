// Handles jobs in which most ranks wait, and a few delay them: these have ended, are stopped, or are at a different
// place in the program. No calls are known, or the known calls show nothing certain.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/activity.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/util/sorted.h"

namespace lockstep {
namespace {

// One rank against the others is enough. For several ranks, at least three times as many must wait.
bool AreFew(size_t few, size_t most) { return few > 0 && (few == 1 ? most > 0 : few * kManyAgainstOne <= most); }

// Returns the frame at this depth below the outermost one; empty if the stack is shorter.
std::string FrameAt(const Rank& rank, size_t depth) {
  const std::vector<std::string>& stack = rank.process.python_stack;
  return depth < stack.size() ? std::string(WithoutOffset(stack[stack.size() - 1 - depth])) : "";
}

// Returns text like "in qkv_proj (model.py:245) < forward (model.py:300)".
std::string CodeAt(const Rank& rank, size_t depth) {
  const std::string outer = depth == 0 ? "" : FrameAt(rank, depth - 1);
  const std::string inner = FrameAt(rank, depth);
  if (inner.empty()) return absl::StrCat("in ", outer, " itself");
  return absl::StrCat("in ", inner, outer.empty() ? "" : absl::StrCat(" < ", outer));
}

std::string Function(const std::string& frame) { return ParseFrame(frame).function(); }

// Where stacks diverge, seen from the outermost frame: most ranks on one side, the rest on the other. Both are empty if
// all stacks are equal.
struct Parting {
  size_t depth = 0;
  std::vector<int32_t> most, few;
};

Parting WhereTheyPart(const Bundle& bundle, const std::vector<int32_t>& ranks) {
  size_t deepest = 0;
  for (const int32_t r : ranks) deepest = std::max(deepest, bundle.ranks[r].process.python_stack.size());
  Parting out;
  for (; out.depth < deepest; ++out.depth) {
    std::map<std::string, std::vector<int32_t>> classes;
    for (const int32_t r : ranks) classes[FrameAt(bundle.ranks[r], out.depth)].push_back(r);
    if (classes.size() < 2) continue;
    const auto largest = std::ranges::max_element(classes, {}, [](const auto& x) { return x.second.size(); });
    for (const auto& [frame, members] : classes) {
      if (frame != largest->first) Append(members, &out.few);
    }
    out.most = std::move(largest->second);
    std::ranges::sort(out.few);
    return out;
  }
  return out;
}

// Returns whether the stack diverges from the others inside a library's call, and has no frame of the program's own
// code from this depth inwards.
bool PartInsideCall(const Rank& rank, size_t depth) {
  const auto frames = ParseFrames(rank.process.python_stack);
  return CodeFrame(frames) + static_cast<int>(depth) > frames.size();
}

// Returns the function of torch.distributed that the rank is in, if it is a collective; otherwise empty.
std::string CollectiveOf(const Rank& rank) {
  constexpr std::string_view kCollectives[] = {"all_",      "reduce", "_all_gather", "_reduce_scatter",
                                               "broadcast", "gather", "scatter",     "barrier"};
  const Frame frame = ParseFrame(WithoutOffset(rank.process.python_stack[0]));
  const bool collective =
      absl::StrContains(frame.file(), "distributed") && std::ranges::any_of(kCollectives, [&](std::string_view begin) {
        return std::string_view(frame.function()).starts_with(begin);
      });
  return collective ? frame.function() : "";
}

std::string CodePlaceOf(const Process& process) {
  const std::string place = CodePlace(ParseFrames(process.stack.empty() ? process.python_stack : process.stack));
  return place.empty() ? "not waiting for a peer" : absl::StrCat("in ", PlaceText(place));
}

// Fills `c` with the ranks that delay the job and the ranks that wait for them.
void SetHolders(const Facts& facts, const std::vector<int32_t>& few, const std::vector<int32_t>& waiting, Cause* c) {
  c->ranks = few;
  c->waiting = waiting;
  if (c->reason == REASON_ELSEWHERE_OTHERS_WAIT) {
    const Process& first = facts.bundle.ranks[few[0]].process;
    c->Name(CodePlaceOf(first)).Count(waiting.size());
    c->stall = ClassifyActivity(first).stall;
  }
  for (size_t i = 0; i < few.size() && i < kManyAgainstOne; ++i) AddHostEvidence(facts, few[i], c);
}

using Ranks = std::vector<int32_t>;

template <typename Holds>
bool AnyOf(const Ranks& ranks, Holds holds) {
  return std::ranges::any_of(ranks, holds);
}

// A job of which only processes are known, and where each process is.
class ByStacks {
 public:
  explicit ByStacks(const Facts& facts) : facts_(facts), bundle_(facts.bundle) {
    for (const Rank& rank : bundle_.ranks) {
      const auto r = static_cast<int32_t>(places_.size());
      places_.push_back(PlaceOfProcess(rank.process));
      at_[places_.back().where].push_back(r);
      if (!rank.process.python_stack.empty()) stacks_.push_back(r);
    }
  }

  // Returns the few ranks that have ended, are stopped or are in no wait, while the others wait. If all wait, returns
  // the few ranks without data.
  std::vector<Cause> FromProcesses() {
    constexpr Grade kStopped = GRADE_GOOD, kOne = GRADE_FAIR, kUnsure = GRADE_WEAK, kMoving = GRADE_OPEN;
    const Ranks& waiting = at_[Whereabouts::kWaits];
    // A wait ended between the two samples, so the job is running.
    if (waiting.empty() || Any(&ProcessPlace::moved, waiting)) return {};
    for (const Whereabouts where : {Whereabouts::kEnded, Whereabouts::kStopped, Whereabouts::kElsewhere}) {
      const Ranks& few = at_[where];
      if (few.empty()) continue;
      if (!AreFew(few.size(), waiting.size())) return {};
      const Rank& first = bundle_.ranks[few[0]];
      Cause c = where == Whereabouts::kEnded     ? DeathCause(facts_, few[0])
                : where == Whereabouts::kStopped ? CauseOf(HOST_STALL, REASON_PROCESS_STOPPED, kStopped)
                                                 : CauseOf(HOST_STALL, REASON_ELSEWHERE_OTHERS_WAIT, kOne);
      if (where == Whereabouts::kEnded) c.grade = kOne;
      const bool once = where == Whereabouts::kElsewhere && !Any(&ProcessPlace::twice, few);
      // A rank may also end, or be stopped in a debugger, because another rank delays the job.
      const bool others = (where != Whereabouts::kElsewhere && !at_[Whereabouts::kElsewhere].empty()) ||
                          (where == Whereabouts::kEnded && !at_[Whereabouts::kStopped].empty()) ||
                          first.process.state == "t";
      if (few.size() > 1 || waiting.size() == 1 || once || Unseen() || others || !at_[Whereabouts::kUnknown].empty())
        c.grade = kUnsure;
      if (Unseen()) c.AddRival(Rival::SILENT_RANK);
      if (where == Whereabouts::kStopped) c.Name(first.process.state);
      if (where == Whereabouts::kElsewhere) {
        c.moving = Any(&ProcessPlace::moved, few);
        // These ranks are computing, and so are the ranks that wait for them, so the job may be running.
        if (c.moving && Any(&ProcessPlace::works, waiting)) return {};
        if (c.moving) c.grade = kMoving;
      }
      SetHolders(facts_, few, waiting, &c);
      std::map<std::string, size_t> waits;
      for (const int32_t r : waiting) ++waits[places_[r].wait];
      const auto usual = std::ranges::max_element(waits, {}, [](const auto& x) { return x.second; });
      c.Add(Evidence::STACKS_WAIT, waiting)
          .CountOf(usual->second, bundle_.ranks.size())
          .Name(usual->first)
          .Flag(Any(&ProcessPlace::twice, waiting));
      return {std::move(c)};
    }
    // All observed ranks wait, and few ranks were not observed, so those are the first place to look.
    Ranks unseen = RanksWithoutData(bundle_, waiting.size() + 1);
    if (waiting.size() < bundle_.ranks.size() || !AreFew(unseen.size(), waiting.size())) return {};
    Cause c = CauseOf(RANK_NO_DATA, REASON_NO_DATA_ALL_OTHERS_WAIT, GRADE_GUESS);
    c.Count(waiting.size());
    c.hypothesis = true;
    c.missing = std::move(unseen);
    c.waiting = waiting;
    return {std::move(c)};
  }

  // Returns the few ranks whose stacks are at a different place in the program.
  std::vector<Cause> FromParting() const {
    const Parting parting = WhereTheyPart(bundle_, stacks_);
    if (Any(&ProcessPlace::moved, parting.most)) return {};
    if (AreHalves(parting)) return FromHalves();
    // Among three ranks, one may be the odd one; among more, at most a quarter may be.
    if (parting.most.size() < 2 || !AreFew(parting.few.size(), parting.most.size())) return {};
    const auto elsewhere = [&](int32_t r) { return places_[r].where == Whereabouts::kElsewhere; };
    if (!AnyOf(parting.few, elsewhere)) {
      // No rank of the majority waits, so none waits for the few.
      if (std::ranges::all_of(parting.most, elsewhere)) return {};
      // All ranks made the same call and are in different parts of it. The call may treat one rank differently from the
      // others, unless they are in different collectives.
      const std::string usual = CollectiveOf(bundle_.ranks[parting.most[0]]);
      if (std::ranges::all_of(parting.few, [&](int32_t r) {
            const std::string own = CollectiveOf(bundle_.ranks[r]);
            return PartInsideCall(bundle_.ranks[r], parting.depth) && (own.empty() || usual.empty() || own == usual);
          }))
        return {};
    }
    const Rank &odd = bundle_.ranks[parting.few[0]], &usual = bundle_.ranks[parting.most[0]];
    const std::string call = Function(usual.process.python_stack[0]);
    const bool same_call = Function(odd.process.python_stack[0]) == call;
    Cause c = CauseOf(same_call ? RANK_NOT_ARRIVED : HOST_STALL, REASON_ELSEWHERE_BY_STACK, GRADE_OPEN, parting.few);
    if (same_call) c.cause = "code mismatch", c.op_name = call;
    c.waiting = parting.most;
    c.moving = Any(&ProcessPlace::moved, parting.few);
    const bool unseen = bundle_.ranks_expected > static_cast<int32_t>(stacks_.size());
    if (parting.few.size() == 1 && !c.moving && !unseen) c.grade = GRADE_FAIR;
    if (unseen) c.AddRival(Rival::SILENT_RANK);
    // If the innermost places also differ, they show more than the place where the stacks diverge.
    const std::string innermost = InnermostOf(usual);
    const bool alike = !AnyOf(parting.most, [&](int32_t r) { return InnermostOf(bundle_.ranks[r]) != innermost; });
    const bool show = alike && InnermostOf(odd) != innermost;
    const auto place_of = [&](int32_t r) {
      return show ? InnermostOf(bundle_.ranks[r]) : CodeAt(bundle_.ranks[r], parting.depth);
    };
    const std::string place = place_of(parting.few[0]);
    c.Name(AnyOf(parting.few, [&](int32_t r) { return place_of(r) != place; }) ? "at different places" : place);
    c.Add(Evidence::STACKS_AT, parting.most)
        .Count(parting.most.size())
        .Name(show ? innermost : CodeAt(usual, parting.depth));
    return {std::move(c)};
  }

 private:
  bool Any(bool ProcessPlace::*what, const Ranks& of) const {
    return AnyOf(of, [&](int32_t r) { return places_[r].*what; });
  }
  bool Unseen() const { return bundle_.ranks_expected > static_cast<int32_t>(bundle_.ranks.size()); }

  // Returns whether two halves of a small job wait at different places. One half took a wrong branch, but it is unknown
  // which.
  bool AreHalves(const Parting& parting) const {
    constexpr size_t kMost = 4;
    const size_t parted = parting.most.size() + parting.few.size();
    return parting.few.size() == parting.most.size() && parted <= kMost && parted == bundle_.ranks.size() &&
           !Unseen() && !AnyOf(stacks_, [&](int32_t r) { return places_[r].where != Whereabouts::kWaits; });
  }
  std::vector<Cause> FromHalves() const {
    Cause c = CauseOf(RANK_NOT_ARRIVED, REASON_ELSEWHERE_BY_STACK, GRADE_OPEN, stacks_);
    c.cause = "code mismatch";
    c.hypothesis = true;
    c.Flag(true);
    std::map<std::string, Ranks> places;
    for (const int32_t r : stacks_) places[InnermostOf(bundle_.ranks[r])].push_back(r);
    for (const auto& [place, ranks] : places) c.Add(Evidence::STACKS_AT, ranks).Count(ranks.size()).Name(place);
    return {std::move(c)};
  }

  const Facts& facts_;
  const Bundle& bundle_;
  std::vector<ProcessPlace> places_;  // by rank index
  std::map<Whereabouts, Ranks> at_;
  Ranks stacks_;  // ranks whose Python stack is known
};

}  // namespace

std::string InnermostOf(const Rank& rank) {
  const auto frames = ParseFrames(rank.process.python_stack);
  if (frames.empty()) return "";
  const std::string place = CodePlace(frames), innermost(WithoutOffset(rank.process.python_stack[0]));
  if (place == innermost) return absl::StrCat("in ", PlaceText(place));
  return absl::StrCat("in ", Function(innermost),
                      place.empty() ? "" : absl::StrCat(", called from ", PlaceText(place)));
}

std::vector<Cause> FromStacksBesideCalls(const Facts& facts) {
  Ranks few, waiting;
  // Innermost Python frames of the ranks with a call in flight. A stack without native frames does not show the wait
  // itself, but a rank with the same frame waits, too.
  std::set<std::string> waits;
  for (size_t r = 0; r < facts.bundle.ranks.size(); ++r) {
    const std::vector<std::string>& stack = facts.bundle.ranks[r].process.python_stack;
    if (!facts.model.ranks[r].in_flight.empty() && !stack.empty()) waits.insert(stack[0]);
  }
  for (size_t r = 0; r < facts.bundle.ranks.size(); ++r) {
    const Rank& rank = facts.bundle.ranks[r];
    const Whereabouts where = PlaceOfProcess(rank.process).where;
    const bool in_call = !facts.model.ranks[r].in_flight.empty() || where == Whereabouts::kWaits ||
                         (!rank.process.python_stack.empty() && waits.contains(rank.process.python_stack[0]));
    if (!IsFramework(rank) || (!in_call && where != Whereabouts::kElsewhere)) return {};
    (in_call ? waiting : few).push_back(static_cast<int32_t>(r));
  }
  if (!AreFew(few.size(), waiting.size())) return {};
  const bool unseen = facts.bundle.ranks_expected > static_cast<int32_t>(facts.bundle.ranks.size());
  Cause c = CauseOf(HOST_STALL, REASON_ELSEWHERE_OTHERS_WAIT, few.size() == 1 && !unseen ? GRADE_FAIR : GRADE_WEAK);
  if (unseen) c.AddRival(Rival::SILENT_RANK);
  SetHolders(facts, few, waiting, &c);
  return {std::move(c)};
}

std::vector<Cause> FromStacks(const Facts& facts) {
  // Recorded calls show more than printed stacks.
  if (!OnlyProcessesKnown(facts.bundle) && !ProcessesLookedAt(facts.bundle)) return {};
  ByStacks stacks(facts);
  std::vector<Cause> causes = stacks.FromProcesses();
  return causes.empty() ? stacks.FromParting() : causes;
}

// A job's start looks like this if the rank that publishes a unique ID does not get that far.
std::vector<Cause> FromRendezvous(const Facts& facts, int64_t late_after_ns) {
  Ranks waiting, few;
  int64_t least = INT64_MAX;
  for (size_t r = 0; r < facts.bundle.ranks.size(); ++r) {
    const Rank& rank = facts.bundle.ranks[r];
    const RankView& view = facts.model.ranks[r];
    // For a rank in NCCL, or one that waits for its GPU, that wait is what counts.
    if (!view.in_flight.empty() || view.host == HostState::kInCall || view.host == HostState::kInWait) return {};
    const bool waits = ClassifyActivity(rank.process).stall == Stall::kRendezvous;
    (waits ? waiting : few).push_back(static_cast<int32_t>(r));
    const bool told = view.thread != nullptr && view.thread->last_call_ns > 0 && rank.captured_ns > 0;
    if (waits) least = std::min(least, told ? rank.captured_ns - view.thread->last_call_ns : 0);
  }
  if (waiting.empty() || (!facts.bundle.known_stalled && least < late_after_ns)) return {};
  const Ranks missing = RanksWithoutData(facts.bundle, waiting.size() + 1);
  if (!AreFew(few.empty() ? missing.size() : few.size(), waiting.size())) return {};
  const Grade grade = few.size() == 1 && missing.empty() ? GRADE_GOOD : GRADE_WEAK;
  Cause c = few.empty() ? CauseOf(RANK_NO_DATA, REASON_NO_DATA_OTHERS_MEET, GRADE_OPEN)
                        : CauseOf(HOST_STALL, REASON_OUTSIDE_NCCL_OTHERS_MEET, grade);
  c.wait = ChainLink::RENDEZVOUS;
  EvidenceItem& wait = c.Add(Evidence::FOR_OTHER_PROCESS, waiting).Count(waiting.size());
  if (least > 0 && least < INT64_MAX) wait.fields.set_duration_ns(least);
  SetHolders(facts, few, waiting, &c);
  if (few.empty()) {
    c.missing = missing;
    return {std::move(c)};
  }
  const ring::ThreadSnapshot* thread = facts.model.ranks[few[0]].thread;
  if (few.size() == 1 && thread != nullptr) {
    if (const auto lasted = Lasted(facts.bundle.ranks[few[0]], thread->last_call_ns)) c.detail.set_duration_ns(*lasted);
  }
  if (!missing.empty()) c.AddRival(Rival::SILENT_RANK);
  c.moving =
      AnyOf(few, [&](int32_t r) { return ClassifyActivity(facts.bundle.ranks[r].process).moving == Moving::kYes; });
  return {std::move(c)};
}

}  // namespace lockstep
