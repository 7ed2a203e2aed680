// Finds out why a job left no records.
#pragma once

#include <sys/types.h>

#include <cstdint>
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
  // Returns whether one of these processes has the recorder loaded.
  bool RecorderIsLoaded(const std::vector<pid_t>& living) const;
  // Returns since when one of these processes has NCCL or PyTorch loaded and a recorder, but uses no GPU; INT64_MAX if
  // none does. Before its first communicator, a job on GPUs may load its data and model for minutes.
  int64_t WithoutGpuSince(const std::vector<pid_t>& living) const;

 private:
  struct Seen {
    Mapped mapped;
    int64_t library_since = INT64_MAX;  // when NCCL or PyTorch was first seen
    bool preload_kept = false;
    std::string hook;            // LOCKSTEP_HOOK
    bool other_machine = false;  // program and library have different architectures
    bool privileged = false;     // set-user-ID and similar programs, for which the loader ignores LD_PRELOAD
  };
  const std::string library_;
  std::map<pid_t, Seen> seen_;
};

}  // namespace lockstep
