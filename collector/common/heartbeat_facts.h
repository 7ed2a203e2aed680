// Versions and costs of recorders and agents, from heartbeats. Identical ranks are combined, and hosts are merged on
// the way up.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "analyzer/model/rank_set.h"
#include "proto/wire.pb.h"

namespace lockstep {

class HeardFacts {
 public:
  // Skips invalid data; keeps at most 64 kinds of recorders and 8 versions of agents.
  void Add(const Heartbeat& heartbeat);
  void Add(const HeardFacts& other);
  void To(Heartbeat* heartbeat) const;
  // Versions, mode of the GPU progress markers and cost, as in JobStatus. Skips ranks without a report.
  void To(JobStatus* status) const;

 private:
  struct Kind {
    Ranks ranks;
    uint32_t call_ns = 0;
    uint64_t ring_bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Kind> kinds_;  // indexed by version and mode
  std::set<std::string> agents_;
  uint32_t agent_cpu_permille_ = 0;
};

}  // namespace lockstep
