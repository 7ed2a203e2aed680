// The large job of tests/jobmodel as its agents would see it, with full rings. The last step of the faulty replica is
// simulated until nothing moves; all earlier calls are completed. Shares no code with the engine.
#pragma once

#include <memory>
#include <string_view>

#include "analyzer/model/bundle.h"
#include "tests/jobmodel/large_job.h"

namespace lockstep {

struct ScaleOptions {
  enum Fault { kNone, kStall, kMismatch, kBoth };
  static constexpr int kTp = jobmodel::kLargeJobTp;  // ranks per node

  int ranks = 0, records = 2048, pp = 16, depth = 1500;
  Fault fault = kStall;
  bool marks = true;

  // Takes the value of an option such as "--ranks". Returns false for any other option.
  bool Take(std::string_view name, const char* value);
  bool Sound() const { return pp >= 1 && records >= 1 && ranks >= kTp * pp && ranks % (kTp * pp) == 0; }
};
constexpr char kScaleUsage[] =
    "--ranks N [--records 2048] [--pp 16] [--fault none|stall|mismatch|both] [--depth 1500] [--marks full|off]";

// Immutable; thread-safe.
class ScaleJob {
 public:
  explicit ScaleJob(const ScaleOptions& options);
  ~ScaleJob();
  int nodes() const;
  // Returns a node's ranks and their communicators. Each rank has its newest `records` operations; the others count as
  // not loaded.
  Bundle Node(int node, int records) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace lockstep
