#include "analyzer/engine_counts.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep {

std::vector<int32_t> FindOddlyCounted(const Model& model) {
  // Role and place -> what was exchanged -> who.
  std::map<std::string, std::map<std::string, std::vector<int32_t>>> places;
  for (size_t r = 0; r < model.ranks.size(); ++r) {
    const Rank& rank = model.bundle.ranks[r];
    bool usable = !rank.damaged;
    std::vector<std::string> role, exchanged;
    for (const Membership& ms : rank.memberships) {
      const CommView& view = model.comms[ms.comm];
      if (!view.used_for_p2p) {
        role.push_back(absl::StrCat(view.klass, ":", ms.issued));
        continue;
      }
      role.push_back(absl::StrCat(view.klass, "@", ms.member_rank));
      if (rank.source == Source::kFlightRecorder) {
        usable = usable && ms.p2p_issued >= 0;
        exchanged.push_back(absl::StrCat(view.klass, "=", ms.p2p_issued));
        continue;
      }
      usable = usable && ms.recorded.peers_lost == 0;
      for (const PeerCount& peer : ms.peers) exchanged.push_back(absl::StrCat(view.klass, "=", peer.peer, ",", peer.sends, ",", peer.recvs));
    }
    if (!usable || exchanged.empty()) continue;
    std::sort(role.begin(), role.end());
    std::sort(exchanged.begin(), exchanged.end());
    std::string at, what;
    for (const std::string& part : role) absl::StrAppend(&at, part, ";");
    for (const std::string& part : exchanged) absl::StrAppend(&what, part, ";");
    places[at][what].push_back(static_cast<int32_t>(r));
  }
  std::vector<int32_t> odd;
  for (const auto& [at, kinds] : places) {
    size_t all = 0, most = 0;
    for (const auto& [what, ranks] : kinds) {
      all += ranks.size();
      most = std::max(most, ranks.size());
    }
    if (all < 3 || 2 * most <= all) continue;
    for (const auto& [what, ranks] : kinds) {
      if (ranks.size() < most) odd.insert(odd.end(), ranks.begin(), ranks.end());
    }
  }
  std::sort(odd.begin(), odd.end());
  return odd;
}

}  // namespace lockstep
