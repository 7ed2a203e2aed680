// A rank's state in words: its process, its CPU thread's call, whether it moves, its stacks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// "process killed by signal 9", "process sleeping (S) in kernel function futex_wait"; empty if not sampled.
std::string ProcessText(const Process& process);
// "thread inside ncclAllReduce for 12 s"; empty if no thread was recorded. `with_time` = false omits the duration, so
// that equal states of many ranks have equal texts.
std::string HostText(const Rank& rank, bool with_time = true);
// ProcessText and HostText together.
std::string RankStateText(const Rank& rank, bool with_time = true);
// "no: 0 ms of CPU, 0 bytes of I/O in 2.5 s, same frame in both samples"; empty if nothing was sampled.
std::string MovingText(const Rank& rank);
// Innermost first, printable, without offsets ("+0x2a/0x50"), at most `limit` frames.
std::vector<std::string> Frames(const std::vector<std::string>& stack, size_t limit);
// By global rank; null if the rank left no data.
const Rank* FindRank(const Bundle& bundle, int32_t rank);

// Each host's wall-clock offset from the first aligned host, in the order of Verdict::clocks; 0 for unaligned hosts.
// The offsets in Verdict::clocks are between record clocks, which may start at zero when each host boots.
std::vector<int64_t> WallClocksAhead(const Verdict& verdict, const Bundle& bundle);

// Merges equal texts of several ranks into one line that lists all their ranks, in order of arrival.
class MergedLines {
 public:
  void Add(std::string text, int32_t rank);
  bool empty() const { return lines_.empty(); }
  // "ranks 1, 3: text"; "all: text" for `total` ranks; omits the ranks if `total` is 1. One line counts those beyond
  // `limit`.
  std::vector<std::string> Lines(size_t total, size_t limit) const;

 private:
  std::vector<std::pair<std::string, std::vector<int32_t>>> lines_;
  std::map<std::string, size_t> index_;
};

}  // namespace lockstep
