// Options and writers for the files of an observed job, in every format.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/corpus/capture.h"

namespace lockstep::corpus {

struct DumpOptions {
  CaptureOptions capture;
  std::set<int32_t> missing;    // ranks without a file
  std::set<int32_t> cut;        // ranks whose file is truncated or has corrupted bytes
  std::set<int32_t> other_run;  // ranks whose file is from an earlier run of the job
  bool shuffle = false;         // shuffles records and files
  bool timing = false;          // Flight Recorder: start events are recorded
  bool frames = true;           // Flight Recorder: includes call stacks
  bool gloo = false;            // Flight Recorder: a job on CPUs; entries show an end only as `retired`
  bool known_stalled = false;   // an observer saw that nothing moves
  bool places = true;           // headers contain rack and switch
  bool processes = true;        // processes were observed from outside
  std::set<int32_t> empty;      // Flight Recorder: files without entries
  struct LaterDeath {
    int32_t signal = 0;
    int64_t after = 0;         // time since the job stopped
    bool consequence = false;  // the observer knows that the process was killed with the job
  };
  std::map<int32_t, LaterDeath> later_deaths;
  std::function<ProcessFacts(int32_t rank, HostStatus status)> facts;
};

// Writes into the existing `folder`. On false, `error` has the reason.
bool WriteLsdFolder(const Simulator& run, const DumpOptions& options, const std::string& folder, std::string* error);
bool WriteFlightRecorderFolder(const Simulator& run, const DumpOptions& options, const std::string& folder,
                               std::string* error);

// Returns a PID that an operating system might give to the rank.
int32_t PidOf(const Job& job, int32_t rank);

// Truncates the bytes or changes some, as a full disk or a killed writer does.
void Damage(std::string* bytes, uint64_t seed);
bool WriteFile(const std::string& path, const std::string& bytes, std::string* error);

}  // namespace lockstep::corpus
