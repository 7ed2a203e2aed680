#include "analyzer/engine/facts/program.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "analyzer/engine/facts/by_design.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/engine/facts/program_read.h"

namespace lockstep {
namespace {

// Number of calls after a difference that are compared to see how the two programs rejoin.
constexpr size_t kLookAhead = 24;
// Number of calls that must agree before a difference counts. Otherwise the records may simply not be aligned.
constexpr size_t kMinAgreement = 4;
// Number of calls that are looked up in another record to align the two.
constexpr size_t kAnchorTries = 256;
// Number of ranks tried as the reference of a family.
constexpr size_t kCandidates = 6;

// For each role: the number of differences that are checked against other ranks, and the approximate number of these
// ranks.
constexpr size_t kMostAsked = 512, kSample = 64;
// For this many differences, all ranks of the role are counted, because a sentence states the number.
constexpr size_t kMostCounted = 16;

// If this many calls before a difference also occurred earlier in the same order, the call that followed them at that
// time is evidence.
constexpr size_t kContexts[] = {4, 8, 32, 128, 512};

bool SameSite(const Op& a, const Op& b) {
  if (a.caller != 0 && b.caller != 0) return a.caller == b.caller && a.caller_object == b.caller_object;
  if (a.call_site != kNoIndex && b.call_site != kNoIndex) return a.call_site == b.call_site;
  return true;
}

uint64_t PlaceKey(const Token& t) {
  // Sends and receives are numbered per peer and direction, collectives per communicator.
  const uint64_t lane = t.exchange                   ? 99 * 65536
                        : IsPointToPoint(t.op->kind) ? 1 + static_cast<uint64_t>(t.op->kind) * 65536 + (t.peer & 0xffff)
                                                     : 0;
  return (static_cast<uint64_t>(t.klass) << 52) ^ (lane << 32) ^ static_cast<uint64_t>(t.op->seq);
}

class Aligner {
 public:
  Aligner(const Model& model, bool hung) : model_(model), hung_(hung) {}

  bool SameCall(const Token& a, const Token& b) const {
    if (a.klass != b.klass || a.exchange != b.exchange) return false;
    if (a.exchange) return true;
    if (IsPointToPoint(a.op->kind) || IsPointToPoint(b.op->kind)) {
      return a.op->kind == b.op->kind && a.peer == b.peer;
    }
    return CompareCalls(model_.bundle, *a.op, *b.op, nullptr, nullptr) == FINDING_UNSPECIFIED;
  }

  // Returns whether both are the same call from the same place in the code. An unknown place counts as the same.
  bool SamePlace(const Token& a, const Token& b) const { return SameCall(a, b) && SameSite(*a.op, *b.op); }

  // Returns how many consecutive calls agree from here on, at most kLookAhead. Stops at the end of a record.
  size_t Run(std::span<const Token> a, size_t i, std::span<const Token> b, size_t j) const {
    size_t n = 0;
    while (n < kLookAhead && i + n < a.size() && j + n < b.size() && SamePlace(a[i + n], b[j + n])) {
      ++n;
    }
    return n;
  }

  // Returns after how many further calls `a` also makes the next calls of `b`, at least `least` of them; 0 if it does
  // not do so soon.
  size_t CallsUntil(std::span<const Token> a, size_t i, std::span<const Token> b, size_t j, size_t least) const {
    constexpr size_t kFar = 64;
    for (size_t d = 1; d <= kFar && i + d + least <= a.size(); ++d) {
      if (Run(a, i + d, b, j) >= least) return d;
    }
    return 0;
  }

  // Like Run, if `late` issues the call `early[i]` some calls later. Also counts that call and those in between.
  // Returns 0 if these calls differ, or if `late` does not issue the call soon.
  size_t MovedRun(const Segment& early, size_t i, const Segment& late, size_t j) const {
    for (size_t d = 1; d < kLookAhead && j + d < late.size() && i + d < early.size(); ++d) {
      if (!SamePlace(early[i + d], late[j + d - 1])) return 0;
      if (SamePlace(late[j + d], early[i])) return d + 1 + Run(early, i + d + 1, late, j + d + 1);
    }
    return 0;
  }

