#include "collector/service/core/known_members.h"

#include <algorithm>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"

namespace lockstep {
namespace {

constexpr size_t kMostEntries = size_t{1} << 22;

void Fill(const std::vector<int32_t>& ranks, std::vector<int32_t>* members) {
  bool ascending = true;
  for (size_t i = 0; i < ranks.size(); ++i) ascending &= (*members)[i] < 0 || (*members)[i] == ranks[i];
  if (ascending) {
    *members = ranks;
    return;
  }
  std::vector<int32_t> there = *members, left;
  std::sort(there.begin(), there.end());
  std::set_difference(ranks.begin(), ranks.end(), there.begin(), there.end(), std::back_inserter(left));
  const auto free =
      static_cast<size_t>(std::count_if(members->begin(), members->end(), [](int32_t rank) { return rank < 0; }));
  if (left.size() != free) return;  // the numbers do not match, so the rings belong to different ranks
  size_t next = 0;
  for (int32_t& rank : *members) {
    if (rank < 0) rank = left[next++];
  }
}

}  // namespace

std::vector<KnownMembers> MembersWith(const MergedProgress& progress, const Ranks& missing) {
  std::vector<KnownMembers> known;
  size_t entries = 0;
  progress.ForEach([&](const MergedComm& comm) {
    if (comm.size <= 0 || comm.known != static_cast<uint32_t>(comm.size) || entries + comm.known > kMostEntries) return;
    const Ranks members = progress.Members(comm.id);
    if (members.size() != comm.known || !members.Intersects(missing)) return;
    entries += comm.known;
    known.push_back({comm.id, members.List()});
  });
  return known;
}

void FillMembers(const std::vector<KnownMembers>& known, Bundle* bundle) {
  if (known.empty()) return;
  absl::flat_hash_map<uint64_t, const std::vector<int32_t>*> by_id;
  for (const KnownMembers& members : known) by_id[members.comm] = &members.ranks;
  for (Communicator& comm : bundle->comms) {
    uint64_t id = 0;
    if (!absl::SimpleHexAtoi(comm.id, &id)) continue;
    const auto found = by_id.find(id);
    if (found == by_id.end() || found->second->size() != comm.members.size()) continue;
    Fill(*found->second, &comm.members);
  }
}

}  // namespace lockstep
