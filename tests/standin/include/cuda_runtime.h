// The CUDA runtime's header, as far as the stand-in supports it.
#ifndef LOCKSTEP_TESTS_STANDIN_INCLUDE_CUDA_RUNTIME_H_
#define LOCKSTEP_TESTS_STANDIN_INCLUDE_CUDA_RUNTIME_H_

#include <cuda_runtime_api.h>

#ifdef __cplusplus
// The typed conveniences that C++ callers of the runtime expect.
template <class T>
static inline cudaError_t cudaMalloc(T** pointer, size_t size) {
  return ::cudaMalloc(reinterpret_cast<void**>(pointer), size);
}
template <class T>
static inline cudaError_t cudaMallocHost(T** pointer, size_t size) {
  return ::cudaMallocHost(reinterpret_cast<void**>(pointer), size);
}
template <class T>
static inline cudaError_t cudaHostAlloc(T** pointer, size_t size, unsigned int flags) {
  return ::cudaHostAlloc(reinterpret_cast<void**>(pointer), size, flags);
}
#endif

#endif  // LOCKSTEP_TESTS_STANDIN_INCLUDE_CUDA_RUNTIME_H_
