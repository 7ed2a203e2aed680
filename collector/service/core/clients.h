// Answers users' tools: `lockstep top`, `lockstep dump`, `lockstep run --collector`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collector/service/core/examination.h"
#include "collector/service/core/fresh_stacks.h"
#include "collector/service/core/job_table.h"
#include "collector/service/core/shared.h"

namespace lockstep {

class Clients {
 public:
  Clients(CoreShared* shared, JobTable* jobs)
      : shared_(*shared), jobs_(*jobs), fresh_(shared, jobs), examination_(shared) {}

  void OnRequest(const wire::Received& received);
  // Sends the job's current state to all clients that watch it. `incident` is null if there is no new one.
  void Tell(const std::string& key, const Incident* incident);
  void Tick();
  FreshStacks& fresh() { return fresh_; }
  Examination& examination() { return examination_; }

 private:
  struct Watcher {
    Address address;
    uint64_t request = 0;
    std::string job;
    int64_t until_ns = 0;
    int64_t next_ns = 0;
    std::vector<uint64_t> communicators;  // of the requested job
  };

  bool Watches(const Watcher& watcher, const Job& job);
  std::string NamesOf(const std::vector<Job*>& jobs);

  CoreShared& shared_;
  JobTable& jobs_;
  FreshStacks fresh_;
  Examination examination_;
  std::vector<Watcher> watchers_;
};

}  // namespace lockstep
