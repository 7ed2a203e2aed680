// Stacks of many ranks as one prefix tree: who shares the way, and where they part. Relays merge the trees of those below
// them; the result does not depend on the order or the grouping of the merges.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_STACK_TREE_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_STACK_TREE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/process.pb.h"

namespace lockstep {

// A set of ranks as sorted inclusive runs that neither touch nor overlap.
class RankRuns {
 public:
  // Ranks below 0 and backward runs are left out.
  void Add(int32_t first, int32_t last);
  void Add(const RankRuns& other);
  const std::vector<std::pair<int32_t, int32_t>>& runs() const { return runs_; }
  bool empty() const { return runs_.empty(); }
  int64_t count() const;
  std::string Text(size_t most_runs = 8) const;  // "0-3, 7", "0-3, 7 and 12 more runs"
  bool operator==(const RankRuns&) const = default;

 private:
  std::vector<std::pair<int32_t, int32_t>> runs_;
};

class StackTree {
 public:
  // A tree holds at most so many different stacks, each of at most kMostFrames frames (of deeper ones the middle is cut).
  // Beyond that those with the greatest hashes are left out and their ranks kept in one set: that choice is
  // the same whichever way the trees were merged.
  explicit StackTree(size_t most_stacks = 4096) : most_stacks_(most_stacks) {}
  static constexpr size_t kMostFrames = 128;
  static constexpr size_t kMostFrameText = 256;

  // `frames` innermost first, as ThreadStack has them.
  void Add(const std::vector<std::string>& frames, int32_t rank);
  void Merge(const StackTree& other);

  StackTreeMessage ToMessage() const;
  // Damaged or hostile messages give a tree of what can be understood of them.
  static StackTree FromMessage(const StackTreeMessage& message, size_t most_stacks = 4096);

  // One line a branch point: "ranks 0-6: main > train (train.py:10)", indented, rare branches first; at most `most_lines`.
  std::string Text(size_t most_lines = 200) const;

  size_t stacks() const { return stacks_.size(); }
  const RankRuns& left_out() const { return left_out_; }
  bool operator==(const StackTree& other) const { return stacks_ == other.stacks_ && left_out_ == other.left_out_; }

 private:
  // By hash, so that the greatest are at the end; frames outermost first.
  using Key = std::pair<uint64_t, std::vector<std::string>>;
  void Put(std::vector<std::string> frames, const RankRuns& ranks);

  const size_t most_stacks_;
  std::map<Key, RankRuns> stacks_;
  RankRuns left_out_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_STACK_TREE_H_
