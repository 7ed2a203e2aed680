#include "analyzer/engine/replay/judge.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/program.h"
#include "analyzer/engine/facts/program_read.h"
#include "analyzer/engine/replay/changes.h"
#include "analyzer/engine/replay/recorded.h"
#include "analyzer/report/words/proof.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/sorted.h"

namespace lockstep::replay {
namespace {

constexpr int kMostCalls = 64;  // maximum number of consecutive calls that one rank may have skipped or added

// Returns "rank 3" or "ranks 3, 5-7".
std::string Named(const std::vector<int32_t>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", FoldRanks(ranks));
}

class Trial {
 public:
  Trial(const AnalysisView& view, const JudgeOptions& options) : view_(view), options_(options) {}

  Answer Run() {
    Examine();
    answer_.proof.set_text(ProofText(answer_.proof));
    return std::move(answer_);
  }

 private:
  using Ranks = std::vector<int32_t>;
  struct Given {
    Remedy remedy;
    std::vector<int32_t> ranks;
  };

  void Examine() {
    const Verdict& verdict = view_.verdict;
    if (verdict.findings().empty()) return Set(Proof::NOT_JUDGED, Proof::NO_RANK_NAMED);
    const Finding& finding = verdict.findings(0);
    answer_.kind = finding.kind();
    answer_.suspects = options_.suspects;
    answer_.instead = !answer_.suspects.empty();
    if (answer_.suspects.empty())
      answer_.suspects.assign(finding.culprit_ranks().begin(), finding.culprit_ranks().end());
    if (answer_.suspects.empty()) return Set(Proof::NOT_JUDGED, Proof::NO_RANK_NAMED);
    const std::vector<Change> changes = ChangesFor(finding);
    if (changes.empty()) return Set(Proof::NOT_JUDGED, Proof::NO_CORRECTION);
    if (view_.model.bundle.ranks.size() > options_.most_ranks) {
      answer_.proof.set_ranks(static_cast<int64_t>(view_.model.bundle.ranks.size()));
      return Set(Proof::NOT_TRIED, Proof::TOO_MANY_RANKS);
    }
    // If no operation is stuck, the view has no graph. A mismatch needs none. Other findings do, because a rank may be
    // stuck in the creation of a communicator.
    std::optional<WaitGraph> own;
    graph_ = view_.graph;
    if (graph_ == nullptr && !IsMismatch(finding.kind())) graph_ = &own.emplace(view_.model, view_.mismatches);
    const std::vector<Place> places = finding.reason() == REASON_ELSEWHERE_IN_CIRCLE
                                          ? OpenPlaces()
                                          : std::vector<Place>{PlaceOfFinding(view_.model, finding)};
    for (const Change change : changes) {
      for (const Order order : {Order::kByStream, Order::kByRank, Order::kByCommunicator, Order::kByGpu}) {
        if (order == Order::kByGpu && change != Proof::OTHER_ORDER) continue;
        for (const bool others_corrected : {false, true}) {
          if (others_corrected && verdict.findings_size() == 1) continue;
          for (const Place& place : places) {
            if (LimitReached() || (!NeedsPlace(change) && &place != &places.front())) break;
            if (Try({change, NeedsPlace(change) ? place : Place()}, order, others_corrected)) return;
          }
        }
      }
    }
    if (nearness_ == 0) Set(Proof::NOT_PROVED, Proof::LIMIT_REACHED);
  }

  void Set(Proof::Result result, Proof::Why why, const Ranks& ranks = {}) {
    answer_.proof.set_result(result);
    answer_.proof.set_why(why);
    answer_.proof.mutable_why_ranks()->Assign(ranks.begin(), ranks.end());
  }
  // Keeps the reason closest to a proof. Returns false, because a later attempt may succeed.
  bool Keep(int nearness, Proof::Result result, Proof::Why why, const Ranks& ranks = {}, const Proof* found = nullptr) {
    if (nearness <= nearness_) return false;
    nearness_ = nearness;
    if (found != nullptr) answer_.proof = *found;
    Set(result, why, ranks);
    return false;
  }

