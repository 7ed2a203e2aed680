// Takes a late job to a verdict: requests digests, has them analyzed, and judges the result.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collector/service/core/incidents.h"
#include "collector/service/core/job_table.h"
#include "collector/service/core/shared.h"

namespace lockstep {

class Rounds {
 public:
  Rounds(CoreShared* shared, JobTable* jobs, Clients* clients, Incidents* incidents)
      : shared_(*shared), jobs_(*jobs), clients_(*clients), incidents_(*incidents) {}

  void OnDigest(const wire::Received& received);
  void Tick(Job* job);

 private:
  void OnFullDigest(Job* job, const std::string& host, const Ranks& ranks, std::shared_ptr<DigestEnvelope> digest);
  void OnSample(Job* job, const Ranks& ranks, std::shared_ptr<DigestEnvelope> digest);
  void Decide(Job* job, const Decision& decision);
  void Start(Job* job, bool by_hand);
  void StartSamples(Job* job, const std::vector<int32_t>& ranks);
  void AskForDigests(const Job& job, uint64_t number, const Ranks& ranks);
  static bool AllAreIn(const Job& job);
  bool IsIn(Job* job);
  void AskOnceMore(Job* job);
  void Finish(Job* job);
  void AfterAnalysis(Job* job);
  void Judge(Job* job, bool all_ranks);
  bool WasDeclared(Job* job, const Decision& decision);
  void Declare(Job* job, const Decision& decision);

  CoreShared& shared_;
  JobTable& jobs_;
  Clients& clients_;
  Incidents& incidents_;
};

}  // namespace lockstep
