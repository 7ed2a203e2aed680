// The root of a stall as the analysis of digests finds it, in the detector's terms: the ranks that it names, the
// activity of their processes, and how long the involved ranks have not moved.
#ifndef LOCKSTEP_COLLECTOR_DETECT_ROOT_FINDING_H_
#define LOCKSTEP_COLLECTOR_DETECT_ROOT_FINDING_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Facts about a rank that a Bundle lacks, from the observer of its ring over time.
struct RankMotion {
  int64_t progress_age_ns = -1;  // Lateness::ProgressOf, as an age when the rank's data was taken; -1 unknown
  int64_t activity_age_ns = -1;  // Lateness::ActivityOf, as an age
  int64_t silent_ns = 0;         // how long its host's agent has been silent
  int64_t idle_ns = -1;  // how long samples a second apart, since its last progress, have seen it idle; -1: unknown
  int64_t after_ns =
      0;  // the ages hold at RootFinding::as_of_ns or up to this much later: when its data came, at the latest
};

// A process named as a root.
struct RootView {
  int32_t rank = -1;
  bool known = true;                   // its data is there
  bool ended = false;                  // its process is gone
  bool cancelled = false;              // it ended by SIGTERM, SIGINT or SIGHUP, which a launcher uses
  bool stopped = false;                // state T or t
  bool uninterruptible = false;        // it, or one of its threads, is in state D
  bool in_recorded_call = false;       // inside an NCCL call or a CUDA wait: using CPU there is no progress
  bool waits_for_compute = false;      // inside a CUDA wait, without unfinished NCCL work on its GPU
  bool behind_nccl = false;            // the same without marks, where NCCL's last operation may be what it waits for
  bool event_loop = false;             // its main thread waits for events from outside (ep_poll): an idle server
  bool on_socket = false;              // its main thread waits for data on a socket: another process may work for it
  int64_t silent_ns = 0;               // how long its host's agent has been silent
  int64_t sample_gap_ns = 0;           // 0: not sampled twice
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
  std::vector<int32_t> involved;  // ranks of the roots and of the whole chain, ascending; empty: all
  std::vector<uint64_t> comms;    // of the chain
  int64_t waited_ns = 0;          // the longest wait of a live rank in the data; 0: none
  int64_t still_ns = -1;          // how long the involved ranks have made no progress; -1: unknown
  // How long samples have seen every living process idle, except those that wait in a recorded call. INT64_MAX: all
  // wait; -1: unknown for one.
  int64_t rest_ns = -1;
  // How long every rank has been in one wait for its GPU, behind NCCL's work; -1: one is not, or it is unknown.
  int64_t blocked_ns = -1;
  int64_t bytes = 0;             // of the operation that is stuck; 0 not known
  int64_t network_age_ns = -1;   // since the last step of a network operation of the involved ranks; -1: none is
                                 // recorded
  bool first_operation = false;  // it is its communicator's first
  bool in_init = false;          // an involved rank creates a communicator
  int64_t as_of_ns = 0;          // latest time of these ages, by the detector's clock; 0: the time of judging
};

// By rank number, in the bundle or not.
using MotionOf = std::function<RankMotion(int32_t rank)>;

// For the verdict's first finding. Cheap: linear in the ranks of the bundle.
RootFinding FindRoot(const Verdict& verdict, const Bundle& bundle, const MotionOf& motion);

// The cause that may be named before the job is declared hung: the headline of the verdict's first finding where the
// records show it; else empty, and nobody is named.
std::string ProvenCause(const Verdict& verdict);

// How long nothing has moved in the job, for Bundle::known_stalled: the smallest progress_age; 0 if any is unknown.
int64_t StandsStill(const Bundle& bundle, const MotionOf& motion);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_DETECT_ROOT_FINDING_H_
