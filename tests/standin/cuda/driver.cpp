// libcuda.so.1: the driver functions that a recorder may call. The engine's streams implement them.
#include <cuda.h>
#include <standin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <string_view>
#include <vector>

#include "tests/standin/cuda/capture.h"
#include "tests/standin/cuda/engine.h"

// The stand-in's only contexts are the devices' primary ones.
struct CUctx_st {
  int device;
};

#define STANDIN_CUDA extern "C" STANDIN_EXPORT CUresult

namespace {

std::atomic<bool> initialized{false};

CUctx_st* ContextOf(int device) {
  static auto* contexts = [] {
    auto* made = new std::vector<CUctx_st>;
    for (int i = 0; i < standin::DeviceCount(); ++i) {
      made->push_back({i});
    }
    return made;
  }();
  return &(*contexts)[static_cast<size_t>(device)];
}

bool Valid(CUdevice device) { return device >= 0 && device < standin::DeviceCount(); }

// Finds the stream for an operation, with the driver's checks: a context must be current, and the stream must belong to
// that context.
CUresult StreamFor(CUstream handle, std::shared_ptr<standin::Stream>* stream) {
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *stream = standin::FindStream(handle);
  if (!*stream || standin::StreamDevice(**stream) != standin::BoundDevice()) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return static_cast<CUresult>(standin::StickyError(standin::BoundDevice()));
}

// Returns whether `variable` removes a feature. STANDIN_NO_MEM_OPS and STANDIN_NO_HOST_REGISTER remove what is missing
// on some devices, drivers or sandboxes.
bool Lacks(const char* variable) {
  const char* value = getenv(variable);
  return value != nullptr && value[0] == '1';
}

template <class T>
CUresult WriteValue(CUstream handle, CUdeviceptr address, T value, unsigned int flags) {
  if (flags > CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER || address % sizeof(T) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (Lacks("STANDIN_NO_MEM_OPS")) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  std::shared_ptr<standin::Stream> stream;
  if (const CUresult result = StreamFor(handle, &stream); result != CUDA_SUCCESS) {
    return result;
  }
  auto* target = reinterpret_cast<T*>(static_cast<uintptr_t>(address));
  if (!standin::KnownMemory(target, sizeof(T))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // During a capture, driver 580.159 makes this call a node of the graph. The stand-in refuses the call, which is the
  // worst case.
  if (const int refused = standin::CheckWait(stream)) {
    return static_cast<CUresult>(refused);
  }
  standin::HoldUpOthers(
      standin::Enqueue(stream, [target, value] { __atomic_store_n(target, value, __ATOMIC_RELEASE); }));
  return CUDA_SUCCESS;
}

struct ErrorText {
  CUresult code;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

}  // namespace

STANDIN_CUDA cuInit(unsigned int flags) {
  if (flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  initialized.store(true, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuDriverGetVersion(int* version) {
  if (!version) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuGetErrorString(CUresult error, const char** text) {
  for (const ErrorText& known : kErrors) {
    if (known.code == error) {
      *text = known.text;
      return CUDA_SUCCESS;
    }
  }
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

STANDIN_CUDA cuGetErrorName(CUresult error, const char** text) {
  for (const ErrorText& known : kErrors) {
    if (known.code == error) {
      *text = known.name;
      return CUDA_SUCCESS;
    }
  }
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

STANDIN_CUDA cuDeviceGet(CUdevice* device, int ordinal) {
  if (!device) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!Valid(ordinal)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *device = ordinal;
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuDeviceGetCount(int* count) {
  if (!count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *count = standin::DeviceCount();
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuDeviceGetName(char* name, int length, CUdevice device) {
  if (!name || length <= 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!Valid(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  snprintf(name, static_cast<size_t>(length), "CPU stand-in");
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  if (!uuid) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!Valid(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  standin::DeviceUuid(device, uuid->bytes);
  return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
STANDIN_CUDA cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

STANDIN_CUDA cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  if (!text || length < 13) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!Valid(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  standin::DevicePciBusId(device, text, static_cast<size_t>(length));
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (!value) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!Valid(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED: *value = 1; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
      *value = Lacks("STANDIN_NO_MEM_OPS") ? 0 : 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = 0x10 + device; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; return CUDA_SUCCESS;
    default: *value = 0; return CUDA_SUCCESS;
  }
}

STANDIN_CUDA cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (!context) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!Valid(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *context = ContextOf(device);
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  if (!flags || !active) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!Valid(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *flags = 0;
  *active = standin::DeviceActive(device) ? 1 : 0;
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return Valid(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

STANDIN_CUDA cuCtxGetCurrent(CUcontext* context) {
  if (!context) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *context = standin::BoundDevice() < 0 ? nullptr : ContextOf(standin::BoundDevice());
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuCtxSetCurrent(CUcontext context) {
  standin::BindDevice(context ? context->device : -1);
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuCtxPushCurrent_v2(CUcontext context);
STANDIN_CUDA cuCtxPopCurrent_v2(CUcontext* context);

namespace {
thread_local std::vector<int> pushed;
}

STANDIN_CUDA cuCtxPushCurrent_v2(CUcontext context) {
  if (!context) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  pushed.push_back(standin::BoundDevice());
  standin::BindDevice(context->device);
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuCtxPopCurrent_v2(CUcontext* context) {
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (context) {
    *context = ContextOf(standin::BoundDevice());
  }
  standin::BindDevice(pushed.empty() ? -1 : pushed.back());
  if (!pushed.empty()) {
    pushed.pop_back();
  }
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuCtxGetDevice(CUdevice* device) {
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *device = standin::BoundDevice();
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuStreamGetCtx(CUstream handle, CUcontext* context) {
  if (!context) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (reinterpret_cast<uintptr_t>(handle) <= 2 && standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *context = ContextOf(standin::StreamDevice(*stream));
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
  const auto stream = standin::FindStream(handle);
  if (!status || !stream) {
    return stream ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  int number = 0;
  uint64_t capture = 0;
  if (const int refused = standin::CaptureStatus(stream, &number, &capture)) {
    return static_cast<CUresult>(refused);
  }
  *status = static_cast<CUstreamCaptureStatus>(number);
  if (id && number == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    *id = capture;
  }
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return cuStreamGetCaptureInfo(handle, status, nullptr);
}

STANDIN_CUDA cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (!mode || *mode < standin::kModeGlobal || *mode > standin::kModeRelaxed) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *mode = static_cast<CUstreamCaptureMode>(standin::ExchangeMode(*mode));
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuStreamGetId(CUstream handle, unsigned long long* id) {
  const auto stream = standin::FindStream(handle);
  if (!stream || !id) {
    return stream ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  // Undocumented: on a capturing stream, this call fails in every mode and invalidates the capture. Driver 580.159 does
  // this on an H100.
  if (const int refused = standin::CheckWait(stream)) {
    return static_cast<CUresult>(refused);
  }
  *id = standin::StreamId(*stream);
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuStreamDestroy_v2(CUstream handle) {
  return standin::DestroyStream(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

STANDIN_CUDA cuStreamCreate(CUstream* handle, unsigned int flags) {
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (!handle || flags > 1) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *handle = static_cast<CUstream>(standin::CreateStream(standin::BoundDevice(), flags == 1));
  return CUDA_SUCCESS;
}

STANDIN_CUDA standinFault(CUstream handle, CUresult error) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  standin::Enqueue(stream, [device = standin::StreamDevice(*stream), error] { standin::Poison(device, error); });
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuStreamQuery(CUstream handle) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const int error = standin::StickyError(standin::StreamDevice(*stream))) {
    return static_cast<CUresult>(error);
  }
  if (const int refused = standin::CheckWait(stream)) {
    return static_cast<CUresult>(refused);
  }
  return standin::Reached(standin::Tail(stream)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

STANDIN_CUDA cuStreamSynchronize(CUstream handle) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const int refused = standin::CheckWait(stream)) {
    return static_cast<CUresult>(refused);
  }
  standin::HostWaitFor(standin::Tail(stream));
  return static_cast<CUresult>(standin::StickyError(standin::StreamDevice(*stream)));
}

namespace {

CUresult Copy(void* to, const void* from, size_t bytes, CUstream handle) {
  std::shared_ptr<standin::Stream> stream;
  if (const CUresult result = StreamFor(handle, &stream); result != CUDA_SUCCESS) {
    return result;
  }
  if (const int refused = standin::CheckUse(stream)) {
    return static_cast<CUresult>(refused);
  }
  standin::EnqueueCopy(stream, to, from, bytes, [=](const void* source) { memmove(to, source, bytes); });
  return static_cast<CUresult>(standin::StickyError(standin::BoundDevice()));
}

template <class T>
T* At(CUdeviceptr address) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
}

}  // namespace

STANDIN_CUDA cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(to, At<const void>(from), bytes, stream);
}

STANDIN_CUDA cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return Copy(At<void>(to), from, bytes, stream);
}

STANDIN_CUDA cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(At<void>(to), At<const void>(from), bytes, stream);
}

STANDIN_CUDA cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  return WriteValue(stream, address, value, flags);
}

STANDIN_CUDA cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return WriteValue(stream, address, value, flags);
}

// The first version of these functions works only with a driver option that is almost never set. dlsym of the plain
// name returns the first version.
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
STANDIN_CUDA cuStreamWriteValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned int) { return CUDA_ERROR_NOT_SUPPORTED; }
STANDIN_CUDA cuStreamWriteValue64(CUstream, CUdeviceptr, cuuint64_t, unsigned int) { return CUDA_ERROR_NOT_SUPPORTED; }

STANDIN_CUDA cuMemHostRegister_v2(void* pointer, size_t size, unsigned int flags) {
  if (flags & ~0xfu) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (Lacks("STANDIN_NO_HOST_REGISTER")) {
    return CUDA_ERROR_NOT_PERMITTED;
  }
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (const int refused = standin::CheckUnsafe()) {
    return static_cast<CUresult>(refused);
  }
  switch (standin::RegisterHost(pointer, size)) {
    case standin::RegisterResult::kOk: return CUDA_SUCCESS;
    case standin::RegisterResult::kOverlap: return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    case standin::RegisterResult::kInvalid: break;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

STANDIN_CUDA cuMemHostUnregister(void* pointer) {
  return standin::UnregisterHost(pointer) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

STANDIN_CUDA cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned int flags) {
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (!device || flags != 0 || !standin::KnownMemory(host, 1)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *device = static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(host));
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult* status) {
  struct Entry {
    std::string_view name;
    void* function;
  };
#define STANDIN_ENTRY(name) \
  { #name, reinterpret_cast < void*>(&name) }
#define STANDIN_ENTRY_V2(name) \
  { #name, reinterpret_cast < void*>(&name##_v2) }
#undef cuMemHostGetDevicePointer
#undef cuMemHostRegister
#undef cuMemcpyDtoHAsync
#undef cuMemcpyHtoDAsync
#undef cuGetProcAddress
#undef cuEventDestroy
#undef cuEventElapsedTime
#undef cuStreamDestroy
  static const Entry kEntries[] = {
      STANDIN_ENTRY(cuInit),
      STANDIN_ENTRY(cuDriverGetVersion),
      STANDIN_ENTRY(cuGetErrorString),
      STANDIN_ENTRY(cuGetErrorName),
      STANDIN_ENTRY(cuDeviceGet),
      STANDIN_ENTRY(cuDeviceGetCount),
      STANDIN_ENTRY(cuDeviceGetName),
      STANDIN_ENTRY_V2(cuDeviceGetUuid),
      STANDIN_ENTRY(cuDeviceGetPCIBusId),
      STANDIN_ENTRY(cuDeviceGetAttribute),
      STANDIN_ENTRY(cuDevicePrimaryCtxRetain),
      STANDIN_ENTRY_V2(cuDevicePrimaryCtxRelease),
      STANDIN_ENTRY(cuCtxGetCurrent),
      STANDIN_ENTRY(cuCtxSetCurrent),
      STANDIN_ENTRY(cuCtxGetDevice),
      STANDIN_ENTRY_V2(cuCtxPushCurrent),
      STANDIN_ENTRY_V2(cuCtxPopCurrent),
      STANDIN_ENTRY(cuStreamGetCtx),
      STANDIN_ENTRY(cuStreamIsCapturing),
      STANDIN_ENTRY(cuStreamGetId),
      STANDIN_ENTRY(cuStreamCreate),
      STANDIN_ENTRY_V2(cuStreamDestroy),
      STANDIN_ENTRY(cuDevicePrimaryCtxGetState),
      STANDIN_ENTRY(cuStreamGetCaptureInfo),
      STANDIN_ENTRY(cuThreadExchangeStreamCaptureMode),
      STANDIN_ENTRY(cuEventCreate),
      STANDIN_ENTRY_V2(cuEventDestroy),
      STANDIN_ENTRY(cuEventRecord),
      STANDIN_ENTRY(cuEventQuery),
      STANDIN_ENTRY(cuEventSynchronize),
      STANDIN_ENTRY_V2(cuEventElapsedTime),
      STANDIN_ENTRY(cuStreamQuery),
      STANDIN_ENTRY(cuStreamWaitEvent),
      STANDIN_ENTRY_V2(cuStreamBeginCapture),
      STANDIN_ENTRY(cuStreamBeginCaptureToGraph),
      STANDIN_ENTRY(cuStreamEndCapture),
      STANDIN_ENTRY(cuGraphInstantiateWithFlags),
      STANDIN_ENTRY(cuGraphLaunch),
      STANDIN_ENTRY(cuGraphExecDestroy),
      STANDIN_ENTRY(cuGraphDestroy),
      STANDIN_ENTRY(cuStreamSynchronize),
      STANDIN_ENTRY_V2(cuMemcpyDtoHAsync),
      STANDIN_ENTRY_V2(cuMemcpyHtoDAsync),
      STANDIN_ENTRY(cuMemcpyAsync),
      STANDIN_ENTRY_V2(cuStreamWriteValue32),
      STANDIN_ENTRY_V2(cuStreamWriteValue64),
      STANDIN_ENTRY_V2(cuMemHostRegister),
      STANDIN_ENTRY(cuMemHostUnregister),
      STANDIN_ENTRY(cuModuleLoadData),
      STANDIN_ENTRY(cuModuleUnload),
      STANDIN_ENTRY(cuModuleGetFunction),
      STANDIN_ENTRY(cuLaunchKernel),
      STANDIN_ENTRY_V2(cuMemHostGetDevicePointer),
      STANDIN_ENTRY_V2(cuGetProcAddress),
  };
#undef STANDIN_ENTRY
#undef STANDIN_ENTRY_V2
  if (!symbol || !function || flags > 2) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *function = nullptr;
  for (const Entry& entry : kEntries) {
    if (entry.name != symbol) {
      continue;
    }
    // Before CUDA 11.7 the plain names of the stream memory operations meant their first version.
    if (version < 11070 && entry.name.substr(0, 18) == "cuStreamWriteValue") {
      *function = entry.name == "cuStreamWriteValue32" ? reinterpret_cast<void*>(&cuStreamWriteValue32)
                                                       : reinterpret_cast<void*>(&cuStreamWriteValue64);
    } else {
      *function = entry.function;
    }
  }
  const bool found = *function != nullptr;
  if (status) {
    *status = found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
  }
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

extern "C" STANDIN_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version,
                                                    cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