  // The result of comparing `b` with `a`: whether both run the same program, as far as both records reach. If not,
  // `divergence` is the place where they differ, if it can be determined.
  struct Comparison {
    bool same = true;
    std::optional<Divergence> divergence;
    const Segment *a = nullptr, *b = nullptr;  // place of the difference: a[i] against b[j]
    size_t i = 0, j = 0;
  };

  Comparison Compare(const Program& a, const Program& b) const {
    for (const Segment& theirs : b.segments) {
      for (const Segment& mine : a.segments) {
        Comparison c = Compare(mine, theirs);
        if (c.same) continue;
        c.a = &mine, c.b = &theirs;
        if (c.divergence) {
          c.divergence->rank = b.rank;
          c.divergence->sibling_rank = a.rank;
        }
        return c;
      }
    }
    return {};
  }

  // If the two programs alone do not show the divergence, uses what other members wait for. If they wait for the rank
  // in the call that the other program has here, the rank left its program. Its own call then counts as an extra one if
  // the other record continues after that call; otherwise, the rank skipped that call.
  void AskMembers(int32_t sibling_rank, int32_t rank, Comparison* c) const {
    if (c->same || c->divergence || !WentElsewhere(rank, *c->b, c->j, (*c->a)[c->i])) return;
    const bool known = Continuation(*c->a, c->i) + 1 < c->a->size();
    c->divergence = Divergence{
        .type = known ? Divergence::Type::kExtra : Divergence::Type::kSkipped, .rank = rank, .own = (*c->b)[c->j].op};
    c->divergence->sibling = (*c->a)[c->i].op;
    c->divergence->sibling_rank = sibling_rank;
  }

  // Returns which of two programs the other ranks expect here: 0 for the first, 1 for the second, -1 if unknown.
  int WhoStayed(int32_t first, int32_t second, const Comparison& c) const {
    if (const int alike = MadeAlike(first, second, (*c.a)[c.i], (*c.b)[c.j]); alike >= 0) return alike;
    const bool first_left = WentElsewhere(first, *c.a, c.i, (*c.b)[c.j]);
    const bool second_left = WentElsewhere(second, *c.b, c.j, (*c.a)[c.i]);
    return first_left == second_left ? -1 : first_left;
  }

  // Returns which of two programs continues at this place as both did there earlier: 0 the first, 1 the second, -1
  // unknown.
  int Precedent(const Comparison& c) const {
    // What follows a repeated call depends on how often it was repeated. The same is true for a repeated pair of calls,
    // if one program leaves the pair.
    if (c.i == 0 || c.j == 0) return -1;
    const auto in_pair = [&](const Token& next) {
      return SamePlace((*c.a)[c.i - 1], next) || (c.i > 1 && SamePlace((*c.a)[c.i - 2], next));
    };
    const bool leaves_pair = !in_pair((*c.a)[c.i]) || !in_pair((*c.b)[c.j]);
    size_t run = 1;
    for (const size_t period : {1, 2}) {
      size_t same = 0;
      while (same + period < c.i && SamePlace((*c.a)[c.i - same - 1 - period], (*c.a)[c.i - same - 1])) ++same;
      if (same >= period && (period == 1 || leaves_pair)) run = std::max(run, same + period);
    }
    for (const size_t context : kContexts) {
      const size_t length = std::max(context, run + 1);
      if (c.i < length || c.j < length) return -1;
      int votes[2] = {0, 0};
      for (const auto& [segment, end] : {std::pair(c.a, c.i), std::pair(c.b, c.j)}) {
        for (size_t k = length; k < end; ++k) {
          const bool first = SamePlace((*segment)[k], (*c.a)[c.i]), second = SamePlace((*segment)[k], (*c.b)[c.j]);
          if (first == second) continue;
          size_t n = 1;
          while (n <= length && SamePlace((*segment)[k - n], (*c.a)[c.i - n])) ++n;
          if (n > length) ++votes[first ? 0 : 1];
        }
      }
      if (const int keeps = Agreed(votes); keeps >= 0) return keeps;
      if (votes[0] == 0 && votes[1] == 0) return -1;
    }
    return -1;
  }

