#include "analyzer/formats/fr/members.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "analyzer/formats/fr/names.h"

namespace lockstep::fr {
namespace {

// Returns the distance of each member from the first.
std::vector<int32_t> Offsets(const std::vector<int32_t>& members) {
  std::vector<int32_t> out;
  out.reserve(members.size());
  for (int32_t member : members) out.push_back(member - members.front());
  return out;
}

// Returns the only way to place `offsets` over `users` so that the other members are silent ranks that use no group of
// this kind. Empty if there is none, or several.
std::vector<int32_t> Complete(const std::vector<int32_t>& users, const std::vector<int32_t>& offsets,
                              const std::vector<int32_t>& silent, const absl::flat_hash_set<int32_t>& used,
                              int32_t job_size, int32_t limit) {
  std::vector<int32_t> found;
  for (int32_t offset : offsets) {
    int32_t first = users.front() - offset;
    if (first < 0 || first + offsets.back() >= limit) continue;
    std::vector<int32_t> members;
    size_t matched = 0;
    bool possible = true;
    for (int32_t step : offsets) {
      int32_t rank = first + step;
      members.push_back(rank);
      if (matched < users.size() && users[matched] == rank) {
        matched++;
      } else if (rank < job_size && (used.contains(rank) || !std::binary_search(silent.begin(), silent.end(), rank))) {
        possible = false;
        break;
      }
    }
    if (!possible || matched != users.size()) continue;
    if (!found.empty()) return {};
    found = std::move(members);
  }
  return found;
}

// Infers the members of groups with one description from the users' positions inside the groups. Returns false if
// members are not equally far apart in all of these groups.
bool InferByPlace(int32_t job_size, bool sized, const std::vector<UnlistedGroup*>& siblings) {
  int32_t distance = 0, size = 0;
  absl::flat_hash_set<int32_t> taken;
  for (const UnlistedGroup* group : siblings) {
    if (!group->counted_inside) return false;
    for (size_t i = 0; i < group->users.size(); ++i) {
      if (group->group_ranks[i] < 0 || !taken.insert(group->users[i]).second) return false;
      size = std::max(size, group->group_ranks[i] + 1);
      if (i == 0) continue;
      const int32_t apart = group->users[i] - group->users[i - 1],
                    places = group->group_ranks[i] - group->group_ranks[i - 1];
      if (places <= 0 || apart % places != 0 || (distance != 0 && apart / places != distance)) return false;
      distance = apart / places;
    }
  }
  if (distance == 0) return false;
  for (UnlistedGroup* group : siblings) {
    group->members = group->users;
    const int64_t first = int64_t{group->users[0]} - int64_t{distance} * group->group_ranks[0];
    const int64_t last = first + int64_t{distance} * (size - 1);
    if (first < 0 || last >= (sized ? job_size : int64_t{kMaxRank} + 1)) continue;
    std::vector<int32_t> members;
    for (int64_t rank = first; rank <= last; rank += distance) members.push_back(static_cast<int32_t>(rank));
    const bool free = std::all_of(members.begin(), members.end(), [&](int32_t rank) {
      return !taken.contains(rank) || std::binary_search(group->users.begin(), group->users.end(), rank);
    });
    if (free) group->members = std::move(members);
  }
  return true;
}

// Infers the members of groups with one description.
void InferSiblings(const std::vector<int32_t>& silent, int32_t job_size, bool sized,
                   const std::vector<UnlistedGroup*>& siblings) {
  size_t largest = 0;
  for (UnlistedGroup* group : siblings) {
    group->members = group->users;
    largest = std::max(largest, group->users.size());
  }
  std::vector<int32_t> offsets;
  for (UnlistedGroup* group : siblings) {
    if (group->users.size() != largest) continue;
    std::vector<int32_t> own = Offsets(group->users);
    if (offsets.empty()) offsets = own;
    if (own != offsets) return;  // no pattern to repeat
  }
  absl::flat_hash_set<int32_t> used;
  for (const UnlistedGroup* group : siblings) used.insert(group->users.begin(), group->users.end());
  for (UnlistedGroup* group : siblings) {
    if (group->users.size() == largest) continue;
    std::vector<int32_t> members = Complete(group->users, offsets, silent, used, job_size, job_size);
    // Only now assumes that the job is larger than its files show, because its last ranks may have no dump either.
    if (members.empty() && !sized) members = Complete(group->users, offsets, silent, used, job_size, kMaxRank + 1);
    if (!members.empty()) group->members = std::move(members);
  }
}

// Places members according to sends and receives, and the others around them in ascending order.
void Place(UnlistedGroup* group) {
  size_t size = group->members.size();
  if (group->size_hint > static_cast<int32_t>(size)) {
    // If a number beyond the group's size equals the user's rank in the job, the backend records job ranks, so no place
    // is known.
    for (size_t i = 0; i < group->users.size() && !group->counted_inside; i++) {
      if (group->group_ranks[i] >= static_cast<int32_t>(size) && group->group_ranks[i] == group->users[i]) return;
    }
    size = static_cast<size_t>(group->size_hint);
  }
  std::vector<int32_t> placed(size, -1);
  absl::flat_hash_set<int32_t> done;
  for (size_t i = 0; i < group->users.size(); i++) {
    int32_t at = group->group_ranks[i];
    if (at < 0) continue;
    if (at >= static_cast<int32_t>(size) || placed[at] != -1) return;
    placed[at] = group->users[i];
    done.insert(group->users[i]);
  }
  if (done.empty() && size == group->members.size()) return;
  // The other members take the free places. If members are missing, this is a guess.
  size_t next = 0;
  for (int32_t member : group->members) {
    if (done.contains(member)) continue;
    while (placed[next] != -1) next++;
    placed[next] = member;
  }
  group->members = std::move(placed);
}

}  // namespace

void InferMembers(const std::vector<int32_t>& silent, int32_t job_size, bool sized,
                  std::vector<UnlistedGroup>* groups) {
  std::map<std::string, std::vector<UnlistedGroup*>> by_desc;
  for (UnlistedGroup& group : *groups) {
    if (group.desc != "default_pg") by_desc[group.desc].push_back(&group);
  }
  int32_t all = job_size;
  for (auto& [desc, siblings] : by_desc) {
    if (!InferByPlace(job_size, sized, siblings)) InferSiblings(silent, job_size, sized, siblings);
    for (UnlistedGroup* group : siblings) {
      if (group->size_hint > job_size) group->size_hint = 0;
      Place(group);
      for (int32_t member : group->members) all = std::max(all, member + 1);
    }
  }
  for (const UnlistedGroup& group : *groups) {
    if (group.desc == "default_pg") all = std::max(all, std::min(group.size_hint, kMaxRank + 1));
  }
  for (UnlistedGroup& group : *groups) {
    if (group.desc != "default_pg") continue;
    group.members.resize(static_cast<size_t>(all));
    for (int32_t rank = 0; rank < all; rank++) group.members[static_cast<size_t>(rank)] = rank;
  }
}

}  // namespace lockstep::fr
