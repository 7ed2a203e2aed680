// libcudart: versions, errors, devices and memory.
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/standin/cuda/capture.h"
#include "tests/standin/cuda/engine.h"
#include "tests/standin/cuda/runtime.h"

namespace standin {

namespace {
thread_local cudaError_t last_error = cudaSuccess;
}

cudaError_t Report(cudaError_t error) {
  // cudaErrorNotReady is an answer, not an error.
  if (error != cudaSuccess && error != cudaErrorNotReady) {
    last_error = error;
  }
  return error;
}

bool ValidDevice(int device) { return device >= 0 && device < DeviceCount(); }

}  // namespace standin

using standin::Report;

STANDIN_TEXT cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInitializationError: return "cudaErrorInitializationError";
    case cudaErrorInvalidDevicePointer: return "cudaErrorInvalidDevicePointer";
    case cudaErrorInvalidMemcpyDirection: return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorHostMemoryAlreadyRegistered: return "cudaErrorHostMemoryAlreadyRegistered";
    case cudaErrorHostMemoryNotRegistered: return "cudaErrorHostMemoryNotRegistered";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureMerge: return "cudaErrorStreamCaptureMerge";
    case cudaErrorStreamCaptureUnmatched: return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureImplicit: return "cudaErrorStreamCaptureImplicit";
    case cudaErrorStreamCaptureWrongThread: return "cudaErrorStreamCaptureWrongThread";
    case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
    case cudaErrorGraphExecUpdateFailure: return "cudaErrorGraphExecUpdateFailure";
    case cudaErrorUnknown: return "cudaErrorUnknown";
  }
  return "unrecognized error code";
}

STANDIN_TEXT cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInitializationError: return "initialization error";
    case cudaErrorInvalidDevicePointer: return "invalid device pointer";
    case cudaErrorInvalidMemcpyDirection: return "invalid copy direction for memcpy";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorHostMemoryAlreadyRegistered: return "part or all of the requested memory range is already mapped";
    case cudaErrorHostMemoryNotRegistered: return "pointer does not correspond to a registered memory region";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorNotSupported: return "operation not supported";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge: return "operation would result in a merge of separate capture sequences";
    case cudaErrorStreamCaptureUnmatched: return "capture was not ended in the same stream as it began";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation: return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureImplicit:
      return "operation would make the legacy stream depend on a capturing blocking stream";
    case cudaErrorStreamCaptureWrongThread:
      return "attempt to terminate a thread-local capture sequence from another thread";
    case cudaErrorCapturedEvent: return "operation not permitted on an event last recorded in a capturing stream";
    case cudaErrorGraphExecUpdateFailure:
      return "the graph update was not performed because it included changes which violated constraints specific to "
             "instantiated graph update";
    case cudaErrorUnknown: return "unknown error";
  }
  return "unrecognized error code";
}

STANDIN_CUDART cudaPeekAtLastError() {
  // An error that ended the context stays.
  const int sticky = standin::BoundDevice() < 0 ? 0 : standin::StickyError(standin::BoundDevice());
  return sticky != 0 ? static_cast<cudaError_t>(sticky) : standin::last_error;
}

STANDIN_CUDART cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  standin::last_error = cudaSuccess;
  return error;
}

STANDIN_CUDART cudaRuntimeGetVersion(int* version) {
  if (!version) {
    return Report(cudaErrorInvalidValue);
  }
  *version = CUDART_VERSION;
  return cudaSuccess;
}

STANDIN_CUDART cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

STANDIN_CUDART cudaGetDeviceCount(int* count) {
  if (!count) {
    return Report(cudaErrorInvalidValue);
  }
  *count = standin::DeviceCount();
  return cudaSuccess;
}

STANDIN_CUDART cudaSetDevice(int device) {
  if (!standin::ValidDevice(device)) {
    return Report(cudaErrorInvalidDevice);
  }
  standin::BindDevice(device);
  return cudaSuccess;
}

STANDIN_CUDART cudaGetDevice(int* device) {
  if (!device) {
    return Report(cudaErrorInvalidValue);
  }
  *device = standin::BoundDevice() < 0 ? 0 : standin::BoundDevice();
  return cudaSuccess;
}

STANDIN_CUDART cudaSetDeviceFlags(unsigned int flags) {
  const unsigned int schedule = flags & cudaDeviceScheduleMask;
  if ((schedule & (schedule - 1)) != 0) {
    return Report(cudaErrorInvalidValue);
  }
  standin::SetHostWait(standin::CurrentDevice(), static_cast<standin::HostWait>(schedule));
  return cudaSuccess;
}

STANDIN_CUDART cudaGetDeviceFlags(unsigned int* flags) {
  if (!flags) {
    return Report(cudaErrorInvalidValue);
  }
  *flags = static_cast<unsigned int>(standin::HostWaitOf(standin::CurrentDevice()));
  return cudaSuccess;
}

