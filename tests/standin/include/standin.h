// Functions of the stand-in alone: ways to make a GPU fail.
#ifndef LOCKSTEP_TESTS_STANDIN_INCLUDE_STANDIN_H_
#define LOCKSTEP_TESTS_STANDIN_INCLUDE_STANDIN_H_

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

// Queues an operation on `stream` that breaks the device's context when it is reached, as an illegal address does:
// nothing on the device completes any more, and every call gives `error` from then on.
CUresult standinFault(CUstream stream, CUresult error);
// All existing CUDA events.
size_t standinEvents(void);

#ifdef __cplusplus
}
#endif

#endif  // LOCKSTEP_TESTS_STANDIN_INCLUDE_STANDIN_H_
