// NCCL_COMM_ID: all unique ids are equal, and a communicator's ranks meet at the address in the variable, where rank 0
// listens.
#pragma once

#include "tests/standin/nccl/comm.h"

namespace standin {

// Returns whether the variable is set. If so, sets `id` to the one fixed id.
bool FixedId(IdContent* id);
// Sets `id` to the id that rank 0 creates for this meeting. ncclSystemError: the address is in use. ncclInternalError:
// aborted.
ncclResult_t Meet(ncclComm& comm, int nranks, int rank, IdContent* id);

}  // namespace standin
