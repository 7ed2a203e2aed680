// The root of a stall in the form that the detector needs, from the analysis of digests: the named ranks, the activity
// of their processes, and how long the involved ranks have made no progress.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Facts about a rank that a Bundle does not contain, from whichever component observes its ring over time.
struct RankMotion {
  int64_t progress_age_ns = -1;  // Lateness::ProgressOf, as an age when the rank's data was taken; -1 if unknown
  int64_t activity_age_ns = -1;  // Lateness::ActivityOf, as an age
  int64_t silent_ns = 0;         // how long the agent of the rank's host has been silent
  // How long samples a second apart have shown the process idle since the rank's last progress; -1 if unknown.
  int64_t idle_ns = -1;
  // The ages apply at RootFinding::as_of_ns, or up to this much later: the rank's data arrived by then.
  int64_t after_ns = 0;
};

// A process that is named as a root.
struct RootView {
  int32_t rank = -1;
  bool known = true;               // there is data for the process
  bool ended = false;              // the process has exited
  bool cancelled = false;          // SIGTERM, SIGINT or SIGHUP killed the process; launchers use these
  bool stopped = false;            // state T or t
  bool uninterruptible = false;    // the process, or one of its threads, is in state D
  bool in_recorded_call = false;   // inside an NCCL call or a CUDA wait, where using CPU is not progress
  bool waits_for_compute = false;  // inside a CUDA wait, without unfinished NCCL work on the rank's GPU
  // In a CUDA wait without GPU progress markers, in which the thread may be waiting for NCCL's last operation.
  bool behind_nccl = false;
  bool event_loop = false;  // the process's main thread waits for outside events (ep_poll), like an idle server
  // The process's main thread waits for data on a socket, so another process may be working for it.
  bool on_socket = false;
  int64_t silent_ns = 0;               // how long the agent of the root's host has been silent
  int64_t sample_gap_ns = 0;           // 0 if not sampled twice
  int64_t cpu_ns = -1, io_bytes = -1;  // between the samples; -1 if unknown
  int64_t idle_ns = -1;                // RankMotion::idle_ns
  int64_t activity_age_ns = -1;        // since the process entered or left a recorded call or wait; -1 if unknown
  int64_t after_ns = 0;                // RankMotion::after_ns
};

struct RootFinding {
  FindingKind kind = FINDING_UNSPECIFIED;
  uint64_t comm = 0;  // 0 if there is none
  uint64_t sequence = 0;
  int32_t comm_size = 0;
  std::vector<RootView> roots;
  std::vector<int32_t> involved;  // ranks of the roots and of the whole chain, ascending; empty for all
  std::vector<uint64_t> comms;    // communicators of the chain
  int64_t waited_ns = 0;          // the longest wait of a live rank in the data; 0 if there is none
  int64_t still_ns = -1;          // how long the involved ranks have made no progress; -1 if unknown
  // How long samples have shown every live process idle, except those that wait in a recorded call. INT64_MAX if all
  // wait; -1 if this is unknown for any rank.
  int64_t rest_ns = -1;
  // Every rank's CPU has waited for the rank's own GPU for at least this long. NCCL work on that GPU is, or may be,
  // unfinished. -1 if any rank is not in such a wait, or if the time is unknown.
  int64_t blocked_ns = -1;
  // Size of the stuck operation. Without a finding, size of the largest collective that may be unfinished. 0 if
  // unknown.
  int64_t bytes = 0;
  // Age of the last step of any network operation of the involved ranks; -1 if none is recorded.
  int64_t network_age_ns = -1;
  bool first_operation = false;  // the stuck operation is the first of its communicator
  bool in_init = false;          // an involved rank creates a communicator
  bool graphs = false;           // without a finding: a launched CUDA graph with operations is unfinished
  int64_t as_of_ns = 0;  // the latest time that these ages apply to, on the detector's clock; 0 for the time of judging
};

// Accepts any rank number, whether in the bundle or not.
using MotionOf = std::function<RankMotion(int32_t rank)>;

// Returns the root of the verdict's first finding.
RootFinding FindRoot(const Verdict& verdict, const Bundle& bundle, const MotionOf& motion);

// Returns a cause that may be reported before the job is declared hung: the headline of the verdict's first finding, if
// the records prove it. Otherwise empty, so that no rank is blamed.
std::string ProvenCause(const Verdict& verdict);

// Returns how long no rank of the job has made progress, for Bundle::known_stalled: the smallest progress_age_ns of a
// live rank; 0 if any is unknown.
int64_t TimeWithoutProgress(const Bundle& bundle, const MotionOf& motion);

}  // namespace lockstep