STANDIN_CUDART cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!properties) {
    return Report(cudaErrorInvalidValue);
  }
  if (!standin::ValidDevice(device)) {
    return Report(cudaErrorInvalidDevice);
  }
  memset(properties, 0, sizeof *properties);
  snprintf(properties->name, sizeof properties->name, "CPU stand-in");
  standin::DeviceUuid(device, properties->uuid.bytes);
  properties->totalGlobalMem =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = 1;
  properties->canMapHostMemory = 1;
  properties->concurrentKernels = 1;
  properties->pciBusID = 0x10 + device;
  properties->asyncEngineCount = 1;
  properties->unifiedAddressing = 1;
  properties->streamPrioritiesSupported = 1;
  properties->managedMemory = 1;
  properties->canUseHostPointerForRegisteredMem = 1;
  properties->hostRegisterSupported = 1;
  return cudaSuccess;
}

STANDIN_CUDART cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!text || length < 13) {
    return Report(cudaErrorInvalidValue);
  }
  if (!standin::ValidDevice(device)) {
    return Report(cudaErrorInvalidDevice);
  }
  standin::DevicePciBusId(device, text, static_cast<size_t>(length));
  return cudaSuccess;
}

STANDIN_CUDART cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) {
    *least = 0;
  }
  if (greatest) {
    *greatest = -5;
  }
  return cudaSuccess;
}

STANDIN_CUDART cudaMalloc(void** pointer, size_t size) {
  if (const int refused = standin::CheckUnsafe()) {
    return Report(static_cast<cudaError_t>(refused));
  }
  if (!pointer) {
    return Report(cudaErrorInvalidValue);
  }
  standin::CurrentDevice();
  *pointer = nullptr;
  if (size == 0) {
    return cudaSuccess;
  }
  *pointer = standin::Allocate(size, standin::MemoryKind::kDevice);
  return Report(*pointer ? cudaSuccess : cudaErrorMemoryAllocation);
}

STANDIN_CUDART cudaFree(void* pointer) {
  if (const int refused = standin::CheckUnsafe()) {
    return Report(static_cast<cudaError_t>(refused));
  }
  const int device = standin::CurrentDevice();
  if (!pointer) {
    return cudaSuccess;
  }
  for (const auto& stream : standin::StreamsOf(device)) {
    standin::HostWaitFor(standin::Tail(stream));
  }
  return Report(standin::Release(pointer, standin::MemoryKind::kDevice) ? cudaSuccess : cudaErrorInvalidValue);
}

STANDIN_CUDART cudaMallocManaged(void** pointer, size_t size, unsigned int flags) {
  if (flags != cudaMemAttachGlobal || size == 0) {
    return Report(cudaErrorInvalidValue);
  }
  return cudaMalloc(pointer, size);
}

STANDIN_CUDART cudaMallocHost(void** pointer, size_t size) {
  return cudaHostAlloc(pointer, size, cudaHostAllocDefault);
}

STANDIN_CUDART cudaHostAlloc(void** pointer, size_t size, unsigned int flags) {
  if (const int refused = standin::CheckUnsafe()) {
    return Report(static_cast<cudaError_t>(refused));
  }
  if (!pointer || flags > 7) {
    return Report(cudaErrorInvalidValue);
  }
  standin::CurrentDevice();
  *pointer = nullptr;
  if (size == 0) {
    return cudaSuccess;
  }
  *pointer = standin::Allocate(size, standin::MemoryKind::kHost);
  return Report(*pointer ? cudaSuccess : cudaErrorMemoryAllocation);
}

STANDIN_CUDART cudaFreeHost(void* pointer) {
  if (const int refused = standin::CheckUnsafe()) {
    return Report(static_cast<cudaError_t>(refused));
  }
  const int device = standin::CurrentDevice();
  if (!pointer) {
    return cudaSuccess;
  }
  for (const auto& stream : standin::StreamsOf(device)) {
    standin::HostWaitFor(standin::Tail(stream));
  }
  return Report(standin::Release(pointer, standin::MemoryKind::kHost) ? cudaSuccess : cudaErrorInvalidValue);
}

STANDIN_CUDART cudaHostRegister(void* pointer, size_t size, unsigned int flags) {
  if (const int refused = standin::CheckUnsafe()) {
    return Report(static_cast<cudaError_t>(refused));
  }
  if (flags & ~0xfu) {
    return Report(cudaErrorInvalidValue);
  }
  standin::CurrentDevice();
  switch (standin::RegisterHost(pointer, size)) {
    case standin::RegisterResult::kOk: return cudaSuccess;
    case standin::RegisterResult::kOverlap: return Report(cudaErrorHostMemoryAlreadyRegistered);
    case standin::RegisterResult::kInvalid: break;
  }
  return Report(cudaErrorInvalidValue);
}

STANDIN_CUDART cudaHostUnregister(void* pointer) {
  if (const int refused = standin::CheckUnsafe()) {
    return Report(static_cast<cudaError_t>(refused));
  }
  return Report(standin::UnregisterHost(pointer) ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

STANDIN_CUDART cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
  if (!device || flags != 0 || !standin::KnownMemory(host, 1)) {
    return Report(cudaErrorInvalidValue);
  }
  *device = host;
  return cudaSuccess;
}

STANDIN_CUDART cudaMemGetInfo(size_t* free, size_t* total) {
  if (!free || !total) {
    return Report(cudaErrorInvalidValue);
  }
  *total = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t used = standin::AllocatedBytes();
  *free = used < *total ? *total - used : 0;
  return cudaSuccess;
}
