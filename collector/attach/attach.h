// `lockstep attach`: examines a running job without the recorder, and names the rank that holds it up.
#ifndef LOCKSTEP_COLLECTOR_ATTACH_ATTACH_H_
#define LOCKSTEP_COLLECTOR_ATTACH_ATTACH_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "analyzer/evidence/redact.h"

namespace lockstep {

struct AttachOptions {
  std::vector<pid_t> pids;          // empty: found
  std::string job, slurm;           // selects one of the jobs found; empty: the only one
  std::string out;                  // incident folder; empty: a new name
  std::string host;                 // name of this host
  std::string stream;               // not empty: writes this host's dump to standard output, under this job name
  std::string hosts;                // file of hosts to examine instead of this one; empty: this one
  std::vector<std::string> launch;  // the command that runs commands on a host
  RedactLevel redact = RedactLevel::kNo;
};

// Returns the exit status. Call it before any other thread exists.
int Attach(const AttachOptions& options);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_ATTACH_ATTACH_H_
