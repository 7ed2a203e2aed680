// The large job of tests/jobmodel as its agents would see it, with full rings. The last step of the replica with the
// fault is played until nothing moves; all earlier calls are written as completed. It shares nothing with the engine.
#ifndef LOCKSTEP_TESTS_BENCH_SCALE_JOB_H_
#define LOCKSTEP_TESTS_BENCH_SCALE_JOB_H_

#include <memory>
#include <string_view>

#include "analyzer/model/bundle.h"
#include "tests/jobmodel/large_job.h"

namespace lockstep {

struct ScaleOptions {
  enum Fault { kNone, kStall, kMismatch, kBoth };
  static constexpr int kTp = jobmodel::kLargeJobTp;  // ranks of a node

  int ranks = 0, records = 2048, pp = 16, depth = 1500;
  Fault fault = kStall;
  bool marks = true;

  // Parses "--ranks" with its value and similar options; false: another option.
  bool Take(std::string_view name, const char* value);
  bool Sound() const { return pp >= 1 && records >= 1 && ranks >= kTp * pp && ranks % (kTp * pp) == 0; }
};
constexpr char kScaleUsage[] =
    "--ranks N [--records 2048] [--pp 16] [--fault none|stall|mismatch|both] [--depth 1500] [--marks full|off]";

// Immutable; any thread.
class ScaleJob {
 public:
  explicit ScaleJob(const ScaleOptions& options);
  ~ScaleJob();
  int nodes() const;
  // A node's ranks and the communicators that they are in. Each rank has the newest `records` of the operations that it
  // recorded, and counts the others as not loaded.
  Bundle Node(int node, int records) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_BENCH_SCALE_JOB_H_
