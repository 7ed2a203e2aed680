// Makes healthy jobs and jobs with one straggler or slow link, in the forms in which times reach the analyzer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep::slow {

enum class Form {
  kEvents,     // GPU events; operations in sequence
  kPolled,     // as kEvents, but GPU markers are read every 10 ms
  kHosts,      // only ends are recorded; the CPU thread enters the operations in sequence
  kDurations,  // as kHosts, but with durations, as a framework records them
  kOwnDump,    // .lsd files of an asynchronous job with several streams
  kRecorder,   // Flight Recorder files of an asynchronous job with several streams
  kPairs,      // pairs and data groups with a constant shift; markers are read every 10 ms
};
inline constexpr Form kForms[] = {Form::kEvents,  Form::kPolled,   Form::kHosts, Form::kDurations,
                                  Form::kOwnDump, Form::kRecorder, Form::kPairs};
const char* FormName(Form form);

enum class Fault { kNone, kRank, kHost, kLink, kSpot };  // kSpot: one rank is slow at one point of each step
inline constexpr Fault kFaults[] = {Fault::kRank, Fault::kHost, Fault::kLink, Fault::kSpot};
const char* FaultName(Fault fault);

struct Job {
  Bundle bundle;
  std::vector<int32_t> culprits;  // slow ranks, ascending; empty if there is none
};

// `share` is the extra time of the slow part of a step, as a fraction. `jitter` is symmetric, and applies to each
// computation. Returns nullopt if the form has no such fault at this size.
std::optional<Job> MakeJob(Form form, Fault fault, double share, int ranks, double jitter, uint64_t seed);

}  // namespace lockstep::slow
