// Functions that only the stand-in has.
#pragma once

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

// Queues an operation that breaks the device's context when it runs, as an illegal address does. Afterwards nothing on
// the device completes, and most calls for its streams and events return `error`.
CUresult standinFault(CUstream stream, CUresult error);
// Returns the number of existing CUDA events.
size_t standinEvents(void);

#ifdef __cplusplus
}
#endif
