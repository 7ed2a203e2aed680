// The part of the CUDA runtime's C++ header that the stand-in supports.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
// Typed overloads that C++ callers of the runtime expect.
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
