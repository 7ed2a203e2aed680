// A group whose members may read a collector's incidents (--group). Without a group, only their owner may.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

// `name` is a number, or a name in /etc/group (use numbers for groups from directory services). Fails if there is no
// such group, or if this process is neither root nor a member.
absl::StatusOr<gid_t> FindReadingGroup(const std::string& name);

// Gives incidents to the group, which may list the folders (2750) and read the files (0640). One thread owns this
// object.
class IncidentSharer {
 public:
  explicit IncidentSharer(gid_t group) : group_(group) {}
  // Shares FOLDER itself (names only) if its mode is 0700, and every incident of this user in it that changed since the
  // last call. Follows no links, and does not touch other users' files. Returns the first error, but tries all
  // incidents.
  absl::Status Share(const std::string& folder);

  // Shares one incident with any name.
  absl::Status ShareOne(const std::string& folder);

 private:
  absl::Status ShareIncident(int parent, const std::string& name, const std::string& shown);

  const gid_t group_;
  std::map<std::string, int64_t> shared_;  // indexed by incident: when its folder was last written
};

// Incident folders with any name, for a process that creates a few. The destructor shares files that were added later
// (the index).
class SharedIncidents {
 public:
  void SetGroup(gid_t group) { group_ = group; }
  // Shares the existing files with the group, if there is one.
  absl::Status Add(const std::string& folder);
  ~SharedIncidents();

 private:
  std::optional<gid_t> group_;
  std::vector<std::string> folders_;
};

}  // namespace lockstep