 private:
  Comparison Compare(const Segment& a, const Segment& b) const {
    size_t i = 0, j = 0;
    if (!Anchor(a, b, &i, &j)) return {};
    size_t agreed = 0;
    while (i < a.size() && j < b.size()) {
      if (SamePlace(a[i], b[j])) {
        ++i, ++j, ++agreed;
        continue;
      }
      // Compares how both continue if `b` skipped, added or changed a call.
      const size_t ahead = Continuation(a, i);
      const size_t skipped = Run(a, ahead + 1, b, j);
      const size_t extra = Run(a, i, b, j + 1);
      const size_t changed = Run(a, ahead + 1, b, j + 1);
      const bool same_call = SameCall(a[i], b[j]);
      if (same_call && changed >= skipped && changed >= extra) {
        ++i, ++j, ++agreed;  // the same call from another line is allowed
        continue;
      }
      const bool from_the_start = i == agreed && j == agreed;
      // Ranks may exchange with different peers by design. Only earlier calls show whether these two ranks do.
      const bool collectives = IsCollective(a[i].op->kind) && IsCollective(b[j].op->kind);
      if (agreed < kMinAgreement && !(from_the_start && collectives)) return {};
      Divergence d;
      d.sibling = a[i].op;
      d.own = b[j].op;
      const size_t moved = std::max(MovedRun(a, i, b, j), MovedRun(b, j, a, i));
      // Both are collectives of one kind of communicator, or both are sends or receives.
      const bool same_lane = a[i].klass == b[j].klass && IsCollective(a[i].op->kind) == IsCollective(b[j].op->kind);
      // NOLINTBEGIN(bugprone-branch-clone): the order matters
      if (moved > skipped && moved > extra && moved > changed + 1) {
        d.type = Divergence::Type::kReordered;
      } else if (changed > 0 && changed >= skipped && changed >= extra && same_lane && !same_call) {
        d.type = Divergence::Type::kChanged;
      } else if (skipped > 0 || extra > 0) {
        d.type = skipped >= extra ? Divergence::Type::kSkipped : Divergence::Type::kExtra;
      } else if (j > 0 && SamePlace(b[j], b[j - 1])) {
        d.type = Divergence::Type::kExtra;  // the record ends at a repeated call
      } else if (!hung_ && i + 1 < a.size() && j + 1 < b.size() && SameCall(a[i], b[j + 1]) &&
                 SameCall(a[i + 1], b[j])) {
        d.type = Divergence::Type::kReordered;  // the same two calls, from other lines
      } else if (CallsUntil(a, i, b, j, std::min(kLookAhead, b.size() - j)) > 0) {
        d.type = Divergence::Type::kSkipped;  // several calls were skipped
      } else if (same_lane && j + 1 >= b.size()) {
        d.type = Divergence::Type::kChanged;
      } else {
        return {false, std::nullopt, nullptr, nullptr, i, j};
      }
      // NOLINTEND(bugprone-branch-clone)
      return {false, d, nullptr, nullptr, i, j};
    }
    return {};
  }

  // If both made the same collective from different places in the code, returns whose place all other members called it
  // from: 0 the first, 1 the second, -1 unknown.
  int MadeAlike(int32_t first, int32_t second, const Token& a, const Token& b) const {
    if (!SameCall(a, b) || !IsCollective(a.op->kind) || a.op->seq != b.op->seq) return -1;
    const uint32_t comm = model_.CommOf(model_.bundle.ranks[first], *a.op);
    if (comm != model_.CommOf(model_.bundle.ranks[second], *b.op)) return -1;
    bool like_first = false, like_second = false;
    for (const Member& m : model_.comms[comm].members) {
      const Op* op = m.rank_index == first || m.rank_index == second ? nullptr : model_.FindCollective(m, a.op->seq);
      if (op == nullptr) continue;
      like_first |= SameSite(*op, *a.op);
      like_second |= SameSite(*op, *b.op);
    }
    return like_first == like_second ? -1 : like_second;
  }

  // Returns whether others wait for the rank in `sibling`, the call of ranks with its role. The rank itself must wait
  // in a call that most members are not in.
  bool WentElsewhere(int32_t rank_index, const Segment& own, size_t at, const Token& sibling) const {
    const Member* missing = model_.MemberOfKind(rank_index, sibling.klass);
    const auto waits = std::find_if(own.begin() + static_cast<std::ptrdiff_t>(at), own.end(),
                                    [](const Token& t) { return IsUnfinished(t.op->state); });
    return missing != nullptr && IsExpected(*missing, sibling) && waits != own.end() &&
           MostAreNotIn(rank_index, *waits->op);
  }

