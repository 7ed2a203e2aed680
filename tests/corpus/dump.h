// Options and writers of the files of an observed job, for every format.
#ifndef LOCKSTEP_TESTS_CORPUS_DUMP_H_
#define LOCKSTEP_TESTS_CORPUS_DUMP_H_

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
  std::set<int32_t> missing;    // ranks that left nothing
  std::set<int32_t> cut;        // ranks whose file is cut off or has bytes changed
  std::set<int32_t> other_run;  // ranks whose file is of an earlier run of the job
  bool shuffle = false;         // records and files in no order
  bool timing = false;          // Flight Recorder: start events are recorded
  bool frames = true;           // Flight Recorder: with call stacks
  bool gloo = false;            // Flight Recorder: of a job on CPUs, whose operations are only ever retired
  bool known_stalled = false;   // someone watched: nothing moves
  bool places = true;           // headers contain rack and switch
  bool processes = true;        // processes were looked at from outside
  std::set<int32_t> empty;      // Flight Recorder: files without entries
  struct LaterDeath {
    int32_t signal = 0;
    int64_t after = 0;         // from the stop of the job
    bool consequence = false;  // the observer knows that it was ended with the job
  };
  std::map<int32_t, LaterDeath> later_deaths;
  std::function<ProcessFacts(int32_t rank, HostStatus status)> facts;
};

// Write into `folder`, which exists. False: `error` has the reason.
bool WriteLsdFolder(const Simulator& run, const DumpOptions& options, const std::string& folder, std::string* error);
bool WriteFlightRecorderFolder(const Simulator& run, const DumpOptions& options, const std::string& folder,
                               std::string* error);

// Numbers for a rank that an operating system would give.
int32_t PidOf(const Job& job, int32_t rank);

// Cuts bytes off, or changes some, as a full disk or a killed writer does.
void Damage(std::string* bytes, uint64_t seed);
bool WriteFile(const std::string& path, const std::string& bytes, std::string* error);

}  // namespace lockstep::corpus

#endif  // LOCKSTEP_TESTS_CORPUS_DUMP_H_
