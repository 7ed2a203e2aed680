// Declarations that the files of the libcudart stand-in share.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "tests/standin/cuda/engine.h"

#define STANDIN_CUDART extern "C" STANDIN_EXPORT cudaError_t
#define STANDIN_TEXT extern "C" STANDIN_EXPORT const char*

namespace standin {

// Stores an error as the calling thread's last error and returns it.
cudaError_t Report(cudaError_t error);
inline cudaError_t Error(int number) { return Report(static_cast<cudaError_t>(number)); }
bool ValidDevice(int device);

// Finds a driver function as the real runtime does: cuGetProcAddress through dlsym, and everything else through
// cuGetProcAddress.
template <typename F>
F* Driver(const char* name, F* linked) {
  using Find = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  static const auto find = reinterpret_cast<Find>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2"));
  if (find == nullptr) {
    return linked;  // HIP's runtime contains the driver
  }
  void* function = nullptr;
  CUdriverProcAddressQueryResult status;
  find(name, &function, CUDA_VERSION, 0, &status);
  return reinterpret_cast<F*>(function);
}

}  // namespace standin

#define DRIVER(NAME)                                             \
  []() {                                                         \
    static auto* const function = standin::Driver(#NAME, &NAME); \
    return function;                                             \
  }()
