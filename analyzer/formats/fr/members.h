// Determines the members of groups that are in no pg_config.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::fr {

// A group that is known only from its entries.
struct UnlistedGroup {
  std::string name, desc;
  std::vector<int32_t> users;  // ranks with entries of the group, ascending
  // Parallel to `users`: UsedGroup::own_group_rank; negative if unknown.
  std::vector<int32_t> group_ranks;
  bool counted_inside = false;   // `group_ranks` are certainly ranks inside the group
  int32_t size_hint = 0;         // the largest UsedGroup::size_hint
  std::vector<int32_t> members;  // the result; -1 for a member whose rank is unknown
};

// Fills each group's `members`. `silent` lists, in ascending order, the ranks below `job_size` that have no entries or
// no dump. Ranks from `job_size` on have no dump either; if `sized`, there are none. The default group contains all
// ranks of the job. A group smaller than the largest one with its description is completed with silent ranks. This
// needs exactly one completion that repeats the strides of the largest groups.
void InferMembers(const std::vector<int32_t>& silent, int32_t job_size, bool sized, std::vector<UnlistedGroup>* groups);

}  // namespace lockstep::fr