  // Returns, for each communicator of the suspects, the first collective that never completes because an earlier call
  // was skipped or added.
  std::vector<Place> OpenPlaces() const {
    constexpr size_t kMostPlaces = 8;
    Recorded recorded = ReadCounted(Order::kByStream, {});
    if (recorded.too_large) return {Place()};
    Arrange(&recorded.job);
    const std::vector<uint32_t> suspects = ProgramsOf(recorded, answer_.suspects);
    std::vector<Place> places;
    std::set<uint32_t> seen;
    for (const Meeting& m : PlayCounted(Variant(recorded.job)).meetings) {
      const Job::Comm& comm = recorded.job.comms[m.comm];
      if (m.complete || m.sender >= 0 || comm.bundle_comm == kNoIndex || places.size() == kMostPlaces) continue;
      const bool theirs = std::any_of(comm.members.begin(), comm.members.end(), [&](int32_t member) {
        return member >= 0 && std::binary_search(suspects.begin(), suspects.end(), static_cast<uint32_t>(member));
      });
      if (theirs && seen.insert(m.comm).second) places.push_back({comm.bundle_comm, comm.first + m.number});
    }
    if (places.empty()) places.emplace_back();
    return places;
  }

  Recorded ReadCounted(Order order, const std::vector<Place>& from) const {
    Recorded recorded = ReadRecorded(view_.model, graph_, order, from);
    parts_ += recorded.calls;
    for (const Job::Comm& comm : recorded.job.comms) parts_ += comm.members.size();
    return recorded;
  }

  Outcome PlayCounted(const Variant& variant) const {
    Outcome outcome = Play(variant, agree_);
    parts_ += outcome.parts;
    return outcome;
  }

  bool Completes(const Variant& variant) const { return PlayCounted(variant).completes(); }

  bool LimitReached() const { return parts_ > options_.most_parts; }