  bool IsExpected(const Member& missing, const Token& call) const {
    const auto& members = model_.comms[model_.CommOf(missing)].members;
    const Membership& ms = model_.MembershipOf(missing);
    if (IsPointToPoint(call.op->kind)) {
      const int32_t peer = ms.member_rank + call.peer;  // may exceed the last member, because distances wrap around
      return peer >= 0 && !members.empty() &&
             model_.WaitsForCall(members[static_cast<size_t>(peer) % members.size()], call.op->kind, ms.member_rank);
    }
    const int64_t next = ms.issued != kNone ? ms.issued + 1 : FirstOf(ms);
    return std::ranges::any_of(members, [&](const Member& m) {
      const Op* op = model_.FindCollective(m, next);
      return op != nullptr && op->kind == call.op->kind && IsUnfinished(op->state);
    });
  }

  bool MostAreNotIn(int32_t rank_index, const Op& op) const {
    if (IsPointToPoint(op.kind)) return model_.Met(rank_index, op) == false;
    const auto is_in = [&](const Member& m) {
      if (!m.recorded() || m.rank_index == rank_index || m.arrived < op.seq) return false;
      const Op* theirs = model_.FindCollective(m, op.seq);
      const auto& ops = model_.bundle.ranks[m.rank_index].ops;
      const auto& units = model_.ranks[m.rank_index].in_flight;
      return theirs == nullptr || std::ranges::none_of(units, [&](const Unit& unit) {
               return &ops[unit.ops[0]] < theirs && ops[unit.ops[0]].membership == m.membership;
             });
    };
    const auto& members = model_.comms[model_.CommOf(model_.bundle.ranks[rank_index], op)].members;
    return 2 * std::ranges::count_if(members, is_in) < static_cast<ptrdiff_t>(members.size());
  }

  // Finds the first calls in both that are at the same place in the program. Returns whether there are any.
  static bool Anchor(const Segment& a, const Segment& b, size_t* i, size_t* j) {
    // Unless they have nothing in common, records of ranks with one role begin within a few calls of each other.
    for (size_t k = 0; k < b.size() && k < kAnchorTries; ++k) {
      const uint64_t key = PlaceKey(b[k]);
      for (size_t n = 0; n < a.size(); ++n) {
        if (PlaceKey(a[n]) != key) continue;
        *i = n;
        *j = k;
        return true;
      }
    }
    return false;
  }

  // Returns a position after which `a` shows how the program continues. Usually that is i. If the record ends at i,
  // returns the last earlier position with an equal call and predecessor, if any.
  size_t Continuation(const Segment& a, size_t i) const {
    if (i + 1 < a.size()) return i;
    for (size_t k = i; k-- > 1;) {
      if (SamePlace(a[k], a[i]) && SamePlace(a[k - 1], a[i - 1])) return k;
    }
    return i;
  }

