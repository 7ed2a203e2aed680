#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"

namespace lockstep {

using ring::IsCollective;

// An odd member that skipped, added or moved a call shifts its later ones, which causes the mismatch. For a changed
// call, the majority of the members decides, if there is one.
std::vector<Cause> Explain(const Facts& facts, const Mismatch& m) {
  std::vector<Cause> here;
  for (const int32_t r : m.odd_ranks) {
    const Divergence* d = facts.DivergenceOf(r);
    if (d != nullptr && d->type != Divergence::Type::kChanged) here.push_back(FromDivergence(facts, *d));
  }
  if (here.empty()) here.push_back(FromMismatch(facts, m));
  return here;
}

std::vector<Cause> FromDisagreement(const Facts& facts, const std::vector<Cause>& known) {
  std::vector<Cause> causes;
  // A framework's dump has no checksums, so a number in a damaged file may itself be damaged. Without other evidence, a
  // difference in such a file is not reported as a second cause. A cause based on operations that may be complete does
  // not explain calls that are seen to differ.
  std::vector<Cause> sure = known;
  std::erase_if(sure, [](const Cause& c) { return c.doubtful; });
  auto garbled = [&](int32_t r) {
    return facts.bundle.ranks[r].damaged && facts.bundle.ranks[r].source == Source::kFlightRecorder;
  };
  for (const Mismatch& m : facts.mismatches) {
    std::vector<Cause> here = Explain(facts, m);
    if (!known.empty())
      std::erase_if(here, [&](const Cause& c) { return std::all_of(c.ranks.begin(), c.ranks.end(), garbled); });
    for (Cause& c : here) {
      bool explained = false;
      for (int32_t r : c.ranks) explained |= Names(sure, r) || Names(causes, r);
      if (!explained) causes.push_back(std::move(c));
    }
  }
  return causes;
}

std::vector<Cause> WhyItLeft(const Facts& facts, uint32_t node) {
  const int32_t r = facts.graph->RankOf(node);
  if (r < 0 || facts.bundle.ranks[r].source != Source::kFlightRecorder) return {};
  const Rank& rank = facts.bundle.ranks[r];
  const Op* last = nullptr;
  for (const Op& op : rank.ops) {
    if (op.membership == kNoIndex || !IsCollective(op.kind)) continue;
    if (last == nullptr || op.record_id > last->record_id) last = &op;
  }
  if (last == nullptr) return {};
  if (!facts.model.ranks[r].in_flight.empty() && !facts.model.InFlight(r, *last)) return {};
  const uint32_t comm = facts.model.CommOf(rank, *last);
  for (const Mismatch& m : facts.mismatches) {
    if (m.comm == comm && m.seq == last->seq && m.sender < 0) return Explain(facts, m);
  }
  return {};
}

std::vector<Cause> FromHashes(const Facts& facts) {
  std::vector<Cause> causes;
  for (uint32_t c = 0; c < facts.model.comms.size(); ++c) {
    bool shown = false;
    for (const Mismatch& m : facts.mismatches) shown |= m.comm == c && m.sender < 0;
    if (shown) continue;
    std::map<int64_t, std::map<uint64_t, std::vector<int32_t>>> at;
    for (const Member& m : facts.model.comms[c].members) {
      if (!m.recorded()) continue;
      const Membership& ms = facts.model.MembershipOf(m);
      for (const HashCheckpoint& h : ms.checkpoints) at[h.seq][h.hash].push_back(m.rank_index);
      if (ms.signature_hash != 0 && ms.issued > 0) {
        auto& list = at[ms.issued][ms.signature_hash];
        if (std::find(list.begin(), list.end(), m.rank_index) == list.end()) list.push_back(m.rank_index);
      }
    }
    int64_t last_equal = 0;
    for (const auto& [seq, hashes] : at) {
      size_t members = 0;
      for (const auto& [hash, list] : hashes) members += list.size();
      if (hashes.size() == 1) {
        if (members > 1) last_equal = seq;
        continue;
      }
      std::vector<std::vector<int32_t>> classes;
      for (const auto& [hash, list] : hashes) classes.push_back(list);
      std::sort(classes.begin(), classes.end(),
                [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });
      const bool majority = classes[0].size() > classes[1].size();
      Cause cause = CauseOf(SILENT_DESYNC, REASON_HASHES_DIFFER, majority ? GRADE_GOOD : GRADE_OPEN);
      cause.comm = c;
      for (size_t i = majority ? 1 : 0; i < classes.size(); ++i) {
        cause.ranks.insert(cause.ranks.end(), classes[i].begin(), classes[i].end());
      }
      std::sort(cause.ranks.begin(), cause.ranks.end());
      cause.Name(CommText(facts.bundle, c)).Number(last_equal);
      cause.detail.set_other_number(seq);
      causes.push_back(std::move(cause));
      break;
    }
  }
  return causes;
}

}  // namespace lockstep
