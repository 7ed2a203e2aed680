// The input of hang detection from one ring's digest: whether its process waits, in which operation, since when, and
// whether anything moved since the last digest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/ring/snapshot.h"

namespace lockstep {

struct DigestComm {
  uint64_t id = 0;
  std::string name;  // may be empty
  int32_t member = -1, size = -1;
  bool active = false;       // neither ended nor failed
  uint64_t collectives = 0;  // number of issued collectives
  uint64_t total = 0;        // number of issued collectives, sends and receives
  int64_t issued_ns = 0;
};

// A thread that is inside a call or a CUDA wait.
struct DigestWait {
  ring::CallKind kind = ring::CallKind::kNone;
  uint64_t comm = 0;             // communicator of a call; 0 if there is none
  uint64_t seq = 0;              // number of the call's operation, or of the group that it ends; 0 if there is none
  uint32_t stream = UINT32_MAX;  // for a CUDA wait; UINT32_MAX if none or unknown
  int64_t since_ns = 0;
};

// A stream with GPU progress markers.
struct DigestStream {
  uint32_t index = 0;
  uint64_t issued = 0, completed = 0;
  uint64_t comm = 0;  // communicator of the stream's oldest unfinished operation; 0 if unknown
  uint64_t seq = 0;   // number of that operation; 0 for sends and receives
};

// One process at one point in time. Times are the machine's CLOCK_MONOTONIC, in nanoseconds.
struct DigestView {
  int32_t slot = -1;         // the watcher's number for the ring; one number for a process that drives several ranks
  bool alive = true;         // no exit of the process is known
  bool ended_badly = false;  // the process exited by a signal or with a status other than 0
  std::vector<DigestComm> comms;
  // Changes whenever the rank makes progress in NCCL work: issued or finished operations, communicator states.
  uint64_t progress_mark = 0;
  // When a thread last entered or left a recorded call or wait. Two reads of the same event may differ slightly,
  // because the clock is recalibrated in between.
  int64_t activity_ns = 0;
  std::vector<DigestWait> waits;
  std::vector<DigestStream> streams;
  // Start of the earliest call or CUDA wait of the process's threads; 0 if there is none.
  int64_t blocked_since_ns = 0;
  bool in_init = false;        // one of the process's calls creates a communicator
  bool gpu_in_flight = false;  // a marked stream has incomplete tickets
  std::string doing;           // "AllReduce #41", "cudaStreamSynchronize"; empty outside recorded calls
};

// The caller sets slot, alive and ended_badly. If the recorder has stopped writing the ring, the view is empty.
DigestView ViewOf(const ring::Snapshot& digest);

}  // namespace lockstep