  const Model& model_;
  const bool hung_;
};

// Returns whether both are calls of one kind on one kind of communicator. Their sizes and numbers may differ.
bool SameKindOfCall(const Token& a, const Token& b) {
  return a.klass == b.klass && a.exchange == b.exchange && a.op->kind == b.op->kind && a.op->name == b.op->name &&
         (a.peer == b.peer || !IsPointToPoint(a.op->kind));
}

// Returns the rank's communicator of this kind; kNoIndex if there is none.
uint32_t CommOfKind(const Model& model, int32_t rank_index, uint32_t kind) {
  const Member* member = model.MemberOfKind(rank_index, kind);
  return member == nullptr ? kNoIndex : model.CommOf(*member);
}

// Returns the program from the call that is `back` numbers before `like`. Contains at least two calls; empty if they
// are not recorded.
std::span<const Token> From(const Model& model, const Program& program, const Token& like, int64_t back) {
  const int64_t seq = like.op->seq - back;
  const bool collective = IsCollective(like.op->kind);
  const Member* member = collective ? model.MemberOfKind(program.rank, like.klass) : nullptr;
  const Op* op = member == nullptr ? nullptr : model.FindCollective(*member, seq);
  if (collective && op == nullptr) return {};
  for (const Segment& segment : program.segments) {
    auto at = segment.begin();
    if (collective) {
      at = std::lower_bound(segment.begin(), segment.end(), op, [](const Token& t, const Op* o) { return t.op < o; });
      if (at == segment.end() || at->op != op) continue;
    } else {
      at = std::ranges::find_if(segment, [&](const Token& t) { return t.op->seq == seq && SameKindOfCall(t, like); });
    }
    if (segment.end() - at >= 2) return {at, segment.end()};
  }
  return {};
}

// How the other ranks of a role continued after the last call before a difference. Members of its communicator made
// that call together. Ranks of other communicators count only if they also continued like this rank after the earlier
// calls, because the others may repeat calls a different number of times. The members of such a communicator make its
// calls together, so they count as one vote.
struct Votes {
  size_t own = 1, reference = 0;                         // votes for the rank that differs, and for the reference
  size_t fellows_own = 0, fellows_reference = 0;         // votes of members only
  const Program* fellow = nullptr;                       // a member that continued like the differing rank
  std::vector<const Program*> like_own, like_reference;  // programs of ranks that continued like one side
};

// The programs of the ranks with one role, and which of these ranks left it.
class Family {
 public:
  Family(const Model& model, const Aligner& aligner, const std::vector<Program>& programs)
      : model_(model), aligner_(aligner), programs_(programs), step_(programs.size() / kSample + 1) {}

  std::vector<Divergence> Find() {
    if (programs_.size() == 2) ComparePair(programs_[0], programs_[1]);
    if (programs_.size() > 2) ChooseReference();
    for (const Program* program : differ_) {
      if (asked_ > kMostAsked) break;
      Judge(*program);
    }
    return std::move(found_);
  }

 private:
  void Add(Divergence d, size_t agree, bool by_history) {
    d.siblings_agreeing = static_cast<int32_t>(agree);
    d.family_size = static_cast<int32_t>(programs_.size());
    d.by_history = by_history;
    found_.push_back(d);
  }

  // Two ranks are evidence against each other. The ranks that wait for one of the two decide; otherwise, the earlier
  // calls of both.
  void ComparePair(const Program& first, const Program& second) {
    const Aligner::Comparison c = aligner_.Compare(first, second);
    if (c.same) return;
    const int expected = aligner_.WhoStayed(first.rank, second.rank, c);
    const int keeps = expected < 0 ? aligner_.Precedent(c) : expected;
    if (keeps < 0) return;
    const Program &kept = keeps == 0 ? first : second, &left = keeps == 0 ? second : first;
    Aligner::Comparison told = keeps == 0 ? c : aligner_.Compare(second, first);
    aligner_.AskMembers(kept.rank, left.rank, &told);
    if (told.divergence && turned_.insert(left.rank).second) Add(*told.divergence, 1, expected < 0);
  }

  // The reference is a rank with a long record that most others agree with. A few candidates are enough unless most
  // ranks differ from each other.
  void ChooseReference() {
    std::vector<const Program*> candidates;
    for (const Program& p : programs_) candidates.push_back(&p);
    std::ranges::stable_sort(candidates, [](const Program* a, const Program* b) { return a->calls > b->calls; });
    if (candidates.size() > kCandidates) candidates.resize(kCandidates);
    for (const Program* candidate : candidates) {
      std::vector<const Program*> differ;
      for (const Program& other : programs_) {
        if (&other != candidate && !aligner_.Compare(*candidate, other).same) differ.push_back(&other);
      }
      if (const size_t agree = programs_.size() - differ.size(); agree > agreeing_) {
        differ_ = std::move(differ);
        agreeing_ = agree;
        reference_ = candidate;
      }
      if (2 * agreeing_ > programs_.size()) break;
    }
  }

