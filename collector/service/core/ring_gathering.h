// Requests the rings of every host, a few hosts at a time, and acknowledges data that is on disk.
#pragma once

#include <cstdint>
#include <string>

#include "collector/service/core/incident_book.h"
#include "collector/service/core/job_table.h"
#include "collector/service/core/shared.h"

namespace lockstep {

class RingGathering {
 public:
  RingGathering(CoreShared* shared, JobTable* jobs, IncidentBook* book)
      : shared_(*shared), jobs_(*jobs), book_(*book) {}

  void Start(Gathering* incident);
  // Sends the request to one host, for the first time or again.
  void RequestRings(Gathering* incident, const std::string& host, HostGathering* gathering);
  // Sends the request to the next hosts. Returns whether all hosts have sent everything, or will send nothing more.
  bool Tick(Gathering* incident);
  void OnChunk(const wire::Received& received);
  // Makes everything written durable, and acknowledges it.
  void Commit(Gathering* incident);

 private:
  CoreShared& shared_;
  JobTable& jobs_;
  IncidentBook& book_;
  size_t waiting_chunk_bytes_ = 0;
  uint64_t gathered_bytes_ = 0;
};

}  // namespace lockstep
