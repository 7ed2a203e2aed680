// Compares sends with receives: pairs that matched with different counts or datatypes, and which side is wrong.
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "analyzer/engine/facts/alltoall.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/util/rank_text.h"

namespace lockstep {
namespace {

using ring::CallKind;

struct Place {
  uint32_t comm;
  int32_t member;
  const Op* op;
};

using Arguments = std::pair<int64_t, uint8_t>;  // count, datatype

// How many corresponding members of communicators of the class made a call, and the arguments that most of them passed.
struct Vote {
  int total = 0, for_usual = 0;
  Arguments usual = {-1, 0};
};

class Siblings {
 public:
  explicit Siblings(const Model& model) : model_(model) {}

  // Returns whether more than half of the corresponding ranks (at least three, this one included) agree on other
  // arguments.
  bool Odd(const Place& place) {
    const Vote& vote = Of(place);
    return vote.total >= 3 && vote.for_usual * 2 > vote.total &&
           vote.usual != Arguments(place.op->count, place.op->datatype);
  }

 private:
  const Vote& Of(const Place& place) {
    constexpr int kEnough = 64;
    const uint32_t kind = model_.comms[place.comm].kind;
    const auto key =
        std::make_tuple(kind, place.member, static_cast<int>(place.op->kind), place.op->root_or_peer, place.op->seq);
    auto [it, fresh] = votes_.try_emplace(key);
    if (!fresh) return it->second;
    Vote& vote = it->second;
    std::map<Arguments, int> counts;
    for (const uint32_t c : model_.kinds[kind]) {
      const std::vector<Member>& members = model_.comms[c].members;
      if (static_cast<size_t>(place.member) >= members.size()) continue;
      const Member& m = members[place.member];
      if (!m.recorded()) continue;
      const Op* op = model_.FindPointToPoint(m, place.op->kind, place.op->root_or_peer, place.op->seq);
      if (op == nullptr) continue;
      ++vote.total;
      const Arguments passed(op->count, op->datatype);
      if (++counts[passed] > vote.for_usual) vote.for_usual = counts[passed], vote.usual = passed;
      if (vote.total >= kEnough) break;
    }
    return vote;
  }

