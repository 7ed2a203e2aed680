// Healthy jobs and jobs with one straggler or slow link, in the forms in which times reach the analyzer. The truth is
// made with the job.
#ifndef LOCKSTEP_TESTS_BENCH_SLOW_JOBS_H_
#define LOCKSTEP_TESTS_BENCH_SLOW_JOBS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep::slow {

enum class Form {
  kEvents,     // GPU events, each operation after the one before
  kPolled,     // the same, marks read every 10 ms
  kHosts,      // only ends are recorded, and the host enters each operation after the one before
  kDurations,  // a framework's durations of such operations
  kOwnDump,    // .lsd files of an asynchronous job with several streams
  kRecorder,   // Flight Recorder files of such a job
  kPairs,      // pairs and data groups that run at a constant shift, marks read every 10 ms
};
inline constexpr Form kForms[] = {Form::kEvents,  Form::kPolled,   Form::kHosts, Form::kDurations,
                                  Form::kOwnDump, Form::kRecorder, Form::kPairs};
const char* FormName(Form form);

enum class Fault { kNone, kRank, kHost, kLink, kSpot };  // kSpot: one rank, at one place of each step
inline constexpr Fault kFaults[] = {Fault::kRank, Fault::kHost, Fault::kLink, Fault::kSpot};
const char* FaultName(Fault fault);

struct Job {
  Bundle bundle;
  std::vector<int32_t> culprits;  // slow ranks, ascending; empty: none
};

// `share`: how much longer a step of the slow part takes. `jitter`: of each computation, even on both sides. Nothing if
// the form has no such fault at this size.
std::optional<Job> MakeJob(Form form, Fault fault, double share, int ranks, double jitter, uint64_t seed);

}  // namespace lockstep::slow

#endif  // LOCKSTEP_TESTS_BENCH_SLOW_JOBS_H_
