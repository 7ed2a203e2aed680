// Takes stacks of a few ranks when a user asks.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "collector/evidence/stack_tree.h"
#include "collector/service/core/job_table.h"
#include "collector/service/core/shared.h"

namespace lockstep {

class FreshStacks {
 public:
  FreshStacks(CoreShared* shared, JobTable* jobs) : shared_(*shared), jobs_(*jobs) {}

  // Requests stacks; the answer follows. Returns the reason if this is impossible.
  std::string Ask(Job* job, const Address& to, uint64_t client_request);
  // Returns whether the report answers a user's request.
  bool Take(const StackReport& report);
  void Tick();

 private:
  struct Request {
    Address to;
    uint64_t client_request = 0, request = 0;
    Ranks wanted, got;
    StackTree tree;
    std::vector<std::string> refused;
    int64_t until_ns = 0;
  };

  CoreShared& shared_;
  JobTable& jobs_;
  std::list<Request> requests_;
};

}  // namespace lockstep
