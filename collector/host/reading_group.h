// A group whose members may read a collector's incidents (--group). Without one only their owner may.
#ifndef LOCKSTEP_COLLECTOR_HOST_READING_GROUP_H_
#define LOCKSTEP_COLLECTOR_HOST_READING_GROUP_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

// A number, or a name of /etc/group (directory services' groups by number). Fails if there is no such group, or if this
// process is neither root's nor a member's.
absl::StatusOr<gid_t> FindReadingGroup(const std::string& name);

// Gives incidents to the group: folders 2750, files read-only. One thread owns it.
class IncidentSharer {
 public:
  explicit IncidentSharer(gid_t group) : group_(group) {}
  // FOLDER itself (names only), and every incident of ours in it that has changed since the last call. Follows no
  // links, and leaves other users' files alone. Returns the first error; the others are tried all the same.
  absl::Status Share(const std::string& folder);

  // One incident of any name.
  absl::Status ShareOne(const std::string& folder);

 private:
  absl::Status ShareIncident(int parent, const std::string& name, const std::string& shown);

  const gid_t group_;
  std::map<std::string, int64_t> shared_;  // incident -> last write to its folder
};

// Incident folders of any name, of a process that creates a few. Files added later (its index) are assigned at the end.
class SharedIncidents {
 public:
  void SetGroup(gid_t group) { group_ = group; }
  // Assigns the present files to the group, if there is one.
  absl::Status Add(const std::string& folder);
  ~SharedIncidents();

 private:
  std::optional<gid_t> group_;
  std::vector<std::string> folders_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_HOST_READING_GROUP_H_
