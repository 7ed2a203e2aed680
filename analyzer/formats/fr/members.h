// Members of groups that are in no pg_config.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_MEMBERS_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_MEMBERS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::fr {

// A group known only by its use.
struct UnlistedGroup {
  std::string name, desc;
  std::vector<int32_t> users;        // ranks with entries of it, ascending
  std::vector<int32_t> group_ranks;  // parallel: own rank in the group, from sends and receives; negative unknown
  int32_t size_hint = 0;             // from sends and receives
  std::vector<int32_t> members;      // the result; -1 for a member whose rank is unknown
};

// Fills `members` of each. `silent` holds, ascending, the ranks below `job_size` that have entries of no group at all
// or no dump; ranks from `job_size` on have no dump either. The default group has all ranks of the job. A group smaller
// than the largest of its description is completed with silent ranks when that is possible in one way that repeats the
// strides of the largest ones.
void InferMembers(const std::vector<int32_t>& silent, int32_t job_size, std::vector<UnlistedGroup>* groups);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_MEMBERS_H_
