#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "analyzer/engine_mismatch.h"

namespace lockstep {
namespace {

using ring::CallKind;

struct Place {
  uint32_t comm;
  int32_t member;
  const Op* op;
};

// What most members at the same place of sibling communicators passed: (count, datatype), and how many they are.
struct Vote {
  std::map<std::pair<int64_t, uint8_t>, int> counts;
  std::pair<int64_t, uint8_t> usual = {-1, 0};
  int for_usual = 0, total = 0;
};

class Siblings {
 public:
  explicit Siblings(const Model& model) : model_(model) {}

  // Whether the rank at this place is alone with its arguments while its siblings agree on others.
  bool Odd(const Place& place) {
    const Vote& vote = Of(place);
    return vote.total >= 3 && vote.for_usual * 2 > vote.total && vote.usual != std::pair(place.op->count, place.op->datatype);
  }

 private:
  const Vote& Of(const Place& place) {
    const std::string& klass = model_.comms[place.comm].klass;
    const auto key = std::make_tuple(klass, place.member, static_cast<int>(place.op->kind), place.op->root_or_peer, place.op->seq);
    auto [it, fresh] = votes_.try_emplace(key);
    if (!fresh) return it->second;
    Vote& vote = it->second;
    for (const CommView& view : model_.comms) {
      if (view.klass != klass || static_cast<size_t>(place.member) >= view.members.size()) continue;
      const Member& m = view.members[place.member];
      if (m.rank_index < 0 || m.membership == kNoIndex) continue;
      const Op* op = model_.FindPointToPoint(m, place.op->kind, place.op->root_or_peer, place.op->seq);
      if (op == nullptr) continue;
      ++vote.total;
      const int n = ++vote.counts[{op->count, op->datatype}];
      if (n > vote.for_usual) {
        vote.for_usual = n;
        vote.usual = {op->count, op->datatype};
      }
    }
    return vote;
  }

  const Model& model_;
  std::map<std::tuple<std::string, int32_t, int, int32_t, int64_t>, Vote> votes_;
};

}  // namespace

void FindPointToPointMismatches(const Model& model, std::vector<Mismatch>* found) {
  const Bundle& bundle = model.bundle;
  Siblings siblings(model);
  for (uint32_t c = 0; c < model.comms.size(); ++c) {
    if (!model.comms[c].used_for_p2p) continue;
    const auto& members = model.comms[c].members;
    // Receives by (sender, receiver, number).
    std::map<std::tuple<int32_t, int32_t, int64_t>, const Op*> receives;
    auto each = [&](CallKind kind, auto&& visit) {
      for (size_t m = 0; m < members.size(); ++m) {
        if (members[m].rank_index < 0 || members[m].membership == kNoIndex) continue;
        const Rank& rank = bundle.ranks[members[m].rank_index];
        if (rank.source == Source::kFlightRecorder) continue;  // its numbers do not pair sends with receives
        for (const Op& op : rank.ops) {
          if (op.membership == members[m].membership && op.kind == kind && op.state != OpState::kFailed && op.count >= 0) {
            visit(static_cast<int32_t>(m), op);
          }
        }
      }
    };
    each(CallKind::kRecv, [&](int32_t m, const Op& op) { receives[{op.root_or_peer, m, op.seq}] = &op; });
    Mismatch first;
    each(CallKind::kSend, [&](int32_t m, const Op& send) {
      auto it = receives.find({m, send.root_or_peer, send.seq});
      if (it == receives.end()) return;
      const Op& recv = *it->second;
      if (send.count == recv.count && send.datatype == recv.datatype) return;
      if (first.sender >= 0 && std::tie(send.seq, m) >= std::tie(first.seq, first.sender)) return;
      first = Mismatch();
      first.comm = c;
      first.seq = send.seq;
      first.sender = m;
      first.receiver = send.root_or_peer;
      first.kind = send.datatype != recv.datatype ? MISMATCH_DATATYPE : MISMATCH_COUNT;
      first.members_seen = 2;
      const int32_t from = members[m].rank_index, to = members[send.root_or_peer].rank_index;
      const bool sender_odd = siblings.Odd({c, m, &send}), receiver_odd = siblings.Odd({c, send.root_or_peer, &recv});
      first.majority = sender_odd != receiver_odd;
      first.odd_ranks = !first.majority ? std::vector<int32_t>{std::min(from, to), std::max(from, to)}
                        : sender_odd    ? std::vector<int32_t>{from}
                                        : std::vector<int32_t>{to};
      const bool tell_sender = first.odd_ranks[0] == from;
      first.odd_op = tell_sender ? &send : &recv;
      first.usual_op = tell_sender ? &recv : &send;
      first.usual_rank = tell_sender ? to : from;
      auto text = [&](const Op& op) {
        return first.kind == MISMATCH_DATATYPE ? DatatypeText(op.datatype) : absl::StrCat("count ", op.count);
      };
      first.odd_text = text(*first.odd_op);
      first.usual_text = text(*first.usual_op);
    });
    if (first.sender >= 0) found->push_back(std::move(first));
  }
}

}  // namespace lockstep