  // Returns whether the judgment is final. `others_corrected` is true if the faults of the further findings are
  // corrected first.
  bool Try(Remedy remedy, Order order, bool others_corrected) {
    if (NeedsPlace(remedy.change) && remedy.place.seq < 0)
      return Keep(1, Proof::NOT_PROVED, Proof::CALL_WITHOUT_NUMBER);
    std::vector<Place> from = {remedy.place};
    const std::vector<Given> given = others_corrected ? OtherFindings() : std::vector<Given>();
    for (const Given& other : given) from.push_back(other.remedy.place);
    Recorded recorded = ReadCounted(order, from);
    if (recorded.too_large) return Keep(1, Proof::NOT_PROVED, Proof::TOO_MANY_CALLS);
    const std::vector<uint32_t> suspects = ProgramsOf(recorded, answer_.suspects);
    Ranks unseen, blind;
    absl::flat_hash_set<int32_t> without(answer_.suspects.begin(), answer_.suspects.end());
    for (const uint32_t p : suspects) {
      if (p >= recorded.seen) continue;
      if (recorded.blind[p]) blind.push_back(recorded.ranks[p]);
      without.erase(recorded.ranks[p]);
    }
    std::copy_if(answer_.suspects.begin(), answer_.suspects.end(), std::back_inserter(unseen),
                 [&](int32_t rank) { return without.contains(rank); });
    if (!unseen.empty()) return Keep(6, Proof::NOT_JUDGED, Proof::NO_CALLS_OF, unseen);
    if (!blind.empty()) return Keep(6, Proof::NOT_JUDGED, Proof::GPU_UNKNOWN, blind);
    Arrange(&recorded.job);
    if (!given.empty()) {
      Variant corrected(recorded.job);
      for (const Given& other : given) {
        for (const uint32_t p : ProgramsOf(recorded, other.ranks)) {
          if (!std::binary_search(suspects.begin(), suspects.end(), p)) Apply(other.remedy, p, recorded, &corrected);
        }
      }
      corrected.WriteTo(&recorded.job);
      Arrange(&recorded.job);
    }
    const Outcome base = PlayCounted(Variant(recorded.job));
    if (base.too_large) return Keep(1, Proof::NOT_PROVED, Proof::TOO_MANY_CALLS);
    if (recorded.calls == 0)
      return Keep(2, Proof::NOT_JUDGED,
                  std::all_of(view_.model.bundle.ranks.begin(), view_.model.bundle.ranks.end(),
                              [](const Rank& rank) { return rank.ops.empty(); })
                      ? Proof::NO_CALLS
                      : Proof::NONE_IN_FLIGHT);
    if (base.completes())
      return others_corrected ? Keep(2, Proof::NOT_PROVED, Proof::OTHER_FINDINGS_SUFFICE)
                              : Keep(2, Proof::NOT_JUDGED, Proof::CALLS_DO_NOT_HANG);
    if (std::any_of(base.meetings.begin(), base.meetings.end(),
                    [](const Meeting& m) { return m.complete && m.unfinished; }) &&
        !others_corrected)
      return Keep(2, Proof::NOT_JUDGED, Proof::ALL_INSIDE);
    if (const Ranks idle = IdleUntold(recorded, base);
        !idle.empty() && (recorded.unseen() > 0 || idle != answer_.suspects))
      return Keep(2, Proof::NOT_JUDGED, Proof::CALLS_NOT_RECORDED, idle);
    Proof next;
    next.set_ranks(static_cast<int64_t>(recorded.seen));
    next.set_calls(static_cast<int64_t>(recorded.calls));
    next.set_correction(remedy.change);
    next.set_others_corrected(!given.empty());
    next.mutable_corrected_ranks()->Assign(answer_.suspects.begin(), answer_.suspects.end());
    // Corrects the suspects together. The number of skipped or added calls is unknown, so tries one call, then more.
    const bool counted = remedy.change == Proof::ADD_CALLS || remedy.change == Proof::REMOVE_CALLS;
    for (;; ++remedy.calls) {
      const Outcome outcome = PlayCounted(Corrected(remedy, suspects, kNoIndex, recorded));
      next.set_corrected_calls(remedy.calls);
      if (outcome.completes()) break;
      if (remedy.calls == 1) Stuck(recorded, outcome, &next);
      if (!counted || remedy.calls == kMostCalls || LimitReached()) {
        next.set_corrected_calls(1);
        return Keep(3, Proof::NOT_PROVED, Proof::STILL_HANGS, {}, &next);
      }
    }
    next.clear_open();
    Ranks spared;
    if (const Proof::Why loose = NotAllNeeded(remedy, suspects, recorded, &next, &spared);
        loose != Proof::WHY_UNSPECIFIED)
      return Keep(4, Proof::NOT_PROVED, loose, spared, &next);
    const std::vector<uint32_t> candidates = Candidates(recorded, base, suspects);
    if (candidates.empty()) return Keep(5, Proof::NOT_PROVED, Proof::NO_OTHER_RANK, {}, &next);
    Ranks rivals, excluded;
    std::vector<std::pair<int32_t, int32_t>> unlike;
    for (const Meeting& m : base.meetings) {
      if (!m.agree && m.unlike.first >= 0) unlike.push_back(m.unlike);
    }
    for (const uint32_t c : candidates) {
      if (LimitReached()) return Keep(5, Proof::NOT_PROVED, Proof::LIMIT_REACHED, {}, &next);
      next.set_candidates(next.candidates() + 1);
      // Two other ranks still differ, so changing one rank does not help.
      if (std::any_of(unlike.begin(), unlike.end(),
                      [p = static_cast<int32_t>(c)](const auto& pair) { return pair.first != p && pair.second != p; }))
        continue;
      for (const Remedy& other : RivalsOf(remedy, recorded.job.programs[c].host)) {
        if (!Completes(Corrected(other, {c}, kNoIndex, recorded))) continue;
        const bool edit = recorded.job.programs[c].host != Host::kHalted;
        (edit && Excluded(suspects, c, recorded.job) ? excluded : rivals).push_back(recorded.ranks[c]);
        break;
      }
    }
    SortUnique(&rivals);
    std::sort(excluded.begin(), excluded.end());
    next.mutable_rivals()->Assign(rivals.begin(), rivals.end());
    next.mutable_excluded()->Assign(excluded.begin(), excluded.end());
    if (rivals.empty() || nearness_ < 5) answer_.assumed = Assumed(recorded, order, given);
    if (!rivals.empty()) return Keep(5, Proof::NOT_PROVED, Proof::OTHERS_HELP, {}, &next);
    answer_.proof = std::move(next);
    answer_.proof.set_result(Proof::PROVED);
    return true;
  }

