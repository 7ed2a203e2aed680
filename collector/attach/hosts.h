// Runs one command a host over the site's own launcher, and merges the output of `lockstep attach --stream`.
#ifndef LOCKSTEP_COLLECTOR_ATTACH_HOSTS_H_
#define LOCKSTEP_COLLECTOR_ATTACH_HOSTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Host names of a file, one a line; "#" begins a comment. InvalidArgument names the invalid line.
absl::StatusOr<std::vector<std::string>> ReadHosts(const std::string& path);

// Runs `launch HOST lockstep attach ARGUMENTS` for every host, 64 at a time, and loads the output. A host that does not
// answer within `limit_ns` becomes a problem of the bundle. Fails if no host answers.
absl::StatusOr<Bundle> LookAtHosts(const std::vector<std::string>& hosts, const std::vector<std::string>& launch,
                                   const std::vector<std::string>& arguments, int64_t limit_ns);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_ATTACH_HOSTS_H_
