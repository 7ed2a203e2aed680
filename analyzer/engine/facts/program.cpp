#include "analyzer/engine/facts/program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/engine/facts/program_read.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::IsCollective;
using ring::IsPointToPoint;

// Calls compared after a difference to see how the two programs rejoin.
constexpr size_t kLookAhead = 24;
// Calls that must agree before a difference counts. Otherwise the records may simply not be aligned.
constexpr size_t kMinAgreement = 4;
// This many equal consecutive calls are not a coincidence.
constexpr size_t kMuch = 8;
// Number of calls that are looked up in another record to align the two.
constexpr size_t kAnchorTries = 256;
// Ranks tried as the reference of a family.
constexpr size_t kCandidates = 6;

// If this many calls before a difference also occurred earlier in the same order, the call that followed them at that
// time is evidence.
constexpr size_t kContexts[] = {8, 32, 128, 512};

uint64_t PlaceKey(const Token& t) {
  // Sends and receives are numbered per peer and direction, collectives per communicator.
  const uint64_t lane = t.exchange                   ? 99 * 65536
                        : IsPointToPoint(t.op->kind) ? 1 + static_cast<uint64_t>(t.op->kind) * 65536 + (t.peer & 0xffff)
                                                     : 0;
  return (static_cast<uint64_t>(t.klass) << 52) ^ (lane << 32) ^ static_cast<uint64_t>(t.op->seq);
}

class Aligner {
 public:
  explicit Aligner(const Model& model) : model_(model) {}

  bool SameCall(const Token& a, const Token& b) const {
    if (a.klass != b.klass || a.exchange != b.exchange) return false;
    if (a.exchange) return true;
    if (IsPointToPoint(a.op->kind) || IsPointToPoint(b.op->kind)) {
      return a.op->kind == b.op->kind && a.peer == b.peer;
    }
    return CompareCalls(model_.bundle, *a.op, *b.op, nullptr, nullptr) == FINDING_UNSPECIFIED;
  }

  // Two ranks that left the reference in the same way count as one vote.
  bool Alike(const Divergence& a, const Divergence& b) const {
    if (a.type != b.type || a.sibling->kind != b.sibling->kind || a.sibling->seq != b.sibling->seq) return false;
    return CompareCalls(model_.bundle, *a.own, *b.own, nullptr, nullptr) == FINDING_UNSPECIFIED;
  }

  // Returns whether the calls are the same, from the same place in the code if both places are known.
  bool SamePlace(const Token& a, const Token& b) const {
    if (!SameCall(a, b)) return false;
    if (a.op->caller != 0 && b.op->caller != 0) {
      return a.op->caller == b.op->caller && a.op->caller_object == b.op->caller_object;
    }
    if (a.op->call_site != kNoIndex && b.op->call_site != kNoIndex) return a.op->call_site == b.op->call_site;
    return true;
  }

  // Returns how many consecutive calls agree from there; the end of a record agrees with everything.
  size_t Run(const Segment& a, size_t i, const Segment& b, size_t j) const {
    size_t n = 0;
    while (n < kLookAhead && i + n < a.size() && j + n < b.size() && SamePlace(a[i + n], b[j + n])) {
      ++n;
    }
    return n;
  }

  // The same for a moved call: `late` issues later what `early` issues at once. Returns how many consecutive calls then
  // agree, or 0 if `late` never issues the call.
  size_t MovedRun(const Segment& early, size_t i, const Segment& late, size_t j) const {
    for (size_t d = 1; d < kLookAhead && j + d < late.size() && i + d < early.size(); ++d) {
      if (!SamePlace(early[i + d], late[j + d - 1])) return 0;
      if (SamePlace(late[j + d], early[i])) return d + 1 + Run(early, i + d + 1, late, j + d + 1);
    }
    return 0;
  }

  // Returns whether `b` runs the same program as `a`, as far as both records reach. If it does not, `divergence` is the
  // place where they differ, if that can be determined.
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