  // Returns the job with each of these programs corrected, except `except`.
  static Variant Corrected(const Remedy& remedy, const std::vector<uint32_t>& programs, uint32_t except,
                           const Recorded& recorded) {
    Variant variant(recorded.job);
    for (const uint32_t p : programs) {
      if (p != except) Apply(remedy, p, recorded, &variant);
    }
    return variant;
  }

  // Returns the programs of these ranks, ascending.
  static std::vector<uint32_t> ProgramsOf(const Recorded& recorded, const std::vector<int32_t>& ranks) {
    const absl::flat_hash_set<int32_t> wanted(ranks.begin(), ranks.end());
    std::vector<uint32_t> programs;
    for (uint32_t p = 0; p < recorded.ranks.size(); ++p) {
      if (wanted.contains(recorded.ranks[p])) programs.push_back(p);
    }
    return programs;
  }

  // Returns the corrections for the further findings, if changed calls can correct them.
  std::vector<Given> OtherFindings() const {
    std::vector<Given> given;
    for (const Finding& finding : view_.verdict.findings()) {
      if (&finding == &view_.verdict.findings(0) || finding.culprit_ranks().empty()) continue;
      const std::vector<Change> changes = ChangesFor(finding);
      if (changes.empty()) continue;
      given.push_back({{changes[0], NeedsPlace(changes[0]) ? PlaceOfFinding(view_.model, finding) : Place()},
                       {finding.culprit_ranks().begin(), finding.culprit_ranks().end()}});
    }
    return given;
  }

  // With several suspects, either all corrections must be needed, or each one alone must be enough. Otherwise, returns
  // why the finding is not proved, and sets `spared` to ranks that need no correction.
  Proof::Why NotAllNeeded(const Remedy& remedy, const std::vector<uint32_t>& suspects, const Recorded& recorded,
                          Proof* proof, Ranks* spared) const {
    if (suspects.size() < 2) return Proof::WHY_UNSPECIFIED;
    Ranks alone;
    for (size_t i = 0; i < suspects.size(); ++i) {
      if (LimitReached() || i == options_.most_candidates) return Proof::TOO_MANY_NAMED;
      if (Completes(Corrected(remedy, {suspects[i]}, kNoIndex, recorded))) alone.push_back(recorded.ranks[suspects[i]]);
      if (Completes(Corrected(remedy, suspects, suspects[i], recorded))) spared->push_back(recorded.ranks[suspects[i]]);
    }
    proof->set_any_one(alone.size() == suspects.size());
    return proof->any_one() || spared->empty() ? Proof::WHY_UNSPECIFIED : Proof::NOT_ALL_NEEDED;
  }

