// Shared by the files of the libcudart stand-in.
#ifndef LOCKSTEP_TESTS_STANDIN_CUDA_RUNTIME_H_
#define LOCKSTEP_TESTS_STANDIN_CUDA_RUNTIME_H_

#include <cuda_runtime_api.h>

#include "tests/standin/cuda/engine.h"

#define STANDIN_CUDART extern "C" STANDIN_EXPORT cudaError_t
#define STANDIN_TEXT extern "C" STANDIN_EXPORT const char*

namespace standin {

// Remembers an error as the calling thread's last one and returns it.
cudaError_t Report(cudaError_t error);
bool ValidDevice(int device);

}  // namespace standin

#endif  // LOCKSTEP_TESTS_STANDIN_CUDA_RUNTIME_H_
