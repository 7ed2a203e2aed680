// What heartbeats report about a job, apart from its communicators. Relays and the collector merge these facts.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "analyzer/model/rank_set.h"
#include "proto/wire.pb.h"

namespace lockstep {

// Versions and costs of recorders and agents. Ranks with the same recorder version and mode are combined.
class HeardFacts {
 public:
  // Each Add skips invalid data; keeps at most 64 kinds of recorders and 8 versions of agents.
  void Add(const std::string& version, const std::string& mode, const Ranks& ranks, uint32_t call_ns,
           uint64_t ring_bytes);
  void Add(const Heartbeat& heartbeat);
  void Add(const HeardFacts& other);
  void To(Heartbeat* heartbeat) const;
  // Sets versions, GPU mode and costs in *status. Ignores ranks without a report.
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

struct HeartbeatFacts {
  Ranks alive, stopped, in_d, ended;
  uint64_t records_lost = 0;
  int64_t oldest_age_ns = 0;  // age of the oldest merged heartbeat
  uint32_t hosts = 0, silent_hosts = 0;
  std::set<std::string> silent_named;  // names of silent hosts, at most 64
  std::set<std::string> blind;         // what agents cannot observe, at most 64 lines
  HeardFacts recorders;

  HeartbeatFacts() = default;
  explicit HeartbeatFacts(const Heartbeat& heartbeat);
  // Adds the facts of another sender; `age_ns` is the age of its heartbeat.
  void Add(const HeartbeatFacts& other, int64_t age_ns = 0);
  // Adds what stays valid of a silent sender on `host`: ended ranks, lost records, recorders. Its hosts count as
  // silent.
  void AddSilent(const HeartbeatFacts& other, const std::string& host);
  void To(Heartbeat* heartbeat) const;
  Ranks All() const;  // alive and ended
};

}  // namespace lockstep
