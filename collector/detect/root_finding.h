// What the analysis of digests says stands at the root of a stall, in the detector's terms: the ranks it names, what
// their processes do, and how long those that are involved have not moved.
#ifndef LOCKSTEP_COLLECTOR_DETECT_ROOT_FINDING_H_
#define LOCKSTEP_COLLECTOR_DETECT_ROOT_FINDING_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// What a Bundle does not hold of a rank, from whoever looks at its ring over time.
struct RankMotion {
  int64_t progress_age_ns = -1;  // Lateness::ProgressOf, as an age when the rank's data was taken; -1 not known
  int64_t activity_age_ns = -1;  // Lateness::ActivityOf, likewise
  int64_t silent_ns = 0;         // nothing was heard of its host's agent for so long
  int64_t idle_ns =
      -1;  // samples a second apart, since it made progress, have seen it do nothing for so long; -1 not known
  int64_t after_ns =
      0;  // the ages hold at RootFinding::as_of_ns or up to so long after it: when its data came, at the latest
};

// A process that is named as a root.
struct RootView {
  int32_t rank = -1;
  bool known = true;               // its data is there
  bool ended = false;              // its process is gone, however it ended
  bool cancelled = false;          // it has ended by SIGTERM, SIGINT or SIGHUP: the ways in which a launcher ends ranks
  bool stopped = false;            // state T or t
  bool uninterruptible = false;    // it, or a thread of it, is in state D
  bool in_recorded_call = false;   // inside an NCCL call or a CUDA host wait: using CPU there is no progress
  bool waits_for_compute = false;  // inside a CUDA host wait, and no unfinished NCCL work is seen on its GPU
  bool event_loop = false;         // its main thread waits for events from outside (ep_poll): a server without requests
  bool on_socket = false;          // its main thread waits for data on a socket: somebody else may be at work for it
  int64_t silent_ns = 0;           // of its host's agent
  int64_t sample_gap_ns = 0;       // 0: not sampled twice
  int64_t cpu_ns = -1, io_bytes = -1;  // between the samples; -1 unknown
  int64_t idle_ns = -1;                // RankMotion::idle_ns
  int64_t activity_age_ns = -1;        // since it entered or left a recorded call or wait; -1 unknown
  int64_t after_ns = 0;                // RankMotion::after_ns
};

struct RootFinding {
  FindingKind kind = FINDING_UNSPECIFIED;
  uint64_t comm = 0;  // 0: none
  uint64_t sequence = 0;
  int32_t comm_size = 0;
  std::vector<RootView> roots;
  std::vector<int32_t> involved;  // ranks of the roots and of everybody in the chain, ascending; empty: all
  std::vector<uint64_t> comms;    // of the chain
  int64_t waited_ns = 0;          // the longest wait of a live rank that the data shows; 0: nobody waits
  int64_t still_ns = -1;          // the involved have made no progress for so long; -1: not known
  // For how long samples have seen every process that lives do nothing, except those that wait in a recorded call.
  // INT64_MAX: all wait; -1: of one this is not known.
  int64_t rest_ns = -1;
  int64_t bytes = 0;             // of the operation that is stuck; 0 not known
  int64_t network_age_ns = -1;   // since a network operation of the involved last made a step; -1: none is recorded
  bool first_operation = false;  // it is its communicator's first
  bool in_init = false;          // somebody involved is making a communicator
  int64_t as_of_ns = 0;  // when these ages were true at the latest, by the detector's clock; 0: when it is judged
};

// Of a rank by its number, in the bundle or not.
using MotionOf = std::function<RankMotion(int32_t rank)>;

// Of the verdict's first finding. Cheap: linear in the ranks of the bundle.
RootFinding FindRoot(const Verdict& verdict, const Bundle& bundle, const MotionOf& motion);

// What may be said of the cause before the job is declared hung: the headline of the verdict's first finding where the
// records show it; else empty, and nobody is named.
std::string ProvenCause(const Verdict& verdict);

// How long nothing at all has moved in the job, for Bundle::known_stalled: the least progress_age; 0 when any is
// unknown.
int64_t StandsStill(const Bundle& bundle, const MotionOf& motion);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_DETECT_ROOT_FINDING_H_
