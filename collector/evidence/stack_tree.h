// Stacks of many ranks as one prefix tree, which shows shared frames and where ranks differ. Relays merge the trees of
// their children; the result does not depend on the order or grouping of the merges.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/rank_set.h"
#include "proto/evidence.pb.h"

namespace lockstep {

class StackTree {
 public:
  // A tree contains at most this many different stacks, each with at most kMostFrames frames (deeper ones lose their
  // middle). Beyond that, the tree drops the stacks with the largest hashes and keeps their ranks in one set. So the
  // choice does not depend on the order of merges.
  explicit StackTree(size_t most_stacks = 4096) : most_stacks_(most_stacks) {}
  static constexpr size_t kMostFrames = 128;
  static constexpr size_t kMostFrameText = 256;

  // `frames` is innermost first, as in ThreadStack.
  void Add(const std::vector<std::string>& frames, int32_t rank);
  // Adds every thread's stack.
  void Add(const EvidenceReport& report);
  void Merge(const StackTree& other);
  void Clear();

  StackTreeMessage ToMessage() const;
  // For a damaged or hostile message, returns a tree of its valid parts.
  static StackTree FromMessage(const StackTreeMessage& message, size_t most_stacks = 4096);

  // One line per branch point: "0-6: main > train (train.py:10)", indented, rare branches first; at most `most` lines.
  std::vector<std::string> Lines(size_t most = 200) const;

  size_t stacks() const { return stacks_.size(); }
  const Ranks& left_out() const { return left_out_; }
  bool operator==(const StackTree& other) const { return stacks_ == other.stacks_ && left_out_ == other.left_out_; }

 private:
  // Sorted by hash, so that the largest are at the end; frames are outermost first.
  using Key = std::pair<uint64_t, std::vector<std::string>>;
  void Put(std::vector<std::string> frames, const Ranks& ranks);

  const size_t most_stacks_;
  std::map<Key, Ranks> stacks_;
  Ranks left_out_;
};

}  // namespace lockstep
