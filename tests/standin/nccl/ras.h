// NCCL's status service (RAS): one process of the machine listens at NCCL_RAS_ADDR and reports on the communicators of
// its job, as text or JSON.
#pragma once

#include "tests/standin/nccl/comm.h"

namespace standin {

// Starts this process's part of the service once, if NCCL_RAS_ADDR is set or NCCL_RAS_ENABLE is 1. From then on it also
// reports this communicator.
void RasJoin(ncclComm& comm);
// Counts a launched collective.
void RasCount(ncclComm& comm, Kind kind);

}  // namespace standin
