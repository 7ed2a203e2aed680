// Faults that nobody waits for yet: of two that are independent, the first to bite stops those who would have come to wait for the
// other. Its own record shows it all the same.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine_causes.h"

namespace lockstep {

using ring::CallKind;

namespace {

bool Named(const std::vector<Cause>& causes, int32_t rank_index) {
  return std::any_of(causes.begin(), causes.end(),
                     [&](const Cause& c) { return std::find(c.ranks.begin(), c.ranks.end(), rank_index) != c.ranks.end(); });
}

// What is seen beside a cause that waits explain is told behind it, and with less certainty: it may yet have a reason of its own.
constexpr double kBeside = 0.85;

}  // namespace

// A member of one of the rank's communicators that issued a collective which the rank did not: had the rank gone on as that one did, it
// would have, too. Null: nobody.
const Membership* Causes::SomebodyAheadOf(int32_t rank_index, int32_t* who) const {
  for (const Membership& ms : bundle_.ranks[rank_index].memberships) {
    if (ms.issued < 0 && ms.issued != kNone) continue;
    const int64_t issued = std::max<int64_t>(ms.issued, 0);
    if (model_.comms[ms.comm].used_for_p2p || ms.state == ring::CommState::kAborted || ms.state == ring::CommState::kDestroyed) continue;
    for (const Member& m : model_.comms[ms.comm].members) {
      if (m.rank_index < 0 || m.rank_index == rank_index || m.membership == kNoIndex || m.left || bundle_.ranks[m.rank_index].damaged) continue;
      if (bundle_.ranks[m.rank_index].memberships[m.membership].issued <= issued) continue;
      *who = m.rank_index;
      return &ms;
    }
  }
  return nullptr;
}

std::vector<Cause> Causes::FromBeside(const std::vector<Cause>& known) const {
  std::vector<Cause> causes;
  if (graph_ == nullptr || known.empty() || !model_.stalled) return causes;
  for (size_t i = 0; i < model_.ranks.size(); ++i) {
    const auto r = static_cast<int32_t>(i);
    const Rank& rank = bundle_.ranks[i];
    const RankView& view = model_.ranks[i];
    const uint32_t node = WaitGraph::HostNode(i);
    // Who waits, in whatever, may be a victim.
    if (!graph_->edges[node].empty() || Named(known, r) || rank.damaged || rank.process.consequence) continue;
    const bool left = rank.process.life == Life::kExited && rank.process.exit_code == 0;
    // A framework's dump has no place of the host: there others in the same role must have gone on with the same work unfinished, or
    // nothing at all must be left that could hold the rank.
    const bool framework = rank.source == Source::kFlightRecorder && view.host == HostState::kUnknown &&
                           (graph_->stopped[i].witness >= 0 || (view.in_flight.empty() && bundle_.known_stalled));
    if (view.host != HostState::kElsewhere && view.host != HostState::kStopped && !left && !framework) continue;
    int32_t ahead = -1;
    const Membership* behind = SomebodyAheadOf(r, &ahead);
    if (behind == nullptr) continue;
    Cause c = HostCause(node);
    c.confidence = std::min(c.confidence, kBeside);
    c.beside = true;
    if (c.comm == kNoIndex) c.comm = behind->comm;
    c.evidence.push_back({absl::StrCat(Who(ahead), " went on to further calls on ", CommText(bundle_.comms[behind->comm]),
                                       "; nobody waits there yet, because of the other finding"), {ahead, r}});
    Merge(&causes, std::move(c));
  }
  for (const Divergence& d : divergences_) {
    if (Named(known, d.rank) || Named(causes, d.rank) || bundle_.ranks[d.rank].damaged) continue;
    Cause c = FromDivergence(d);
    c.confidence = std::min(c.confidence, kBeside);
    c.beside = true;
    Merge(&causes, std::move(c));
  }
  return causes;
}

}  // namespace lockstep
