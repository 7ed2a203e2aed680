// Runs one command per host or pod over the site's own launcher, and merges the output of `lockstep attach --stream`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/model/bundle.h"
#include "collector/wire/tool_client.h"

namespace lockstep {

// Reads host names from a file, one per line; "#" starts a comment. InvalidArgument shows the invalid line.
absl::StatusOr<std::vector<std::string>> ReadHosts(const std::string& path);

// A host or pod on which `lockstep attach` runs.
struct Target {
  std::string name;                  // name of the host or pod
  std::vector<std::string> command;  // command that runs the words after it on the target; starts with a path
  std::string refused;               // if not empty: why no command is run there
  std::string without;               // advice to print if the target has no lockstep
};

// Returns a target with the command `launch HOST` for each host.
std::vector<Target> HostTargets(const std::vector<std::string>& hosts, const std::vector<std::string>& launch);

// Exit status of a `lockstep attach` that ran and has no verdict.
inline constexpr int kNoVerdict = 3;

// Problem::like for a target that did not answer.
inline constexpr char kNoAnswer[] = "no answer";

// Runs `words` on every target, 64 at a time, and loads the output. A target that does not answer within `limit_ns`
// becomes a problem of the bundle. Fails if no target answers.
absl::StatusOr<Bundle> LookAtTargets(const std::vector<Target>& targets, const std::vector<std::string>& words,
                                     int64_t limit_ns);

// Like LookAtTargets, but through the agents of a collector. `job` and `slurm` choose the job by name or Slurm job ID,
// if not empty.
absl::StatusOr<Bundle> LookThroughAgents(const CollectorAddress& address, const std::string& job,
                                         const std::string& slurm, int64_t limit_ns);

}  // namespace lockstep
