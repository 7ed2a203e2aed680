// NCCL_COMM_ID: every unique id is the same then, and the ranks of a communicator meet at the address it names, where
// its rank 0 listens.
#ifndef LOCKSTEP_TESTS_STANDIN_NCCL_MEETING_H_
#define LOCKSTEP_TESTS_STANDIN_NCCL_MEETING_H_

#include "tests/standin/nccl/comm.h"

namespace standin {

// Whether the variable is set; then `id` becomes the one id there is.
bool FixedId(IdContent* id);
// The id that rank 0 creates for this meeting. ncclSystemError: another listener is there; ncclInternalError: aborted.
ncclResult_t Meet(ncclComm& comm, int nranks, int rank, IdContent* id);

}  // namespace standin

#endif  // LOCKSTEP_TESTS_STANDIN_NCCL_MEETING_H_