  // Returns which of two programs does at that place what both have done there before: 0 the first, 1 the second, -1
  // unknown.
  int Precedent(const Comparison& c) const {
    // What follows a repeated call depends on how often it was repeated.
    size_t run = 1;
    while (run < c.i && SamePlace((*c.a)[c.i - run - 1], (*c.a)[c.i - 1])) ++run;
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
      if (votes[0] >= 2 && votes[1] == 0) return 0;
      if (votes[1] >= 2 && votes[0] == 0) return 1;
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
      // Compares how both continue if the other rank's next call was skipped, a call was added, or this call changed.
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
      // Ranks may exchange with different peers by design; only their earlier calls show that these two do not.
      const bool collectives = IsCollective(a[i].op->kind) && IsCollective(b[j].op->kind);
      if (agreed < kMinAgreement && !(from_the_start && collectives)) return {};
      Divergence d;
      d.sibling = a[i].op;
      d.own = b[j].op;
      const size_t moved = std::max(MovedRun(a, i, b, j), MovedRun(b, j, a, i));
      // A call on the same communicator with different arguments.
      const bool same_lane = a[i].klass == b[j].klass && IsCollective(a[i].op->kind) == IsCollective(b[j].op->kind);
      // NOLINTBEGIN(bugprone-branch-clone): the order matters
      if (moved > skipped && moved > extra && moved > changed + 1) {
        d.type = Divergence::Type::kReordered;
      } else if (changed > 0 && changed >= skipped && changed >= extra && same_lane && !same_call) {
        d.type = Divergence::Type::kChanged;
      } else if (skipped > 0 || extra > 0) {
        d.type = skipped >= extra ? Divergence::Type::kSkipped : Divergence::Type::kExtra;
      } else if (i + 1 == a.size() && DoneBefore(a, b, j)) {
        // The other rank waits in a call that it rarely makes; this one continued with the call that follows such
        // places.
        d.type = Divergence::Type::kSkipped;
      } else if (j > 0 && SamePlace(b[j], b[j - 1])) {
        d.type = Divergence::Type::kExtra;  // the record ends at a repeated call
      } else if (ComesLater(a, i, b, j)) {
        d.type = Divergence::Type::kSkipped;  // several calls at once
      } else if (j > 0 && SameCall(b[j], b[j - 1])) {
        d.type = Divergence::Type::kExtra;  // the same, from another line
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

  // Returns whether `a` has earlier made, consecutively, all calls that `b` makes from there on, if there are enough of
  // them.
  bool DoneBefore(const Segment& a, const Segment& b, size_t j) const {
    const size_t whole = std::min(kLookAhead, b.size() - j);
    for (size_t k = 0; whole >= kMuch && k + whole <= a.size(); ++k) {
      if (Run(a, k, b, j) >= whole) return true;
    }
    return false;
  }

  // Returns whether `a` also makes the remaining calls of `b`, but some calls later.
  bool ComesLater(const Segment& a, size_t i, const Segment& b, size_t j) const {
    constexpr size_t kFar = 64;
    const size_t whole = std::min(kLookAhead, b.size() - j);
    for (size_t d = 1; d <= kFar && i + d + whole <= a.size(); ++d) {
      if (Run(a, i + d, b, j) >= whole) return true;
    }
    return false;
  }

  // Finds the first calls of both that are at the same place in the program.
  static bool Anchor(const Segment& a, const Segment& b, size_t* i, size_t* j) {
    // Records of ranks with one role begin within a few calls of each other, unless they have nothing in common.
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

  // Returns the position after which `a` shows how it continues. That is i, unless the record ends there because the
  // rank waits there: then it is the last earlier time that the program was at this place.
  size_t Continuation(const Segment& a, size_t i) const {
    if (i + 1 < a.size()) return i;
    for (size_t k = i; k-- > 1;) {
      if (SamePlace(a[k], a[i]) && SamePlace(a[k - 1], a[i - 1])) return k;
    }
    return i;
  }

  const Model& model_;
};

// The call of most members of a communicator at that number, if they differ; null if they agree or it is unknown.
const Op* MajorityCall(const Model& model, uint32_t comm, int64_t seq) {
  constexpr size_t kMostCalls = 8;  // with more calls, each rank has its own
  std::vector<std::pair<const Op*, size_t>> calls;
  size_t seen = 0;
  for (const Member& m : model.comms[comm].members) {
    const Op* op = m.rank_index >= 0 && m.membership != kNoIndex ? model.FindCollective(m, seq) : nullptr;
    if (op == nullptr) continue;
    ++seen;
    auto same = std::find_if(calls.begin(), calls.end(), [&](const auto& call) {
      return CompareCalls(model.bundle, *call.first, *op, nullptr, nullptr) == FINDING_UNSPECIFIED;
    });
    if (same == calls.end() && calls.size() == kMostCalls) return nullptr;
    if (same == calls.end()) same = calls.insert(calls.end(), {op, 0});
    ++same->second;
  }
  for (const auto& [op, n] : calls) {
    if (calls.size() > 1 && 2 * n > seen) return op;
  }
  return nullptr;
}

// The rank's own communicator of a class; null if there is none.
const Membership* MembershipOf(const Model& model, int32_t rank_index, const std::string& klass) {
  const auto& all = model.bundle.ranks[static_cast<size_t>(rank_index)].memberships;
  const auto at = std::find_if(all.begin(), all.end(), [&](const Membership& ms) {
    return ms.member_rank >= 0 && model.comms[ms.comm].klass == klass;
  });
  return at == all.end() ? nullptr : &*at;
}

// Returns whether most other members of the communicator in question made these two calls in the order of the rank that
// differs. Then the rank left nothing out and added nothing: its communicator has its own number of rounds.
bool FellowsAgree(const Model& model, const Divergence& d) {
  constexpr int kEnough = 64;
  if (d.own == nullptr || d.type == Divergence::Type::kChanged || !IsCollective(d.own->kind) ||
      !IsCollective(d.sibling->kind))
    return false;
  const Rank &rank = model.bundle.ranks[static_cast<size_t>(d.rank)],
             &sibling = model.bundle.ranks[static_cast<size_t>(d.sibling_rank)];
  const uint32_t of_own = model.CommOf(rank, *d.own);
  const std::string &own = model.comms[of_own].klass, &other = model.comms[model.CommOf(sibling, *d.sibling)].klass;
  if (own == other) return false;
  const Membership* in = MembershipOf(model, d.rank, other);
  if (in == nullptr) return false;
  int agree = 0, disagree = 0;
  for (const Member& m : model.comms[d.type == Divergence::Type::kExtra ? of_own : in->comm].members) {
    if (m.rank_index < 0 || m.rank_index == d.rank || m.membership == kNoIndex) continue;
    const Membership *x = MembershipOf(model, m.rank_index, own), *y = MembershipOf(model, m.rank_index, other);
    if (x == nullptr || y == nullptr) continue;
    const Member &of_x = model.comms[x->comm].members[static_cast<size_t>(x->member_rank)],
                 &of_y = model.comms[y->comm].members[static_cast<size_t>(y->member_rank)];
    const Op *first = model.FindCollective(of_x, d.own->seq), *second = model.FindCollective(of_y, d.sibling->seq);
    if (first != nullptr && second != nullptr) {
      ++(first < second ? agree : disagree);
    } else if (first != nullptr && of_y.arrived < d.sibling->seq) {
      ++agree;
    } else if (second != nullptr && of_x.arrived < d.own->seq) {
      ++disagree;
    }
    if (agree + disagree == kEnough) break;
  }
  return agree > disagree;
}

// For a call on a communicator, its members are better evidence than ranks with the same role. If all members did the
// same, it is allowed, whatever the corresponding communicators do: a replica may have its own number of rounds. If
// they differ, the rank that agrees with the majority has left nothing out and added nothing; wrongly aligned records
// would suggest that the majority had.
void DropAgreeing(const Model& model, std::vector<Divergence>* found) {
  constexpr size_t kMany = 3;
  struct Call {
    std::tuple<std::string, int, int64_t> key = {"", 0, kUnknown};  // kind of communicator, type, number there
    uint32_t comm = kNoIndex;                                       // the rank's own communicator of that kind
    const Op* own = nullptr;                                        // this rank's call of that number
  };
  const auto call_of = [&](const Divergence& d) {
    Call call;
    const bool own = d.type != Divergence::Type::kSkipped;
    const Op* op = own ? d.own : d.sibling;
    if (op == nullptr || op->membership == kNoIndex) return call;
    const Rank& rank = model.bundle.ranks[static_cast<size_t>(own ? d.rank : d.sibling_rank)];
    const std::string& klass = model.comms[model.CommOf(rank, *op)].klass;
    call.key = {klass, static_cast<int>(d.type), op->seq};
    for (const Membership& ms : model.bundle.ranks[static_cast<size_t>(d.rank)].memberships) {
      if (model.comms[ms.comm].klass != klass) continue;
      call.comm = ms.comm;
      if (!IsCollective(op->kind) || ms.member_rank < 0) continue;
      call.own = own ? op : model.FindCollective(model.comms[ms.comm].members[ms.member_rank], op->seq);
    }
    return call;
  };
  std::map<std::tuple<std::string, int, int64_t>, std::set<int32_t>> alike;
  for (const Divergence& d : *found) alike[call_of(d).key].insert(d.rank);
  std::map<std::pair<uint32_t, int64_t>, const Op*> majorities;
  std::map<uint32_t, size_t> seen_in;  // number of members with data, by communicator
  std::erase_if(*found, [&](const Divergence& d) {
    if (FellowsAgree(model, d)) return true;
    const Call call = call_of(d);
    const std::set<int32_t>& ranks = alike[call.key];
    for (const Membership& ms : model.bundle.ranks[static_cast<size_t>(d.rank)].memberships) {
      const std::vector<Member>& members = model.comms[ms.comm].members;
      const auto [count, unseen] = seen_in.try_emplace(ms.comm, 0);
      if (unseen)
        count->second = static_cast<size_t>(
            std::count_if(members.begin(), members.end(), [](const Member& m) { return m.rank_index >= 0; }));
      const size_t seen = count->second;
      if (2 * ranks.size() <= seen) continue;
      const auto in = static_cast<size_t>(std::count_if(members.begin(), members.end(), [&](const Member& m) {
        return m.rank_index >= 0 && ranks.contains(m.rank_index);
      }));
      // If all members with data diverge alike, the divergence is allowed. A single member is no proof if it had never
      // diverged like this before. Nor is it proof if it made the same call with other arguments, because another
      // number of rounds explains only missing or additional calls.
      const bool proof = in > 1 || (!d.against_history && d.type != Divergence::Type::kChanged);
      if (in == seen ? proof && ms.comm == call.comm : in >= kMany && 2 * in > seen) return true;
    }
    if (call.own == nullptr) return false;
    const auto [at, fresh] = majorities.try_emplace({call.comm, call.own->seq}, nullptr);
    if (fresh) at->second = MajorityCall(model, call.comm, call.own->seq);
    return at->second != nullptr &&
           CompareCalls(model.bundle, *call.own, *at->second, nullptr, nullptr) == FINDING_UNSPECIFIED;
  });
}

// The ranks of a family that made each call of the reference that others left out: the reference and the ranks that
// never leave it. A rank that stopped before a place agrees with both sides and is evidence for neither.
class Makers {
 public:
  Makers(const Model& model, const Aligner& aligner, const std::vector<Program>& family, const Program& ref,
         const std::vector<Divergence>& differ)
      : model_(model) {
    absl::flat_hash_set<const Op*> left;
    absl::flat_hash_set<int32_t> leavers;
    for (const Divergence& d : differ) {
      left.insert(d.sibling);
      leavers.insert(d.rank);
    }
    absl::flat_hash_map<uint64_t, Token> places;
    for (const Segment& segment : ref.segments) {
      for (const Token& token : segment) {
        if (left.contains(token.op)) places.emplace(PlaceKey(token), token);
      }
    }
    for (const auto& [key, token] : places) made_[token.op] = {ref.rank};
    for (const Program& p : family) {
      if (&p == &ref || leavers.contains(p.rank)) continue;
      absl::flat_hash_set<const Op*> seen;  // a thread's record may contain a place twice
      for (const Segment& segment : p.segments) {
        for (const Token& token : segment) {
          const auto at = places.find(PlaceKey(token));
          if (at != places.end() && aligner.SameCall(token, at->second) && seen.insert(at->second.op).second)
            made_[at->second.op].push_back(p.rank);
        }
      }
    }
  }

  size_t Of(const Op* call) const {
    const auto at = made_.find(call);
    return at == made_.end() ? 1 : at->second.size();
  }

  // Members of one communicator make its calls together, so each other communicator is one piece of evidence.
  size_t WitnessesAgainst(const Divergence& d) const {
    const auto at = made_.find(d.sibling);
    if (at == made_.end()) return 1;
    const bool extra = d.type == Divergence::Type::kExtra;
    const auto& bundle = model_.bundle;
    const std::string& klass =
        model_
            .comms[model_.CommOf(bundle.ranks[static_cast<size_t>(extra ? d.rank : d.sibling_rank)],
                                 extra ? *d.own : *d.sibling)]
            .klass;
    const Membership* own = MembershipOf(model_, d.rank, klass);
    size_t fellows = 0;
    std::set<uint32_t> others;
    for (const int32_t rank : at->second) {
      const Membership* theirs = MembershipOf(model_, rank, klass);
      const bool fellow = theirs == nullptr || (own != nullptr && own->comm == theirs->comm);
      fellows += fellow;
      if (!fellow) others.insert(theirs->comm);
    }
    return fellows + others.size();
  }

 private:
  const Model& model_;
  absl::flat_hash_map<const Op*, std::vector<int32_t>> made_;  // the ranks
};

}  // namespace

std::vector<Divergence> FindDivergences(const Model& model, bool strands) {
  const std::map<std::string, std::vector<Program>> families = ReadPrograms(model, strands);
  std::vector<Divergence> found;
  const Aligner aligner(model);
  for (const auto& [key, family] : families) {
    if (family.size() == 2) {
      // If two ranks differ, each is evidence against the other; then what both did before decides.
      const Aligner::Comparison c = aligner.Compare(family[0], family[1]);
      const int keeps = c.same ? -1 : aligner.Precedent(c);
      if (keeps < 0) continue;
      const Aligner::Comparison told = keeps == 0 ? c : aligner.Compare(family[1], family[0]);
      if (!told.divergence) continue;
      found.push_back(*told.divergence);
      found.back().siblings_agreeing = 1;
      found.back().family_size = 2;
      found.back().by_history = true;
      continue;
    }
    if (family.size() < 3) continue;
    // The reference is a rank with a long record that most others agree with. A few candidates are enough unless most
    // ranks differ from each other.
    std::vector<const Program*> candidates;
    for (const Program& p : family) candidates.push_back(&p);
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Program* a, const Program* b) { return a->calls > b->calls; });
    if (candidates.size() > kCandidates) candidates.resize(kCandidates);
    std::vector<Divergence> best;
    const Program* reference = nullptr;
    size_t agreeing = 0;
    for (const Program* ref : candidates) {
      std::vector<Divergence> differ;
      size_t agree = 1;
      for (const Program& other : family) {
        if (&other == ref) continue;
        const Aligner::Comparison c = aligner.Compare(*ref, other);
        agree += c.same;
        if (c.divergence) differ.push_back(*c.divergence);
      }
      if (agree > agreeing || (agree == agreeing && differ.size() > best.size())) {
        best = std::move(differ);
        agreeing = agree;
        reference = ref;
      }
      if (2 * agreeing > family.size()) break;
    }
    if (best.empty()) continue;
    // Compares each with the first of every kind, because thousands may differ in the same way.
    std::vector<std::pair<const Divergence*, size_t>> kinds;
    const auto kind_of = [&](const Divergence& d) {
      return std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return aligner.Alike(d, *k.first); });
    };
    for (const Divergence& d : best) {
      auto kind = kind_of(d);
      if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {&d, 0});
      ++kind->second;
    }
    const auto biggest =
        std::max_element(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    const Makers makers(model, aligner, family, *reference, best);
    const auto program_of = [&programs = family](int32_t rank) {
      return std::find_if(programs.begin(), programs.end(), [&](const Program& p) { return p.rank == rank; });
    };
    // If more ranks made the other call than the reference's call, and most of those that differ agree on it, the
    // reference left the program, and so did the ranks that agree with it.
    if (biggest->second >= 2 && makers.Of(biggest->first->sibling) < biggest->second &&
        2 * biggest->second > best.size()) {
      const Program& theirs = *program_of(biggest->first->rank);
      const size_t before = found.size();
      for (const Program& p : family) {
        if (&p != reference && !aligner.Compare(*reference, p).same) continue;
        const auto told = aligner.Compare(theirs, p).divergence;
        if (!told) continue;
        found.push_back(*told);
        found.back().siblings_agreeing = static_cast<int32_t>(biggest->second);
        found.back().family_size = static_cast<int32_t>(family.size());
      }
      if (found.size() > before) continue;
    }
    if (agreeing < 2 || agreeing <= biggest->second) continue;
    for (Divergence& d : best) {
      const size_t alike = kind_of(d)->second, made = makers.Of(d.sibling);
      d.siblings_agreeing = static_cast<int32_t>(made);
      d.family_size = static_cast<int32_t>(family.size());
      const Program &own = *program_of(d.rank), &ref = *reference;
      const int keeps = aligner.Precedent(aligner.Compare(ref, own));
      d.against_history = keeps == 0;
      // The evidence is equal on both sides, so treat it like a family of two.
      if (makers.WitnessesAgainst(d) <= alike) {
        if (keeps < 0) continue;
        if (keeps == 1) {
          if (alike > 1) continue;
          const Aligner::Comparison turned = aligner.Compare(own, ref);
          if (!turned.divergence) continue;
          d = *turned.divergence;
          d.siblings_agreeing = static_cast<int32_t>(alike);
          d.family_size = static_cast<int32_t>(family.size());
        }
        d.by_history = true;
      } else if (made <= best.size()) {
        continue;  // as many ranks left the reference, at different places, as follow it: no common order
      }
      found.push_back(d);
    }
  }
  // If several threads of a rank left their program, the first one to leave is used.
  auto at = [&](const Divergence& d) { return d.own != nullptr ? d.own->enter_ns : INT64_MAX; };
  std::stable_sort(found.begin(), found.end(), [&](const Divergence& a, const Divergence& b) {
    return a.rank != b.rank ? a.rank < b.rank : at(a) < at(b);
  });
  found.erase(std::unique(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.rank == b.rank; }),
              found.end());
  DropAgreeing(model, &found);
  return found;
}

}  // namespace lockstep
