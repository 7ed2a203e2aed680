// Sets of ranks as ascending, inclusive runs, in messages, in the collector and in the viewer. 24,576 consecutive ranks
// are one run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

class RankRuns;
class RankSet;

constexpr int32_t kMostRank = (1 << 22) - 1;       // highest rank that a message may contain
constexpr size_t kMostRankRuns = size_t{1} << 18;  // maximum number of runs of a set in a message

class Ranks {
 public:
  struct Run {
    int32_t first = 0, last = 0;  // inclusive
    bool operator==(const Run& other) const = default;
  };

  Ranks() = default;
  Ranks(std::initializer_list<int32_t> ranks);
  // Accepts any order and duplicates; skips ranks outside 0..kMostRank.
  static Ranks Of(std::vector<int32_t> ranks);
  // Accepts any order and overlaps; no run may be empty.
  static Ranks OfRuns(std::vector<Run> runs);
  static Ranks Between(int32_t first, int32_t last);
  static Ranks Of(const RankRuns& runs);  // any order
  // Parses a set from the network. Refuses runs that are not ascending, overlap, exceed 0..kMostRank, or are too many.
  static absl::StatusOr<Ranks> From(const RankSet& message);
  static Ranks FromOrNone(const RankSet& message);  // an invalid set is empty

  void To(RankSet* message) const;

  void Add(int32_t rank) { AddRun(rank, rank); }
  void AddRun(int32_t first, int32_t last);  // clipped to 0..kMostRank
  // Takes time linear in the runs of both.
  void Unite(const Ranks& other);
  void Subtract(const Ranks& other);
  Ranks Common(const Ranks& other) const;

  bool Contains(int32_t rank) const;
  bool ContainsAll(const Ranks& other) const;
  bool Intersects(const Ranks& other) const;
  bool empty() const { return runs_.empty(); }
  size_t size() const;  // number of ranks
  const std::vector<Run>& runs() const { return runs_; }
  int32_t front() const { return runs_.empty() ? -1 : runs_.front().first; }  // -1 if the set is empty
  int32_t back() const { return runs_.back().last; }                          // the set must not be empty
  std::vector<int32_t> List(size_t most = SIZE_MAX) const;
  // Returns "0-7, 9 and 12 more".
  std::string Text(size_t most_runs = 8) const;

  bool operator==(const Ranks& other) const = default;

 private:
  std::vector<Run> runs_;  // ascending, neither overlapping nor touching
};

}  // namespace lockstep