  // Returns ranks that others wait for and that seem to wait for no rank. Calls may be missing from their records,
  // because their backend does not record all of them.
  std::vector<int32_t> IdleUntold(const Recorded& recorded, const Outcome& base) const {
    std::vector<int32_t> idle;
    for (size_t p = 0; p < recorded.seen; ++p) {
      const Rank& rank = view_.model.bundle.ranks[p];
      const bool untold = rank.ends_untold || std::any_of(rank.memberships.begin(), rank.memberships.end(),
                                                          [](const Membership& ms) { return ms.unrecorded > 0; });
      if (untold && base.owes[p] && recorded.job.programs[p].host == Host::kHalted &&
          view_.model.ranks[p].host == HostState::kUnknown)
        idle.push_back(rank.rank);
    }
    return idle;
  }

  // Returns other ranks that may be at fault, because they take part in calls that do not complete: halted ranks first.
  // Ranks that further findings name are not candidates: they have a fault of their own.
  std::vector<uint32_t> Candidates(const Recorded& recorded, const Outcome& base,
                                   const std::vector<uint32_t>& suspects) const {
    absl::flat_hash_set<int32_t> named;
    for (int i = 1; i < view_.verdict.findings_size(); ++i) {
      const auto& ranks = view_.verdict.findings(i).culprit_ranks();
      named.insert(ranks.begin(), ranks.end());
    }
    std::vector<uint32_t> first, others;
    for (uint32_t p = 0; p < recorded.seen; ++p) {
      if (!base.meets[p] || named.contains(recorded.ranks[p]) ||
          std::binary_search(suspects.begin(), suspects.end(), p))
        continue;
      const bool halted = recorded.job.programs[p].host == Host::kHalted;
      (halted ? first : others).push_back(p);
    }
    // Takes the other candidates evenly from all remaining ranks.
    const size_t room = options_.most_candidates - std::min(options_.most_candidates, first.size());
    const size_t step = room == 0 ? 1 : (others.size() + room - 1) / room;
    for (size_t i = 0; i < others.size() && room > 0; i += std::max<size_t>(step, 1)) first.push_back(others[i]);
    if (first.size() > options_.most_candidates) first.resize(options_.most_candidates);
    return first;
  }

  // Returns whether ranks with the same role made the candidate's calls rather than those of the suspects.
  bool Excluded(const std::vector<uint32_t>& suspects, uint32_t candidate, const Job& job) {
    // The finding names ranks because their order is unusual. A candidate with another order is excluded.
    if (view_.verdict.findings(0).reason() == REASON_OUT_OF_ORDER && !answer_.instead)
      return std::all_of(suspects.begin(), suspects.end(),
                         [&](uint32_t s) { return OrdersDiffer(job.programs[s], job.programs[candidate]); });
    if (!differs_) {
      differs_.emplace();
      for (const Divergence& d : FindDivergences(view_.model)) differs_->insert(static_cast<uint32_t>(d.rank));
      for (const Mismatch& m : view_.mismatches) {
        if (!m.majority) continue;
        for (const int32_t r : m.odd_ranks) differs_->insert(static_cast<uint32_t>(r));
      }
      for (const auto& [role, family] : ReadPrograms(view_.model)) {
        std::set<int32_t> ranks;
        for (const lockstep::Program& program : family) ranks.insert(program.rank);
        if (ranks.size() < 2) continue;
        compared_.insert(ranks.begin(), ranks.end());
      }
    }
    return compared_.contains(static_cast<int32_t>(candidate)) && !differs_->contains(candidate) &&
           std::all_of(suspects.begin(), suspects.end(), [&](uint32_t s) { return differs_->contains(s); });
  }

