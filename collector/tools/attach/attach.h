// `lockstep attach`: examines a running job without the recorder, and names the rank that stops it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "analyzer/evidence/redact.h"
#include "collector/wire/tool_client.h"

namespace lockstep {

struct AttachOptions {
  std::vector<pid_t> pids;          // empty: the processes of the job that discovery finds
  std::string job, slurm;           // selects one of the jobs found; empty: the only one
  std::string out;                  // incident folder; empty: a new name
  std::string host;                 // name of this host
  std::string stream;               // if not empty: write this host's dump to standard output, under this job name
  std::string hosts;                // file of hosts to examine instead of this one; empty: this one
  std::vector<std::string> launch;  // the command that runs a program on a host
  std::string remote = "lockstep";  // the Lockstep program on these hosts or pods
  std::optional<CollectorAddress> agents;  // if set, the agents of this collector examine the job, not this host
  std::string kubernetes;                  // labels of the pods to examine instead of this host; empty: this one
  std::string pod_namespace, container;
  std::vector<std::string> kubectl;
  bool ask_torch = false;  // ask PyTorch for Flight Recorder dumps, which makes the job write files
  RedactLevel redact = RedactLevel::kNo;
};

// Returns the exit status. Call before any other thread exists.
int Attach(const AttachOptions& options);

}  // namespace lockstep
