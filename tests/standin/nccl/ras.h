// NCCL's status service (RAS): one process of the machine listens at NCCL_RAS_ADDR and reports on the communicators of
// its job, as text or JSON.
#pragma once

#include "tests/standin/nccl/comm.h"

namespace standin {

// Adds the communicator to the service's reports. The first call starts the service if NCCL_RAS_ENABLE is 1, or unset
// with NCCL_RAS_ADDR set, from NCCL 2.24 on.
void RasJoin(ncclComm& comm);
// Counts a launched collective.
void RasCount(ncclComm& comm, Kind kind);

}  // namespace standin
