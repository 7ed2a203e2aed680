// Reports of ncclras: how many operations the ranks of a communicator have launched.
#ifndef LOCKSTEP_ANALYZER_FORMATS_LOGS_RAS_H_
#define LOCKSTEP_ANALYZER_FORMATS_LOGS_RAS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::logs {

struct RasRank {
  int32_t rank = -1;  // inside the communicator
  std::string host;
  int64_t pid = 0;
  int32_t gpu = -1;
  bool operator==(const RasRank&) const = default;
};

// Ranks that have launched equally many operations.
struct RasClass {
  int64_t launched = 0, count = 0;
  std::vector<RasRank> ranks;  // the listed ones; none: too many
  bool operator==(const RasClass&) const = default;
};

// "#0-0 (27a079b828ff1a75) MISMATCH" and the lines below it.
struct RasComm {
  std::string id;
  std::string op;    // "AllReduce"; empty: of every kind together
  int32_t size = 0;  // 0: not in the report
  std::vector<RasClass> classes;
  int64_t number = 0;  // of its first line
};

// Parses a file line by line; one file may contain several reports.
class RasReader {
 public:
  void Take(std::string_view text, int64_t number);
  std::vector<RasComm> Finish();

 private:
  std::map<int64_t, int32_t> sizes_;  // of the groups of the report's table
  std::vector<RasComm> comms_;
  bool open_ = false;
};

}  // namespace lockstep::logs

#endif  // LOCKSTEP_ANALYZER_FORMATS_LOGS_RAS_H_
