// Names of saved rings: UID-JOB.STEP.RESTART.rRANK.PID-START.END.ring. END shows how and when the process ended:
// kSIGNAL-MONO, xSTATUS-MONO or g0-MONO.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "analyzer/model/bundle.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

// `user` owns the ring, and `pid` is the process's PID on this host.
std::string SavedRingName(uid_t user, pid_t pid, int32_t rank, const ring::ProcessInfo& info, const Process& process);
// Sets what the name shows, and leaves the rest unchanged.
void ReadSavedRingName(const std::string& name, uid_t* user, pid_t* pid, Process* process);

}  // namespace lockstep
