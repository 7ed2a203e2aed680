// Reads reports of ncclras: how many operations the ranks of a communicator have launched.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::logs {

struct RasRank {
  int32_t rank = -1;  // inside the communicator
  std::string host;
  int64_t pid = 0;
  int32_t gpu = -1;
  bool operator==(const RasRank&) const = default;
};

// Ranks that have launched the same number of operations.
struct RasClass {
  int64_t launched = 0, count = 0;
  std::vector<RasRank> ranks;  // the listed ranks; empty if there are too many
  bool operator==(const RasClass&) const = default;
};

// "#0-0 (27a079b828ff1a75) MISMATCH" and the lines below it.
struct RasComm {
  std::string id;
  std::string op;    // "AllReduce"; empty for all kinds together
  int32_t size = 0;  // 0 if not in the report
  std::vector<RasClass> classes;
  int64_t number = 0;  // number of its first line
};

// A rank that did not answer, or is in a different state than most ranks.
struct RasOdd {
  std::string id;  // the communicator that numbers the rank
  RasRank rank;
  int32_t size = 0;    // size of the communicator that numbers the rank; 0 if not in the report
  std::string status;  // "FINALIZE"; empty if the rank did not answer
};

struct RasReports {
  std::vector<RasComm> comms;  // communicators with ranks that launched different numbers of operations
  std::vector<RasOdd> odd;
  std::set<std::pair<std::string, int64_t>> dead;  // host and PID of processes that ncclras considers dead
  int32_t largest = 0;                             // size of the largest communicator; 0: the file contains no report
  int32_t gpus = 0, hosts = 0;                     // of the whole job; 0 if not in the report
  std::map<std::pair<std::string, int64_t>, std::set<int32_t>> processes;  // GPUs by host and PID; only in JSON
  std::vector<std::string> host_order;  // as in the communicator with the most hosts; only in JSON
  std::map<std::pair<std::string, int64_t>, int32_t> largest_ranks;  // ranks in the largest communicator; only in JSON
};

// "lockstep: rank 5 is process 1234 on 10.0.0.7": a line that lockstep attach adds to a report.
struct RankProcess {
  int32_t rank = -1;
  int64_t pid = 0;
  std::string host;
};
std::string RankProcessLine(const RankProcess& process);
std::optional<RankProcess> ParseRankProcess(std::string_view text);

// Parses a file line by line; one file may contain several reports.
class RasReader {
 public:
  void Take(std::string_view text, int64_t number);
  RasReports Finish();

 private:
  void AddOdd(RasRank rank, std::string status);

  std::map<int64_t, int32_t> sizes_;  // size of the communicators in each group of the report's table
  RasReports reports_;
  bool open_ = false;        // inside the counts of a communicator
  bool dead_ = false;        // inside the list of dead processes
  bool incomplete_ = false;  // inside a communicator's list of ranks that did not answer
  bool totals_ = false;      // the next line contains the totals of the job
  int32_t size_ = 0;         // size of the last named communicator
  std::string id_;           // identity of the last named communicator
};

// Returns whether a file begins like `ncclras -f json`: all ranks of all communicators with their counts. A file may
// contain several reports.
bool IsRasJson(std::string_view head);
absl::StatusOr<RasReports> ReadRasJson(std::string_view text);

}  // namespace lockstep::logs