  void Stuck(const Recorded& recorded, const Outcome& outcome, Proof* proof) const {
    for (const Meeting& m : outcome.meetings) {
      if (m.complete) continue;
      const Job::Comm& comm = recorded.job.comms[m.comm];
      const auto rank = [&](int32_t member) {
        const bool known = static_cast<size_t>(member) < comm.members.size() && comm.members[member] >= 0;
        return known ? recorded.ranks[comm.members[member]] : -1;
      };
      Proof::Open* open = proof->mutable_open();
      open->set_count(static_cast<int64_t>(outcome.open));
      if (comm.bundle_comm != kNoIndex) *open->mutable_communicator() = Labelled(view_.model.bundle, comm.bundle_comm);
      open->set_exchange(m.sender >= 0);
      open->set_number(m.sender >= 0 ? 0 : comm.first + m.number);
      open->set_sender(rank(m.sender));
      open->set_receiver(rank(m.receiver));
      open->set_arguments_differ(!m.agree);
      return;
    }
  }

  std::vector<std::string> Assumed(const Recorded& recorded, Order order, const std::vector<Given>& given) const {
    std::vector<std::string> assumed;
    assumed.push_back("a rank that waits makes the calls that its peers wait for, once its own have completed");
    if (order == Order::kByCommunicator)
      assumed.push_back("calls of one rank on different communicators do not wait for each other");
    if (order == Order::kByGpu)
      assumed.push_back("a GPU runs its operations one after the other, those that it has started first");
    std::vector<int32_t> corrected, unseen, blind;
    for (size_t p = 0; p < recorded.seen; ++p) {
      if (recorded.blind[p]) blind.push_back(recorded.ranks[p]);
    }
    if (!blind.empty())
      assumed.push_back(absl::StrCat(blind.size() == 1 ? "the GPU of " : "the GPUs of ", Named(blind),
                                     blind.size() == 1 ? " does no other work (nothing is recorded about it)"
                                                       : " do no other work (nothing is recorded about them)"));
    for (const Given& other : given) corrected.insert(corrected.end(), other.ranks.begin(), other.ranks.end());
    if (!corrected.empty())
      assumed.push_back(absl::StrCat("the further findings, at ", Named(corrected), ", are corrected as well"));
    const absl::flat_hash_set<int32_t> suspects(answer_.suspects.begin(), answer_.suspects.end());
    for (uint32_t p = static_cast<uint32_t>(recorded.seen); p < recorded.ranks.size(); ++p) {
      if (!suspects.contains(recorded.ranks[p])) unseen.push_back(recorded.ranks[p]);
    }
    if (unseen.empty()) return assumed;
    std::sort(unseen.begin(), unseen.end());
    assumed.push_back(absl::StrCat(Named(unseen), " left no data, but made every call that ",
                                   unseen.size() == 1 ? "its" : "their", " peers wait for"));
    return assumed;
  }

  const AnalysisView& view_;
  const JudgeOptions& options_;
  const Agree agree_ = [this](const Op& a, const Op& b) { return CallsAgree(view_.model.bundle, a, b); };
  const WaitGraph* graph_ = nullptr;
  Answer answer_;
  int nearness_ = 0;
  mutable size_t parts_ = 0;  // number of parts played so far
  std::optional<std::set<uint32_t>> differs_;
  std::set<int32_t> compared_;
};

}  // namespace

Answer Judge(const AnalysisView& view, const JudgeOptions& options) { return Trial(view, options).Run(); }

Verdict AnalyzeAndProve(const Bundle& bundle, const AnalyzeOptions& options, const JudgeOptions& judge) {
  Proof proof;
  Verdict verdict =
      AnalyzeAndLook(bundle, options, [&](const AnalysisView& view) { proof = Judge(view, judge).proof; });
  if (!verdict.findings().empty()) *verdict.mutable_findings(0)->mutable_proof() = std::move(proof);
  return verdict;
}

Verdict WithProof(const AnalysisView& view) {
  Verdict verdict = view.verdict;
  if (!verdict.findings().empty() && view.model.bundle.ranks.size() <= kMostUnasked)
    *verdict.mutable_findings(0)->mutable_proof() = Judge(view).proof;
  return verdict;
}

}  // namespace lockstep::replay
