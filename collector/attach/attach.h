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
  std::string out;                  // incident folder; empty: made up
  std::string host;                 // name of this host
  std::string stream;               // not empty: writes this host's dump to standard output, as of a job of this name
  std::string hosts;                // file of hosts to look at instead of this one; empty: this one
  std::vector<std::string> launch;  // what runs a command on a host
  RedactLevel redact = RedactLevel::kNo;
};

// Returns the exit status. To be called before any other thread exists.
int Attach(const AttachOptions& options);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_ATTACH_ATTACH_H_
