// The phases of an incident: verdict from digests, evidence, whole rings, final verdict. Also resumes them in a later
// process.
#pragma once

#include <functional>

#include "collector/service/core/desyncs.h"
#include "collector/service/core/evidence_gathering.h"
#include "collector/service/core/incident_book.h"
#include "collector/service/core/ring_gathering.h"
#include "collector/service/core/shared.h"

namespace lockstep {

class Incidents {
 public:
  Incidents(CoreShared* shared, JobTable* jobs, Clients* clients)
      : shared_(*shared),
        jobs_(*jobs),
        book_(shared, jobs, clients),
        evidence_(shared, jobs, &book_),
        rings_(shared, jobs, &book_),
        desyncs_(shared, &book_, &rings_) {}

  // Creates an incident from the job's last round. `decision` is null if a user requested a dump.
  void Make(Job* job, const Decision* decision);
  // Takes over an incident that an earlier process began to gather.
  void Resume(const IncidentState& state);
  // Assigns incidents from before this process started to their job.
  void TakeUp(Job* job);
  void Tick();

  IncidentBook& book() { return book_; }
  const IncidentBook& book() const { return book_; }
  EvidenceGathering& evidence() { return evidence_; }
  RingGathering& rings() { return rings_; }
  Desyncs& desyncs() { return desyncs_; }

 private:
  void Tick(Gathering* incident);
  // Writes the verdict from the round's bundle. Prints it first, because a full disk must not withhold a verdict from
  // users.
  void WriteVerdict(Gathering* incident, std::function<void(Gathering*)> then);
  void AfterEvidence(Gathering* incident);
  void AfterVerdict(Gathering* incident);
  void StartFinal(Gathering* incident);

  CoreShared& shared_;
  JobTable& jobs_;
  IncidentBook book_;
  EvidenceGathering evidence_;
  RingGathering rings_;
  Desyncs desyncs_;
};

}  // namespace lockstep