  const Model& model_;
  std::map<std::tuple<uint32_t, int32_t, int, int32_t, int64_t>, Vote> votes_;
};

// Returns the number of elements sent or received; -1 if unknown.
int64_t Elements(const Op& op) {
  return op.count >= 0 ? op.count : op.kind == CallKind::kSend ? op.input_elements : op.output_elements;
}

bool TypesDiffer(const Op& a, const Op& b) {
  return a.datatype != b.datatype && a.datatype != ring::kNoDatatype && b.datatype != ring::kNoDatatype;
}

// Returns entry `seq` of a lane of the rank, or null.
const Op* At(const Rank& rank, const Model::Exchanges::Lane& lane, int64_t seq) {
  const auto it =
      std::lower_bound(lane.begin(), lane.end(), seq, [&](uint32_t i, int64_t n) { return rank.ops[i].seq < n; });
  return it != lane.end() && rank.ops[*it].seq == seq ? &rank.ops[*it] : nullptr;
}

// Calls `look` with each pair of members that exchanges in this direction in the communicator, and with the lanes of
// both sides. Skips Flight Recorder dumps, whose numbers do not match sends with receives.
template <typename Look>
void EachPair(const Model& model, uint32_t comm, Look look) {
  const std::vector<Member>& members = model.comms[comm].members;
  const auto own = [&](const Member& m) { return m.recorded() && !IsFramework(model.bundle.ranks[m.rank_index]); };
  for (size_t m = 0; m < members.size(); ++m) {
    if (!own(members[m])) continue;
    for (const auto& [key, lane] : model.ExchangesOf(members[m].rank_index).lanes) {
      const auto [membership, kind, peer] = key;
      if (membership != members[m].membership || kind != CallKind::kSend || peer < 0 ||
          static_cast<size_t>(peer) >= members.size() || !own(members[peer]))
        continue;
      const Member& to = members[peer];
      const auto* other =
          model.ExchangesOf(to.rank_index).Find({to.membership, CallKind::kRecv, static_cast<int32_t>(m)});
      if (other != nullptr) look(std::pair(static_cast<int32_t>(m), peer), lane, *other);
    }
  }
}

struct Misfit {
  const Op *send = nullptr, *recv = nullptr;
  std::pair<int32_t, int32_t> pair;  // the sending and the receiving member
};

// Returns the communicator's first unfinished send whose receive has a different size. Only for Flight Recorder dumps,
// whose sequence numbers do not match sends with receives. A completed send had the right size.
Misfit FirstOfFrameworks(const Model& model, uint32_t comm) {
  Misfit first;
  const auto& members = model.comms[comm].members;
  for (size_t m = 0; m < members.size(); ++m) {
    if (!members[m].recorded()) continue;
    const Rank& rank = model.bundle.ranks[members[m].rank_index];
    if (!IsFramework(rank)) continue;
    model.EachInFlight(members[m].rank_index, [&](const Op& op) {
      const Member* peer = model.PeerOf(rank, op);
      if (op.membership != members[m].membership || op.kind != CallKind::kSend || peer == nullptr) return;
      bool counted = false;
      const Op* other = model.OtherSide(members[m].rank_index, op, *peer, &counted);
      if (other == nullptr || !counted || ExchangeFits(op, *other)) return;
      if (first.send == nullptr || op.enter_ns < first.send->enter_ns)
        first = {&op, other, {static_cast<int32_t>(m), op.root_or_peer}};
    });
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
  for (uint32_t c = 0; c < model.comms.size(); ++c) {
    if (!model.comms[c].used_for_p2p) continue;
    const auto& members = model.comms[c].members;
    Misfit misfit;  // the first by number, then by sender and receiver
    EachPair(model, c, [&](const std::pair<int32_t, int32_t>& key, const auto& lane, const auto& other) {
      const Rank &from = bundle.ranks[members[key.first].rank_index],
                 &to = bundle.ranks[members[key.second].rank_index];
      for (size_t i = 0, j = 0; i < lane.size() && j < other.size();) {
        const Op &s = from.ops[lane[i]], &r = to.ops[other[j]];
        if (s.seq != r.seq) {
          ++(s.seq < r.seq ? i : j);
          continue;
        }
        if (s.count >= 0 && r.count >= 0 && !ExchangeFits(s, r)) {
          if (misfit.send == nullptr || std::tie(s.seq, key) < std::tie(misfit.send->seq, misfit.pair))
            misfit = {&s, &r, key};
          return;
        }
        ++i, ++j;
      }
    });
    if (misfit.send == nullptr) misfit = FirstOfFrameworks(model, c);
    const auto& [send, recv, pair] = misfit;
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
    if (first.kind == MISMATCH_SPLITS && first.majority) {
      EachPair(model, c, [&](const std::pair<int32_t, int32_t>& key, const auto& lane, const auto& other) {
        if (key == misfit.pair || (key.first != odd && key.second != odd)) return;
        const Op* s = At(bundle.ranks[members[key.first].rank_index], lane, first.seq);
        const Op* r = At(bundle.ranks[members[key.second].rank_index], other, first.seq);
        if (s != nullptr && r != nullptr && !ExchangeFits(*s, *r)) first.pairs.push_back(key);
      });
    }
    std::ranges::sort(first.pairs);
    const bool tell_sender = first.odd_ranks[0] == from;
    first.odd_op = tell_sender ? send : recv;
    first.odd_rank = first.odd_ranks[0];
    first.usual_op = tell_sender ? recv : send;
    first.usual_rank = tell_sender ? to : from;
    auto text = [&](const Op& op) {
      return first.kind == MISMATCH_DATATYPE ? DatatypeText(op.datatype) : CountText(Elements(op));
    };
    first.odd_text = text(*first.odd_op);
    first.usual_text = text(*first.usual_op);
    found->push_back(std::move(first));
  }
}

}  // namespace lockstep
