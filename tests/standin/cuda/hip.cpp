// HIP functions that the stand-in's CUDA runtime does not have. They are compiled only into libamdhip64.so.6, with
// CUDA's names mapped to HIP's.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "tests/standin/cuda/engine.h"

extern "C" STANDIN_EXPORT int hipStreamGetDevice(cudaStream_t handle, int* device) {
  const auto stream = standin::FindStream(handle);
  if (!stream || !device) {
    return 400;
  }
  *device = standin::StreamDevice(*stream);
  return 0;
}

extern "C" STANDIN_EXPORT int hipEventRecord_spt(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecord(event, stream != nullptr ? stream : cudaStreamPerThread);
}

extern "C" STANDIN_EXPORT int hipMemcpyWithStream(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                                  cudaStream_t stream) {
  const cudaError_t copied = cudaMemcpyAsync(to, from, bytes, kind, stream);
  return copied != cudaSuccess ? copied : cudaStreamSynchronize(stream);
}

extern "C" STANDIN_EXPORT int hipStreamWriteValue64(CUstream stream, CUdeviceptr to, cuuint64_t value,
                                                    unsigned int flags) {
  return cuStreamWriteValue64_v2(stream, to, value, flags);
}
extern "C" STANDIN_EXPORT int hipDeviceGetUuid(CUuuid* uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }
