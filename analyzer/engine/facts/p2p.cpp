// Compares sends with receives: pairs that matched with different counts or datatypes, and which side is wrong.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/alltoall.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/util/rank_text.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::IsPointToPoint;

struct Place {
  uint32_t comm;
  int32_t member;
  const Op* op;
};

// The arguments that most members at the same place of other communicators of the class passed: (count, datatype), and
// the number of those members.
struct Vote {
  std::map<std::pair<int64_t, uint8_t>, int> counts;
  std::pair<int64_t, uint8_t> usual = {-1, 0};
  int for_usual = 0, total = 0;
};

class Siblings {
 public:
  explicit Siblings(const Model& model) : model_(model) {
    for (const CommView& view : model.comms) of_class_[view.klass].push_back(&view);
  }

  // Returns whether only the rank at this place passes its arguments, while the corresponding ranks agree on different
  // ones.
  bool Odd(const Place& place) {
    const Vote& vote = Of(place);
    return vote.total >= 3 && vote.for_usual * 2 > vote.total &&
           vote.usual != std::pair(place.op->count, place.op->datatype);
  }

 private:
  const Vote& Of(const Place& place) {
    constexpr int kEnough = 64;
    const std::string& klass = model_.comms[place.comm].klass;
    const auto key =
        std::make_tuple(klass, place.member, static_cast<int>(place.op->kind), place.op->root_or_peer, place.op->seq);
    auto [it, fresh] = votes_.try_emplace(key);
    if (!fresh) return it->second;
    Vote& vote = it->second;
    for (const CommView* view : of_class_[klass]) {
      if (static_cast<size_t>(place.member) >= view->members.size()) continue;
      const Member& m = view->members[static_cast<size_t>(place.member)];
      if (m.rank_index < 0 || m.membership == kNoIndex) continue;
      const Op* op = model_.FindPointToPoint(m, place.op->kind, place.op->root_or_peer, place.op->seq);
      if (op == nullptr) continue;
      ++vote.total;
      const int n = ++vote.counts[{op->count, op->datatype}];
      if (n > vote.for_usual) {
        vote.for_usual = n;
        vote.usual = {op->count, op->datatype};
      }
      if (vote.total >= kEnough) break;
    }
    return vote;
  }

  const Model& model_;
  absl::flat_hash_map<std::string, std::vector<const CommView*>> of_class_;
  std::map<std::tuple<std::string, int32_t, int, int32_t, int64_t>, Vote> votes_;
};

// Returns the number of elements sent or received; -1 if unknown.
int64_t Elements(const Op& op) {
  return op.count >= 0 ? op.count : op.kind == CallKind::kSend ? op.input_elements : op.output_elements;
}

bool TypesDiffer(const Op& a, const Op& b) {
  return a.datatype != b.datatype && a.datatype != ring::kNoDatatype && b.datatype != ring::kNoDatatype;
}

// The sends of one member to one peer, or its receives from one peer, in order of the numbers.
using Lane = std::vector<const Op*>;
// Indexed by (member, peer).
using Lanes = absl::flat_hash_map<std::pair<int32_t, int32_t>, Lane>;

void Collect(const Rank& rank, uint32_t membership, int32_t member, Lanes* sends, Lanes* receives) {
  for (const Op& op : rank.ops) {
    if (op.membership != membership || !IsPointToPoint(op.kind) || op.state == OpState::kFailed || op.count < 0)
      continue;
    (op.kind == CallKind::kSend ? *sends : *receives)[{member, op.root_or_peer}].push_back(&op);
  }
}

void Sort(Lanes* lanes) {
  auto by_number = [](const Op* a, const Op* b) { return a->seq < b->seq; };
  for (auto& [key, lane] : *lanes) {
    if (!std::is_sorted(lane.begin(), lane.end(), by_number)) std::stable_sort(lane.begin(), lane.end(), by_number);
  }
}

const Op* At(const Lane& lane, int64_t seq) {
  const auto it = std::lower_bound(lane.begin(), lane.end(), seq, [](const Op* op, int64_t n) { return op->seq < n; });
  return it != lane.end() && (*it)->seq == seq ? *it : nullptr;
}

struct Misfit {
  const Op *send = nullptr, *recv = nullptr;
  std::pair<int32_t, int32_t> pair;  // members that send and receive
};

// The first unfinished send of the communicator whose receive has another size. Only for Flight Recorder dumps, whose
// sequence numbers do not match sends with receives. A completed send had the right size.
Misfit FirstOfFrameworks(const Model& model, uint32_t comm) {
  Misfit first;
  const auto& members = model.comms[comm].members;
  for (size_t m = 0; m < members.size(); ++m) {
    if (members[m].rank_index < 0 || members[m].membership == kNoIndex) continue;
    const Rank& rank = model.bundle.ranks[static_cast<size_t>(members[m].rank_index)];
    if (rank.source != Source::kFlightRecorder) continue;
    for (const Unit& unit : model.ranks[static_cast<size_t>(members[m].rank_index)].in_flight) {
      for (const uint32_t i : unit.ops) {
        const Op& op = rank.ops[i];
        if (op.membership != members[m].membership || op.kind != CallKind::kSend || op.root_or_peer < 0 ||
            static_cast<size_t>(op.root_or_peer) >= members.size())
          continue;
        bool counted = false;
        const Op* other =
            model.OtherSide(members[m].rank_index, op, members[static_cast<size_t>(op.root_or_peer)], &counted);
        if (other == nullptr || !counted || ExchangeFits(op, *other)) continue;
        if (first.send == nullptr || op.enter_ns < first.send->enter_ns)
          first = {&op, other, {static_cast<int32_t>(m), op.root_or_peer}};
      }
    }
  }
  return first;
}

}  // namespace

