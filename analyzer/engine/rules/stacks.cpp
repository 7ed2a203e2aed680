// Handles jobs without recorded calls, of which only processes are known. A few ranks have ended, are stopped, or are
// at a different place in the program from all others.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/activity.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/evidence/frames.h"

namespace lockstep {
namespace {

// One rank against the others is enough. For several ranks, at least three times as many must wait.
bool AreFew(size_t few, size_t most) { return few > 0 && (few == 1 ? most > 0 : few * kManyAgainstOne <= most); }

// Returns the frame at this depth below the outermost one; empty if the stack is shorter.
std::string FrameAt(const Rank& rank, size_t depth) {
  const std::vector<std::string>& stack = rank.process.python_stack;
  return depth < stack.size() ? std::string(WithoutOffset(stack[stack.size() - 1 - depth])) : "";
}

// "qkv_proj (model.py:245) < forward (model.py:300)".
std::string CodeAt(const Rank& rank, size_t depth) {
  const std::string outer = depth == 0 ? "" : FrameAt(rank, depth - 1);
  const std::string inner = FrameAt(rank, depth);
  if (inner.empty()) return absl::StrCat("in ", outer, " itself");
  return absl::StrCat("in ", inner, outer.empty() ? "" : absl::StrCat(" < ", outer));
}

std::string Function(const std::string& frame) { return ParseFrame(frame).function(); }

// Where stacks diverge, seen from the outermost frame: most ranks on one side, the rest on the other.
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
    const auto largest = std::max_element(
        classes.begin(), classes.end(), [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    for (const auto& [frame, members] : classes) {
      if (frame != largest->first) out.few.insert(out.few.end(), members.begin(), members.end());
    }
    out.most = std::move(largest->second);
    std::sort(out.few.begin(), out.few.end());
    return out;
  }
  return out;
}

// Returns whether the stack diverges from the others at this depth inside a library's call, and does not return to the
// program's own code there.
bool PartInsideCall(const Rank& rank, size_t depth) {
  const auto frames = ParseFrames(rank.process.python_stack);
  return CodeFrame(frames) + static_cast<int>(depth) > frames.size();
}

std::string CodePlaceOf(const Process& process) {
  const std::string place = CodePlace(ParseFrames(process.stack.empty() ? process.python_stack : process.stack));
  return place.empty() ? "not waiting for a peer" : absl::StrCat("in ", PlaceText(place));
}

// "in barrier, called from save_checkpoint() at trainer.py:140", "in load() at data.py:12".
std::string InnermostOf(const Rank& rank) {
  const auto frames = ParseFrames(rank.process.python_stack);
  const std::string place = CodePlace(frames), innermost(WithoutOffset(rank.process.python_stack[0]));
  if (place == innermost) return absl::StrCat("in ", PlaceText(place));
  return absl::StrCat("in ", Function(innermost),
                      place.empty() ? "" : absl::StrCat(", called from ", PlaceText(place)));
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

// A rank has ended, is stopped or is in no wait, while others wait.
std::vector<Cause> FromProcesses(const Facts& facts) {
  constexpr Grade kStopped = GRADE_GOOD, kOne = GRADE_FAIR, kUnsure = GRADE_WEAK, kMoving = GRADE_OPEN;
  std::map<Whereabouts, std::vector<int32_t>> at;
  std::vector<ProcessPlace> places;
  bool job_moves = false;
  for (const Rank& rank : facts.bundle.ranks) {
    places.push_back(PlaceOfProcess(rank.process));
    const ProcessPlace& place = places.back();
    at[place.where].push_back(static_cast<int32_t>(places.size()) - 1);
    job_moves |= place.where == Whereabouts::kWaits && place.moved;
  }
  const std::vector<int32_t>& waiting = at[Whereabouts::kWaits];
  // A wait ended between the two samples, so the job is running.
  if (waiting.empty() || job_moves) return {};
  for (const Whereabouts where : {Whereabouts::kEnded, Whereabouts::kStopped, Whereabouts::kElsewhere}) {
    const std::vector<int32_t>& few = at[where];
    if (few.empty()) continue;
    if (!AreFew(few.size(), waiting.size())) return {};
    const Rank& first = facts.bundle.ranks[few[0]];
    const auto any = [&](bool ProcessPlace::*what, const std::vector<int32_t>& of) {
      return std::any_of(of.begin(), of.end(), [&](int32_t r) { return places[r].*what; });
    };
    Cause c = where == Whereabouts::kEnded     ? DeathCause(facts, few[0])
              : where == Whereabouts::kStopped ? CauseOf(HOST_STALL, REASON_PROCESS_STOPPED, kStopped)
                                               : CauseOf(HOST_STALL, REASON_ELSEWHERE_OTHERS_WAIT, kOne);
    if (where == Whereabouts::kEnded) c.grade = kOne;
    const bool once = where == Whereabouts::kElsewhere && !any(&ProcessPlace::twice, few);
    const bool unseen = facts.bundle.ranks_expected > static_cast<int32_t>(facts.bundle.ranks.size());
    // A rank may also end, or be stopped in a debugger, because another rank delays the job.
    const bool others = (where != Whereabouts::kElsewhere && !at[Whereabouts::kElsewhere].empty()) ||
                        (where == Whereabouts::kEnded && !at[Whereabouts::kStopped].empty()) ||
                        first.process.state == "t";
    if (few.size() > 1 || waiting.size() == 1 || once || unseen || others || !at[Whereabouts::kUnknown].empty())
      c.grade = kUnsure;
    if (unseen) c.AddRival(Rival::SILENT_RANK);
    if (where == Whereabouts::kStopped) c.Name(first.process.state);
    if (where == Whereabouts::kElsewhere) {
      c.moving = any(&ProcessPlace::moved, few);
      // This rank is computing, and so are the ranks that wait for it, so the job may be running.
      if (c.moving && any(&ProcessPlace::works, waiting)) return {};
      if (c.moving) c.grade = kMoving;
    }
    SetHolders(facts, few, waiting, &c);
    std::map<std::string, size_t> waits;
    for (const int32_t r : waiting) ++waits[places[r].wait];
    const auto usual =
        std::max_element(waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    c.Add(Evidence::STACKS_WAIT, waiting)
        .CountOf(usual->second, facts.bundle.ranks.size())
        .Name(usual->first)
        .Flag(any(&ProcessPlace::twice, waiting));
    return {std::move(c)};
  }
  // All observed ranks wait, and few ranks were not observed, so those are the first place to look.
  std::vector<int32_t> unseen = RanksWithoutData(facts.bundle, waiting.size() + 1);
  if (waiting.size() < facts.bundle.ranks.size() || unseen.empty() || !AreFew(unseen.size(), waiting.size())) return {};
  Cause c = CauseOf(RANK_NO_DATA, REASON_NO_DATA_ALL_OTHERS_WAIT, GRADE_GUESS);
  c.Count(waiting.size());
  c.hypothesis = true;
  c.missing = std::move(unseen);
  c.waiting = waiting;
  return {std::move(c)};
}

}  // namespace

std::vector<Cause> FromStacksBesideCalls(const Facts& facts) {
  std::vector<int32_t> few, waiting;
  // Where ranks that are in a call wait for it. A stack without native frames does not show the wait itself.
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
    if (rank.source != Source::kFlightRecorder || (!in_call && where != Whereabouts::kElsewhere)) return {};
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
  std::vector<int32_t> ranks;
  for (size_t r = 0; r < facts.bundle.ranks.size(); ++r) {
    if (!facts.bundle.ranks[r].process.python_stack.empty()) ranks.push_back(static_cast<int32_t>(r));
  }
  if (std::vector<Cause> causes = FromProcesses(facts); !causes.empty()) return causes;
  const Parting parting = WhereTheyPart(facts.bundle, ranks);
  const auto moves = [&](int32_t r) { return PlaceOfProcess(facts.bundle.ranks[r].process).moved; };
  if (std::any_of(parting.most.begin(), parting.most.end(), moves)) return {};
  // Two halves of the job wait at different places. One of them took a wrong branch, but it is unknown which.
  constexpr size_t kMostOfHalves = 4;
  const size_t parted = parting.most.size() + parting.few.size();
  const auto waits = [&](int32_t r) {
    return PlaceOfProcess(facts.bundle.ranks[r].process).where == Whereabouts::kWaits;
  };
  if (parting.few.size() == parting.most.size() && parted <= kMostOfHalves && parted == facts.bundle.ranks.size() &&
      facts.bundle.ranks_expected <= static_cast<int32_t>(parted) && std::all_of(ranks.begin(), ranks.end(), waits)) {
    Cause c = CauseOf(RANK_NOT_ARRIVED, REASON_ELSEWHERE_BY_STACK, GRADE_OPEN, ranks);
    c.cause = "code mismatch";
    c.hypothesis = true;
    c.Flag(true);
    for (const std::vector<int32_t>& half : {parting.few, parting.most})
      c.Add(Evidence::STACKS_AT, half).Count(half.size()).Name(InnermostOf(facts.bundle.ranks[half[0]]));
    return {std::move(c)};
  }
  // Among three ranks, one may be the odd one; among more, at most a quarter may be.
  if (parting.most.size() < 2 || !AreFew(parting.few.size(), parting.most.size())) return {};
  const auto elsewhere = [&](int32_t r) {
    return PlaceOfProcess(facts.bundle.ranks[r].process).where == Whereabouts::kElsewhere;
  };
  if (std::none_of(parting.few.begin(), parting.few.end(), elsewhere)) {
    // The majority does not wait, so no rank waits for the others.
    if (std::all_of(parting.most.begin(), parting.most.end(), elsewhere)) return {};
    // All ranks made the same call and are in different parts of it. The call may treat one rank differently from the
    // others.
    const auto inside = [&](int32_t r) { return PartInsideCall(facts.bundle.ranks[r], parting.depth); };
    if (std::all_of(parting.few.begin(), parting.few.end(), inside)) return {};
  }
  const Rank& odd = facts.bundle.ranks[parting.few[0]];
  const Rank& usual = facts.bundle.ranks[parting.most[0]];
  const bool same_call = Function(odd.process.python_stack[0]) == Function(usual.process.python_stack[0]);
  Cause c = CauseOf(same_call ? RANK_NOT_ARRIVED : HOST_STALL, REASON_ELSEWHERE_BY_STACK, GRADE_OPEN, parting.few);
  if (same_call) c.cause = "code mismatch";
  c.waiting = parting.most;
  c.op_name = same_call ? Function(usual.process.python_stack[0]) : "";
  c.moving = std::any_of(parting.few.begin(), parting.few.end(), moves);
  const bool unseen = facts.bundle.ranks_expected > static_cast<int32_t>(ranks.size());
  if (parting.few.size() == 1 && !c.moving && !unseen) c.grade = GRADE_FAIR;
  if (unseen) c.AddRival(Rival::SILENT_RANK);
  // If the innermost places also differ, they show more than the place where the stacks diverge.
  const std::string innermost = InnermostOf(usual);
  const bool alike = std::all_of(parting.most.begin(), parting.most.end(),
                                 [&](int32_t r) { return InnermostOf(facts.bundle.ranks[r]) == innermost; });
  const bool show = alike && InnermostOf(odd) != innermost;
  c.Name(show ? InnermostOf(odd) : CodeAt(odd, parting.depth));
  c.Add(Evidence::STACKS_AT, parting.most)
      .Count(parting.most.size())
      .Name(show ? innermost : CodeAt(usual, parting.depth));
  return {std::move(c)};
}

}  // namespace lockstep
