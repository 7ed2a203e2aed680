// Who is told by what outlives the records: counts of calls and of pairs, hashes of calls.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/counts.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

// Who differs by what outlives the records: counts of pairs, counts of calls, hashes of calls. Empty ranks: nobody, or
// too many.
Cause Causes::FromCounts() {
  constexpr size_t kMost = 2;
  Cause c;
  const auto found = [&](std::vector<int32_t> ranks) {
    if (ranks.empty() || ranks.size() > kMost) return false;
    c.ranks = std::move(ranks);
    return true;
  };
  c.confidence = 0.7;
  c.alternatives = {"any of the others that stand in operations whose records are gone"};
  c.tells_apart = "a longer record (a larger ring), or a dump taken earlier";
  c.refuted_by = "the ranks in the same role running a different program by design";
  if (found(FindStrangers(model_))) {
    c.kind = P2P_UNMATCHED;
    c.what =
        "counts one send or receive with a rank that has none with it, while all others exchange many: most likely the "
        "wrong peer";
    c.evidence.push_back({"counts of each pair of ranks, which outlive the records", c.ranks});
    c.advice = {"Look at how the named rank computes the peers of its sends and receives.",
                "Record with a larger ring."};
  } else if (found(FindOddlyCounted(model_))) {
    c.kind = P2P_UNMATCHED;
    c.what =
        "counted other sends and receives than the ranks in the same role, and stand in an operation whose record is "
        "gone";
    c.evidence.push_back(
        {"most ranks in the same role, with as many collectives issued everywhere, made another number of sends and "
         "receives",
         c.ranks});
    c.advice = {"Look at the sends and receives of these ranks: one too many, one too few, or one with the wrong peer.",
                "Record with a larger ring."};
  } else if (found(FindOtherPrograms(model_))) {
    c.kind = SILENT_DESYNC;
    c.what =
        "counted what the program of the ranks in the same role nowhere counts: it left out or added a call, whose "
        "record is gone";
    c.evidence.push_back(
        {"most ranks in the same role agree with each other on how many collectives come before which", c.ranks});
    c.advice = {"Look for a call of these ranks that depends on local data.", "Record with a larger ring."};
    if (std::any_of(c.ranks.begin(), c.ranks.end(),
                    [&](int32_t r) { return bundle_.ranks[static_cast<size_t>(r)].damaged; })) {
      c.confidence = 0.6;  // a damaged file's number may be the damage's
      c.alternatives = {"the damage to that rank's file"};
      c.tells_apart = "its dump written anew, or its stack";
    }
  } else {
    // Where the hashes of one communicator part first, or of several in the same way.
    std::vector<Cause> parted = FromHashes();
    if (!parted.empty() &&
        std::all_of(parted.begin(), parted.end(), [&](const Cause& p) { return p.ranks == parted[0].ranks; }) &&
        parted[0].ranks.size() <= kMost) {
      parted[0].confidence = std::min(parted[0].confidence, 0.7);
      parted[0].alternatives = c.alternatives;
      parted[0].tells_apart = c.tells_apart;
      return parted[0];
    }
  }
  return c;
}

// Of a circle of several whose records are overwritten: who counts what the program of its siblings nowhere counts
// closed it.
void Causes::NarrowByCounts(std::vector<Cause>* circle) {
  if (circle->size() != 1) return;
  Cause& c = circle->front();
  if (c.kind != DEADLOCK_CYCLE || c.hypothesis || c.ranks.size() < 2) return;
  const bool lost = std::any_of(c.ranks.begin(), c.ranks.end(), [&](int32_t r) {
    const auto& memberships = bundle_.ranks[static_cast<size_t>(r)].memberships;
    return std::any_of(memberships.begin(), memberships.end(),
                       [](const Membership& ms) { return ms.lost_records > 0; });
  });
  if (!lost) return;
  const Cause odd = FromCounts();
  // Two that send to each other count their sends apart from the rest because they stopped.
  if (c.ranks.size() == 2 && odd.kind != SILENT_DESYNC) return;
  if (odd.ranks.empty() || !std::includes(c.ranks.begin(), c.ranks.end(), odd.ranks.begin(), odd.ranks.end())) return;
  c.evidence.insert(c.evidence.end(), odd.evidence.begin(), odd.evidence.end());
  c.alternatives = {"the order of calls of any rank of the circle"};
  c.tells_apart = odd.tells_apart;
  c.what = Say(odd.what, "; with it ", c.ranks.size() - odd.ranks.size(), " others wait in a circle");
  c.ranks = odd.ranks;
  c.confidence = odd.confidence;
  c.advice = odd.advice;
  // What closed the circle is known then: calls that differ. A send or receive too many may be a group's that stayed
  // open as well.
  if (odd.kind == SILENT_DESYNC) c.kind = odd.kind;
}

// All are in an operation that does not end, and the record of one is cut: its counts may still show that it left out
// or added a call.
void Causes::NameByCounts(std::vector<Cause>* causes) {
  for (Cause& c : *causes) {
    const auto cut = [&](int32_t r) { return bundle_.ranks[static_cast<size_t>(r)].damaged; };
    if (c.kind != COLLECTIVE_STUCK || std::none_of(c.ranks.begin(), c.ranks.end(), cut)) continue;
    Cause odd = FromCounts();
    if (odd.ranks.empty() || odd.kind != SILENT_DESYNC || !std::all_of(odd.ranks.begin(), odd.ranks.end(), cut) ||
        !std::includes(c.ranks.begin(), c.ranks.end(), odd.ranks.begin(), odd.ranks.end()))
      continue;
    odd.nodes = c.nodes;
    odd.comm = c.comm, odd.op = c.op, odd.op_rank = c.op_rank;
    odd.evidence.insert(odd.evidence.end(), c.evidence.begin(), c.evidence.end());
    c = std::move(odd);
  }
}

}  // namespace lockstep
