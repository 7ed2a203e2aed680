// Requests evidence (process states, stacks) from a few ranks, and merges the answers.
#pragma once

#include <string>

#include "collector/service/core/incident_book.h"
#include "collector/service/core/job_table.h"
#include "collector/service/core/shared.h"

namespace lockstep {

class EvidenceGathering {
 public:
  EvidenceGathering(CoreShared* shared, JobTable* jobs, IncidentBook* book)
      : shared_(*shared), jobs_(*jobs), book_(*book) {}

  void Start(Gathering* incident);
  // Repeats requests if needed. Returns whether no more answers are expected.
  bool Tick(Gathering* incident);
  void OnEvidence(const wire::Received& received);
  // Adds stacks that relays merged, or that come from one host. Also keeps stacks that arrive after the time for
  // evidence.
  void OnStacks(const std::shared_ptr<StackReport>& report);
  // Writes the stacks received so far to the incident's folder.
  void WriteStacksOf(Gathering* incident);

 private:
  void RequestEvidence(Gathering* incident, const std::string& host, HostGathering* gathering);
  void OnNoRings(const HostEvidence& evidence);
  static void LookWhetherDone(Gathering* incident, HostGathering* gathering);

  CoreShared& shared_;
  JobTable& jobs_;
  IncidentBook& book_;
};

}  // namespace lockstep
