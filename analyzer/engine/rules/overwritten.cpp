// Finds the cause of hangs whose records were overwritten. The counters of calls outlive the records.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/engine/facts/counts.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

// Finds ranks whose counters differ from those of their role. Names no rank if there are none, or too many.
static Cause FromCounts(const Facts& facts, size_t recent) {
  constexpr size_t kMost = 2;
  Cause c = CauseOf(SILENT_DESYNC, REASON_COUNTED_PROGRAM, GRADE_FAIR);
  c.AddRival(Rival::OTHER_GONE);
  c.ranks = FindOtherPrograms(facts.model, recent);
  if (c.ranks.size() > kMost) c.ranks.clear();
  c.Add(Evidence::COUNTS_BEFORE, c.ranks);
  if (std::ranges::any_of(c.ranks, [&](int32_t r) { return facts.bundle.ranks[r].damaged; })) {
    c.grade = GRADE_WEAK;  // the differing number may be damage
    c.rivals.clear();
    c.Flag(true);
  }
  return c;
}

// If the counts of one or two ranks never occur in the program of their role, these ranks closed the cycle. Other ranks
// of the cycle may only seem to have skipped a call.
void NarrowByCounts(const Facts& facts, std::vector<Cause>* circle) {
  if (circle->size() != 1) return;
  Cause& c = circle->front();
  const bool left_out = c.reason == REASON_LEFT_OUT;
  if (!left_out && (c.kind != DEADLOCK_CYCLE || c.hypothesis || c.ranks.size() < 2)) return;
  std::vector<int32_t> among = c.ranks;
  if (left_out) {
    const std::set<int32_t> circle_ranks = facts.graph->RanksOf(c.nodes);
    Append(circle_ranks, &among);
    SortUnique(&among);
  }
  const Cause odd = FromCounts(facts, 1);
  // If the counts of all of them are unusual, the counts do not show which rank closed the cycle.
  if (odd.ranks.empty() || odd.ranks == c.ranks || odd.ranks == among || !std::ranges::includes(among, odd.ranks))
    return;
  if (left_out) c.evidence.clear();
  Append(odd.evidence, &c.evidence);
  c.Is(odd.kind, odd.reason, odd.grade).Of(odd.ranks).detail = odd.detail;
  c.detail.set_of(static_cast<int64_t>(among.size() - odd.ranks.size()));
  c.rivals = {};
  c.AddRival(Rival::ORDER_IN_CIRCLE);
}

std::vector<Cause> FromOverwritten(const Facts& facts) {
  Cause all;
  std::map<uint32_t, Cause> exchanges;
  for (const auto& sink : facts.graph->sinks) {
    const uint32_t v = sink[0];
    if (sink.size() > 1 || facts.graph->Kind(v) != WaitGraph::NodeKind::kQueue ||
        facts.graph->QueueOf(v).front.front != Front::kOverwritten)
      continue;
    const Queue& queue = facts.graph->QueueOf(v);
    for (Cause* c : {&all, queue.lost_exchange != kNoIndex ? &exchanges[queue.lost_exchange] : nullptr}) {
      if (c == nullptr) continue;
      c->ranks.push_back(queue.rank);
      c->nodes.push_back(v);
    }
  }
  std::vector<Cause> causes;
  // Adds a cause for both ends of one exchange.
  for (auto& [comm, c] : exchanges) {
    SortUnique(&c.ranks);
    if (facts.bundle.comms[comm].size != 2 || c.ranks.size() != 2) continue;
    c.Is(P2P_UNMATCHED, REASON_RECORDS_GONE_PAIR, GRADE_OPEN).Name(CommText(facts.bundle, comm)).comm = comm;
    causes.push_back(std::move(c));
  }
  // The counters may show the cause even if the records do not.
  if (!all.ranks.empty()) {
    constexpr size_t kRecent = 16;
    Cause odd = FromCounts(facts, kRecent);
    if (!odd.ranks.empty()) {
      for (size_t i = 0; i < all.nodes.size(); ++i) {
        if (std::ranges::binary_search(odd.ranks, facts.graph->RankOf(all.nodes[i]))) odd.nodes.push_back(all.nodes[i]);
      }
      return {odd};
    }
  }
  // If there are several pairs at once, they have a common cause that is not recorded.
  if (causes.size() > 1) causes.clear();
  if (causes.empty() && !all.ranks.empty()) {
    SortUnique(&all.ranks);
    all.Is(COLLECTIVE_STUCK, REASON_RECORDS_GONE, GRADE_GUESS);
    std::set<uint32_t> comms;
    // By communicator: the number of queues that may be in its first operation.
    std::map<uint32_t, size_t> first;
    for (uint32_t v : all.nodes) {
      const Queue& queue = facts.graph->QueueOf(v);
      if (queue.lost_exchange != kNoIndex) comms.insert(queue.lost_exchange);
      for (const auto& [comm, seq] : queue.lost) {
        comms.insert(comm);
        const Membership* ms = MembershipIn(facts.bundle.ranks[queue.rank], comm);
        first[comm] += ms != nullptr && IsFirst(*ms, seq);
      }
    }
    for (const auto& [comm, count] : first) {
      if (count == all.nodes.size()) all.first_lost = comm, all.op_rank = all.ranks[0];
    }
    HoldByUnseen(facts, comms, GRADE_GUESS, &all);
    all.hypothesis |= all.kind == RANK_NO_DATA;
    causes.push_back(std::move(all));
  }
  for (Cause& c : causes) {
    c.doubtful = true;
    if (!c.ranks.empty()) c.Add(Evidence::OLDER_IN_FLIGHT, c.ranks);
  }
  return causes;
}

}  // namespace lockstep
