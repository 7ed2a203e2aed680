// The state of a rank in words: its process, its CPU thread's call, whether it moves, its stacks.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// "process killed by signal 9", "process sleeping (S) in kernel function futex_wait"; empty if not sampled.
std::string ProcessText(const Process& process);
// "thread inside ncclAllReduce for 12 s"; empty if no thread was recorded. Without `with_time` the duration is left
// out, so that equal states of many ranks have equal texts.
std::string HostText(const Rank& rank, bool with_time = true);
// ProcessText and HostText together.
std::string RankStateText(const Rank& rank, bool with_time = true);
// "no: 0 ms of CPU, 0 bytes of I/O in 2.5 s, same frame in both samples"; empty if nothing was sampled.
std::string MovingText(const Rank& rank);
// Innermost first, printable, without offsets ("+0x2a/0x50"), at most `limit` frames.
std::vector<std::string> Frames(const std::vector<std::string>& stack, size_t limit);
// By global rank; null if there is no data.
const Rank* FindRank(const Bundle& bundle, int32_t rank);

// The offset of each host's wall clock from the first aligned host's, in the order of Verdict::clocks. The offsets in
// Verdict::clocks are between the clocks of the records, whose zero may be each host's own start.
std::vector<int64_t> WallClocksAhead(const Verdict& verdict, const Bundle& bundle);

// Merges equal texts of several ranks into one line with all their ranks, in the order of arrival.
class MergedLines {
 public:
  void Add(std::string text, int32_t rank);
  bool empty() const { return lines_.empty(); }
  // "ranks 1, 3: text"; without ranks if `total` is 1.
  std::vector<std::string> Lines(size_t total, size_t limit) const;

 private:
  std::vector<std::pair<std::string, std::vector<int32_t>>> lines_;
  std::map<std::string, size_t> index_;
};

}  // namespace lockstep