bool ExchangeFits(const Op& a, const Op& b) {
  const int64_t own = Elements(a), other = Elements(b);
  return !TypesDiffer(a, b) && (own < 0 || other < 0 || own == other);
}

void FindPointToPointMismatches(const Model& model, std::vector<Mismatch>* found) {
  const Bundle& bundle = model.bundle;
  Siblings siblings(model);
  Lanes sends, receives;
  for (uint32_t c = 0; c < model.comms.size(); ++c) {
    if (!model.comms[c].used_for_p2p) continue;
    const auto& members = model.comms[c].members;
    sends.clear();
    receives.clear();
    for (size_t m = 0; m < members.size(); ++m) {
      if (members[m].rank_index < 0 || members[m].membership == kNoIndex) continue;
      const Rank& rank = bundle.ranks[members[m].rank_index];
      if (rank.source == Source::kFlightRecorder) continue;  // its numbers do not match sends with receives
      Collect(rank, members[m].membership, static_cast<int32_t>(m), &sends, &receives);
    }
    Sort(&sends);
    Sort(&receives);
    // The first pair that does not match, by number, then by sender and receiver.
    const Op *send = nullptr, *recv = nullptr;
    std::pair<int32_t, int32_t> pair;
    for (const auto& [key, lane] : sends) {
      auto other = receives.find({key.second, key.first});
      if (other == receives.end()) continue;
      for (size_t i = 0, j = 0; i < lane.size() && j < other->second.size();) {
        const Op &s = *lane[i], &r = *other->second[j];
        if (s.seq != r.seq) {
          ++(s.seq < r.seq ? i : j);
          continue;
        }
        if (!ExchangeFits(s, r)) {
          if (send == nullptr || std::tie(s.seq, key) < std::tie(send->seq, pair)) send = &s, recv = &r, pair = key;
          break;
        }
        ++i, ++j;
      }
    }
    if (send == nullptr) {
      const Misfit misfit = FirstOfFrameworks(model, c);
      send = misfit.send;
      recv = misfit.recv;
      pair = misfit.pair;
    }
    if (send == nullptr) continue;
    Mismatch first;
    first.comm = c;
    first.seq = send->seq;
    first.sender = pair.first;
    first.receiver = pair.second;
    first.kind = TypesDiffer(*send, *recv) ? MISMATCH_DATATYPE : MISMATCH_COUNT;
    first.members_seen = 2;
    const int32_t from = members[pair.first].rank_index, to = members[pair.second].rank_index;
    bool sender_odd = false, receiver_odd = false;
    if (first.kind == MISMATCH_COUNT && IsExchangeOfAll(model, c, pair.first, *send) &&
        IsExchangeOfAll(model, c, pair.second, *recv)) {
      first.kind = MISMATCH_SPLITS;
      const SplitVerdict splits = JudgeSplits(model, c, pair.first, pair.second, *send, *recv);
      sender_odd = splits.side == SplitSide::kSender;
      receiver_odd = splits.side == SplitSide::kReceiver;
      first.why = splits.why;
    } else {
      sender_odd = siblings.Odd({c, pair.first, send});
      receiver_odd = siblings.Odd({c, pair.second, recv});
    }
    first.majority = sender_odd != receiver_odd;
    first.odd_ranks = !first.majority ? std::vector<int32_t>{std::min(from, to), std::max(from, to)}
                      : sender_odd    ? std::vector<int32_t>{from}
                                      : std::vector<int32_t>{to};
    const int32_t odd = sender_odd ? pair.first : pair.second;
    for (const auto& [key, lane] : sends) {
      if (first.kind != MISMATCH_SPLITS || !first.majority || key == pair || (key.first != odd && key.second != odd))
        continue;
      const auto other = receives.find({key.second, key.first});
      const Op* s = At(lane, first.seq);
      const Op* r = other == receives.end() ? nullptr : At(other->second, first.seq);
      if (s != nullptr && r != nullptr && !ExchangeFits(*s, *r)) first.pairs.push_back(key);
    }
    std::sort(first.pairs.begin(), first.pairs.end());
    const bool tell_sender = first.odd_ranks[0] == from;
    first.odd_op = tell_sender ? send : recv;
    first.odd_rank = first.odd_ranks[0];
    first.usual_op = tell_sender ? recv : send;
    first.usual_rank = tell_sender ? to : from;
    auto text = [&](const Op& op) {
      return first.kind == MISMATCH_DATATYPE ? DatatypeText(op.datatype)
                                             : absl::StrCat("count ", CountText(Elements(op)));
    };
    first.odd_text = text(*first.odd_op);
    first.usual_text = text(*first.usual_op);
    found->push_back(std::move(first));
  }
}

}  // namespace lockstep
