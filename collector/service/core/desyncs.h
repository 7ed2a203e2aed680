// Saves the records of a silent desync while the job continues.
#pragma once

#include "collector/service/core/incident_book.h"
#include "collector/service/core/ring_gathering.h"
#include "collector/service/core/shared.h"

namespace lockstep {

class Desyncs {
 public:
  Desyncs(CoreShared* shared, IncidentBook* book, RingGathering* rings)
      : shared_(*shared), book_(*book), rings_(*rings) {}

  // When a difference is first seen, requests the rings of the ranks that differ, and of a few others, before they are
  // overwritten. When it is seen again, it becomes an incident. DesyncWatch reports each of these two events once per
  // communicator.
  void Gather(Job* job, const Desync& desync);
  // Drops an incident that was not confirmed, for example because a failed group reverted its operations.
  void Abandon(Gathering* incident);

 private:
  void Confirm(Job* job, const Desync& desync);

  CoreShared& shared_;
  IncidentBook& book_;
  RingGathering& rings_;
};

}  // namespace lockstep