  // Decides whether this program, which differs from the reference, or others left the program of the role.
  void Judge(const Program& own) {
    Aligner::Comparison c = aligner_.Compare(*reference_, own);
    const Program* sibling = reference_;
    Votes votes;
    for (bool first = true; !c.same && c.i > 0 && c.j > 0; first = false) {
      ++asked_;
      votes = Ask(step_, own, c);
      // If all members continued like this rank, they do so by design, and the rank is compared with one of them
      // instead.
      const bool legal = votes.fellow != nullptr && votes.fellows_reference == 0;
      if (!legal) break;
      c = first ? aligner_.Compare(*votes.fellow, own) : Aligner::Comparison();
      sibling = votes.fellow;
      votes = Votes();
    }
    if (c.same) return;
    aligner_.AskMembers(sibling->rank, own.rank, &c);
    if (votes.like_own.empty() && votes.like_reference.empty()) {  // no other rank shows who left
      if (2 * agreeing_ > programs_.size()) {
        if (c.divergence) Add(*c.divergence, agreeing_, c.divergence->by_history);
      } else if (sibling != reference_) {
        ComparePair(*sibling, own);
      }
      return;
    }
    // If both sides have equally many votes, the earlier calls of both decide.
    const int keeps = aligner_.Precedent(c);
    const bool by_history = votes.own == votes.reference;
    if (votes.own > votes.reference || (by_history && keeps == 1)) {
      AddThoseWhoTurned(own, c, by_history);
    } else if (c.divergence && (keeps == 0 || (votes.own < votes.reference && !IsAlone(model_, *c.divergence)))) {
      if (step_ > 1 && counted_++ < kMostCounted) votes = Ask(1, own, c);
      Add(*c.divergence, votes.like_reference.size(), by_history);
    }
  }

  // For a rank that followed the program: adds the ranks that continued like the reference, because they left it.
  void AddThoseWhoTurned(const Program& own, const Aligner::Comparison& c, bool by_history) {
    const Votes votes = Ask(0, own, c);
    // A communicator with ranks on both sides is evidence for both, but a few ranks do not outvote many.
    if (votes.like_own.size() + 1 < votes.like_reference.size()) return;
    const Token &before = (*c.b)[c.j - 1], &next = (*c.b)[c.j];
    std::set<uint32_t> comms = {
        CommOfKind(model_, own.rank, before.klass)};  // communicators whose ranks continued like this rank
    for (const Program* p : votes.like_own) comms.insert(CommOfKind(model_, p->rank, before.klass));
    for (const Program* p : votes.like_reference) {
      const bool apart = !comms.contains(CommOfKind(model_, p->rank, before.klass));
      if ((apart && !(by_history && p == reference_)) || !turned_.insert(p->rank).second) continue;
      const auto here = From(model_, *p, before, 0);
      const Aligner::Comparison back = aligner_.Compare(own, *p);
      Divergence left;
      if (back.divergence && back.divergence->own == here[1].op) {
        left = *back.divergence;
      } else {
        const bool added =
            (here.size() > 2 && Alike(here[2], next, SameKindOfCall(here[1], next))) || AddedSeveral(here, *c.b, c.j);
        left.type = added ? Divergence::Type::kExtra : Divergence::Type::kSkipped;
        left.rank = p->rank;
        left.own = here[1].op;
        left.sibling = next.op;
        left.sibling_rank = own.rank;
      }
      if (!IsAlone(model_, left)) Add(left, votes.like_own.size() + 1, by_history);
    }
  }

  // Returns whether `rank` made several calls more than `own` and then continued like it, rather than fewer.
  bool AddedSeveral(std::span<const Token> rank, const Segment& own, size_t j) const {
    const size_t added = aligner_.CallsUntil(rank, 1, own, j, kMinAgreement);
    const size_t left_out = aligner_.CallsUntil(own, j, rank, 1, kMinAgreement);
    return added > 0 && (left_out == 0 || added < left_out);
  }

  // Returns whether both are the same call. If `by_arguments` is set, arguments and places in the code must agree, too;
  // otherwise, the kind of call is enough.
  bool Alike(const Token& a, const Token& b, bool by_arguments) const {
    return by_arguments ? aligner_.SamePlace(a, b) : SameKindOfCall(a, b);
  }

