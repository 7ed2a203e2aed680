// Builds per-rank data from text files, in the form that Flight Recorder dumps are read into.
#ifndef LOCKSTEP_ANALYZER_FORMATS_LOGS_RANKS_H_
#define LOCKSTEP_ANALYZER_FORMATS_LOGS_RANKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/logs/read_file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::logs {

// PyTorch's name and description of the group of all ranks.
inline constexpr char kWholeName[] = "0";
inline constexpr char kWholeDesc[] = "default_pg";

// Groups of one rank; work on them is quadratic.
constexpr size_t kMostGroupsOfRank = 1024;

// Ranks under construction.
class Ranks {
 public:
  // The rank's data; `path`: the first file that mentions it.
  fr::FileData* Of(int32_t rank, const std::string& path);
  // Index into FileData::used of the rank's group.
  static uint32_t GroupOf(fr::FileData* rank, const std::string& name, const std::string& desc);
  static uint32_t Intern(fr::FileData* rank, const std::string& text);
  void Report(const std::string& path, std::string text, int32_t rank = -1, bool note = false);

  int32_t world = 0;   // ranks in the job, at least
  bool sized = false;  // the number is complete
  std::map<int32_t, fr::FileData> ranks;
  std::vector<Problem> problems;
};

// Counters and timeouts of PyTorch's watchdog.
void AddWatchdog(const std::vector<FileFacts>& files, Ranks* ranks);
// Differing calls that TORCH_DISTRIBUTED_DEBUG=DETAIL found.
void AddFingerprints(const std::vector<FileFacts>& files, Ranks* ranks);
// Ranks that did not reach a monitored barrier.
void AddBarriers(const std::vector<FileFacts>& files, Ranks* ranks);
// Calls that NCCL printed.
void AddCalls(const std::vector<FileFacts>& files, Ranks* ranks);
// Counts of operations that ncclras reported.
void AddCounts(const std::vector<FileFacts>& files, Ranks* ranks);
// Python stacks of processes.
void AddStacks(std::vector<FileFacts>* files, Ranks* ranks);
// The first process to fail, if nothing else is known of it: a rank that left a record was alive then.
void AddEnds(const std::vector<FileFacts>& files, Ranks* ranks);

// All ranks, ascending. Problems are appended.
std::vector<fr::FileData> ToRanks(std::vector<FileFacts> files, std::vector<Problem>* problems);

}  // namespace lockstep::logs

#endif  // LOCKSTEP_ANALYZER_FORMATS_LOGS_RANKS_H_
