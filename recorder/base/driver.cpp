#include "recorder/base/driver.h"

#include "recorder/base/loaded.h"
#include "recorder/base/sys.h"

namespace lockstep::recorder {

Driver g_driver;
uint32_t g_driver_state;

namespace {

template <typename F>
void Find(F** to, const char* name, const char* other = nullptr) noexcept {
  void* found = FindFunction(name, Among::kAll, nullptr);
  if (found == nullptr && other != nullptr) found = FindFunction(other, Among::kAll, nullptr);
  *to = reinterpret_cast<F*>(found);
}

struct {
  DriverResult (*state)(int, unsigned*, int*);
  DriverResult (*retain)(void**, int);
  DriverResult (*release)(int);
} g_cuda;

// Finds the primary context, which the CUDA runtime and therefore NCCL use. Since it is in use, retaining and
// releasing it changes nothing.
DriverResult CudaDeviceContext(int device, void** context) noexcept {
  unsigned flags = 0;
  int active = 0;
  DriverResult result = g_cuda.state(device, &flags, &active);
  if (result != 0 || active == 0) return result != 0 ? result : 201;
  result = g_cuda.retain(context, device);
  if (result == 0) g_cuda.release(device);
  return result;
}

void FindCuda(Driver* driver) noexcept {
  Find(&driver->write64, "cuStreamWriteValue64_v2");
  if (driver->write64 == nullptr) {
    Find(&driver->write64, "cuStreamWriteValue64");
    driver->old_write64 = driver->write64 != nullptr;
  }
  Find(&driver->is_capturing, "cuStreamIsCapturing");
  Find(&driver->capture_info, "cuStreamGetCaptureInfo");
  Find(&driver->host_register, "cuMemHostRegister_v2", "cuMemHostRegister");
  Find(&driver->host_pointer, "cuMemHostGetDevicePointer_v2", "cuMemHostGetDevicePointer");
  Find(&driver->capture_mode, "cuThreadExchangeStreamCaptureMode");
  Find(&driver->get_current, "cuCtxGetCurrent");
  Find(&driver->set_current, "cuCtxSetCurrent");
  Find(&driver->stream_context, "cuStreamGetCtx");
  Find(&driver->get_device, "cuCtxGetDevice");
  Find(&driver->device_uuid, "cuDeviceGetUuid_v2", "cuDeviceGetUuid");
  Find(&driver->pci_id, "cuDeviceGetPCIBusId");
  Find(&driver->attribute, "cuDeviceGetAttribute");
  Find(&driver->stream_id, "cuStreamGetId");
  Find(&driver->context_id, "cuCtxGetId");
  Find(&driver->event_create, "cuEventCreate");
  Find(&driver->event_record, "cuEventRecord");
  Find(&driver->event_query, "cuEventQuery");
  Find(&driver->event_elapsed, "cuEventElapsedTime_v2", "cuEventElapsedTime");
  Find(&g_cuda.state, "cuDevicePrimaryCtxGetState");
  Find(&g_cuda.retain, "cuDevicePrimaryCtxRetain");
  Find(&g_cuda.release, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease");
  if (g_cuda.state != nullptr && g_cuda.retain != nullptr && g_cuda.release != nullptr)
    driver->device_context = CudaDeviceContext;
}

// HIP's contexts are deprecated. Here, context n + 1 stands for device n.
struct {
  DriverResult (*get_device)(int*);
  DriverResult (*set_device)(int);
  DriverResult (*stream_device)(void*, int*);
} g_hip;

void* ContextOf(int device) noexcept { return reinterpret_cast<void*>(static_cast<uintptr_t>(device) + 1); }

DriverResult HipGetCurrent(void** context) noexcept {
  int device = 0;
  const DriverResult result = g_hip.get_device(&device);
  *context = result == 0 ? ContextOf(device) : nullptr;
  return result;
}

DriverResult HipSetCurrent(void* context) noexcept {
  return context != nullptr ? g_hip.set_device(static_cast<int>(reinterpret_cast<uintptr_t>(context) - 1)) : 0;
}

DriverResult HipStreamContext(void* stream, void** context) noexcept {
  int device = 0;
  const DriverResult result = g_hip.stream_device(stream, &device);
  *context = result == 0 ? ContextOf(device) : nullptr;
  return result;
}

DriverResult HipDeviceContext(int device, void** context) noexcept {
  *context = ContextOf(device);
  return 0;
}

// Finds HIP's functions, which have the same prototypes under other names.
void FindHip(Driver* driver) noexcept {
  Find(&driver->write64, "hipStreamWriteValue64");
  Find(&driver->is_capturing, "hipStreamIsCapturing");
  Find(&driver->capture_info, "hipStreamGetCaptureInfo");
  Find(&driver->host_register, "hipHostRegister");
  Find(&driver->host_pointer, "hipHostGetDevicePointer");
  Find(&driver->capture_mode, "hipThreadExchangeStreamCaptureMode");
  Find(&driver->get_device, "hipGetDevice");
  Find(&driver->device_uuid, "hipDeviceGetUuid");
  Find(&driver->pci_id, "hipDeviceGetPCIBusId");
  Find(&driver->event_create, "hipEventCreateWithFlags");
  Find(&driver->event_record, "hipEventRecord");
  Find(&driver->event_query, "hipEventQuery");
  Find(&driver->event_elapsed, "hipEventElapsedTime");
  g_hip.get_device = driver->get_device;
  Find(&g_hip.set_device, "hipSetDevice");
  Find(&g_hip.stream_device, "hipStreamGetDevice");
  if (g_hip.get_device == nullptr || g_hip.set_device == nullptr) return;
  driver->get_current = HipGetCurrent;
  driver->set_current = HipSetCurrent;
  driver->device_context = HipDeviceContext;
  if (g_hip.stream_device != nullptr) driver->stream_context = HipStreamContext;
}

}  // namespace

// Only called on slow paths. Several threads may do this work at once; all get the same result.
bool FindDriver() noexcept {
  const uint32_t state = LoadAcquire(&g_driver_state);
  if (state != 0) return state == 1;
  ErrnoKeeper keep;
  Driver found{};
  LoadedObject library{};
  using Version = DriverResult (*)(int*);
  found.driver_version = reinterpret_cast<Version>(FindFunction("cuDriverGetVersion", Among::kAll, &library));
  const bool cuda = found.driver_version != nullptr;
  if (!cuda)
    found.driver_version = reinterpret_cast<Version>(FindFunction("hipDriverGetVersion", Among::kAll, &library));
  if (found.driver_version == nullptr) return false;
  KeepLoaded(library);
  if (cuda) {
    FindCuda(&found);
  } else {
    FindHip(&found);
  }
  const bool complete = found.write64 != nullptr && found.is_capturing != nullptr && found.host_register != nullptr &&
                        found.host_pointer != nullptr;
  g_driver = found;
  StoreRelease(&g_driver_state, complete ? 1u : 2u);
  return complete;
}

}  // namespace lockstep::recorder