  // Counts the votes of every `step`-th rank and of all members of the communicator. If `step` is 0, counts those of
  // all ranks, even if they differed earlier.
  Votes Ask(size_t step, const Program& rank, const Aligner::Comparison& c) const {
    const Token &before = (*c.b)[c.j - 1], &own = (*c.b)[c.j], &reference = (*c.a)[c.i];
    const bool by_arguments = SameKindOfCall(own, reference);
    const auto like = [&](const Token& next, const Token& side) { return Alike(next, side, by_arguments); };
    Votes votes;
    std::set<uint32_t> own_comms, reference_comms;
    const uint32_t comm = CommOfKind(model_, rank.rank, before.klass);
    const uint32_t own_comm = CommOfKind(model_, rank.rank, own.klass);
    for (size_t i = 0; i < programs_.size(); ++i) {
      const Program& p = programs_[i];
      if (&p == &rank || (step > 1 && i % step != 0 && CommOfKind(model_, p.rank, before.klass) != comm)) continue;
      const auto here = From(model_, p, before, 0);
      if (here.empty()) continue;
      const bool as_own = like(here[1], own), as_reference = like(here[1], reference);
      if (as_own == as_reference) continue;
      const uint32_t theirs = CommOfKind(model_, p.rank, before.klass);
      if (theirs != comm && step != 0 && !WereAlike(p, rank, before)) continue;
      // Communicators of one kind may have different sizes by design.
      if (by_arguments && step != 0 && CommOfKind(model_, p.rank, own.klass) != own_comm &&
          !CalledAlike(p, here[1], rank, own))
        continue;
      (as_own ? votes.like_own : votes.like_reference).push_back(&p);
      if (theirs != comm) {
        (as_own ? own_comms : reference_comms).insert(theirs);
      } else {
        ++(as_own ? votes.fellows_own : votes.fellows_reference);
        if (as_own) votes.fellow = &p;
      }
    }
    votes.own += votes.fellows_own + own_comms.size();
    votes.reference += votes.fellows_reference + reference_comms.size();
    return votes;
  }

  // Returns whether both ranks made the same earlier calls on their communicators. True for sends and receives.
  bool CalledAlike(const Program& a, const Token& x, const Program& b, const Token& y) const {
    bool any = !IsCollective(y.op->kind);
    for (int64_t back = 1; back <= kEarlier && IsCollective(y.op->kind); ++back) {
      const auto p = From(model_, a, x, back), q = From(model_, b, y, back);
      if (p.empty() || q.empty()) continue;
      if (!aligner_.SamePlace(p[0], q[0])) return false;
      any = true;
    }
    return any;
  }

  // Returns whether both ranks continued with the same kind of call after each of the recent calls like `before`.
  bool WereAlike(const Program& a, const Program& b, const Token& before) const {
    bool any = false;
    for (int64_t back = 1; back <= kEarlier; ++back) {
      const auto x = From(model_, a, before, back), y = From(model_, b, before, back);
      if (x.empty() || y.empty()) continue;
      if (!SameKindOfCall(x[1], y[1])) return false;
      any = true;
    }
    return any;
  }

  static constexpr int64_t kEarlier = 3;  // number of earlier calls that are compared

  const Model& model_;
  const Aligner& aligner_;
  const std::vector<Program>& programs_;
  const size_t step_;
  std::vector<const Program*> differ_;  // programs that differ from the reference
  const Program* reference_ = nullptr;
  size_t agreeing_ = 0, asked_ = 0, counted_ = 0;
  std::set<int32_t> turned_;  // ranks that left the program together with the reference
  std::vector<Divergence> found_;
};

}  // namespace

std::vector<Divergence> FindDivergences(const Model& model, bool hung) {
  std::vector<Divergence> found;
  const Aligner aligner(model, hung);
  for (const auto& [key, programs] : ReadPrograms(model)) {
    for (const Divergence& d : Family(model, aligner, programs).Find()) found.push_back(d);
  }
  // If several threads of a rank left their program, the first divergence is used.
  auto at = [&](const Divergence& d) { return d.own != nullptr ? d.own->enter_ns : INT64_MAX; };
  std::ranges::stable_sort(found, [&](const Divergence& a, const Divergence& b) {
    return a.rank != b.rank ? a.rank < b.rank : at(a) < at(b);
  });
  found.erase(std::unique(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.rank == b.rank; }),
              found.end());
  std::erase_if(found, [&](const Divergence& d) { return IsByDesign(model, d, hung); });
  return found;
}

}  // namespace lockstep
