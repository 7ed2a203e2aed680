// Finds out why a job left no records.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "collector/host/proc.h"

namespace lockstep {

class Unrecorded {
 public:
  explicit Unrecorded(std::string library) : library_(std::move(library)) {}

  // Examines the job's live processes. Call it occasionally while there are no rings.
  void Look(const std::vector<pid_t>& processes);
  // Returns one clause with the likely reason for missing records. `switched_off` is what turned recording off; empty
  // if nothing did.
  std::string Reason(const std::string& switched_off) const;
  // Returns a process of `living` with recorder and NCCL loaded, otherwise one with only the recorder, otherwise 0.
  pid_t ProcessWithRecorder(const std::vector<pid_t>& living) const;

 private:
  struct Seen {
    Mapped mapped;
    bool preload_kept = false;
    std::string hook;            // LOCKSTEP_HOOK
    bool other_machine = false;  // program and library have different architectures
    bool privileged = false;     // set-user-ID and similar programs, for which the loader ignores LD_PRELOAD
  };
  const std::string library_;
  std::map<pid_t, Seen> seen_;
};

}  // namespace lockstep
