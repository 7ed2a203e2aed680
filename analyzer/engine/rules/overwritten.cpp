// Handles hangs in which no rank is known to delay the job: names the ranks whose records of their current operation
// were overwritten.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/engine/rules/causes.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

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
    c.kind = P2P_UNMATCHED;
    c.comm = comm;
    c.grade = GRADE_OPEN;
    c.reason = REASON_RECORDS_GONE_PAIR;
    c.Name(CommText(facts.bundle, comm));
    causes.push_back(std::move(c));
  }
  // The counters may show the cause even if the records do not.
  if (!all.ranks.empty()) {
    Cause odd = FromCounts(facts);
    if (!odd.ranks.empty()) {
      for (size_t i = 0; i < all.nodes.size(); ++i) {
        if (std::binary_search(odd.ranks.begin(), odd.ranks.end(), facts.graph->RankOf(all.nodes[i])))
          odd.nodes.push_back(all.nodes[i]);
      }
      return {odd};
    }
  }
  // If there are several pairs at once, they have a common cause that is not recorded.
  if (causes.size() > 1) causes.clear();
  if (causes.empty() && !all.ranks.empty()) {
    SortUnique(&all.ranks);
    all.kind = COLLECTIVE_STUCK;
    all.grade = GRADE_GUESS;
    all.reason = REASON_RECORDS_GONE;
    std::set<uint32_t> comms;
    // The ranks may be in the first operation of a communicator on which no rank has completed anything.
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
