// A GPU driver and a CUDA runtime that do and allocate nothing, so that benchmarks and tests see only the recorder.
// Streams are always idle, values are written at once, and events complete when they are recorded.
#include <cstddef>
#include <cstdint>

#define API extern "C" __attribute__((visibility("default")))

static char g_context;
static uint64_t g_events[1 << 16];
static uint32_t g_events_used;

API int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
API int cuStreamWriteValue64_v2(void*, uint64_t to, uint64_t value, unsigned) {
  __atomic_store_n(reinterpret_cast<uint64_t*>(to), value, __ATOMIC_RELEASE);
  return 0;
}
API int cuStreamIsCapturing(void*, int* status) {
  *status = 0;
  return 0;
}
API int cuStreamGetCaptureInfo(void*, int* status, uint64_t* id) {
  *status = 0;
  *id = 0;
  return 0;
}
API int cuMemHostRegister_v2(void*, size_t, unsigned) { return 0; }
API int cuMemHostGetDevicePointer_v2(uint64_t* to, void* at, unsigned) {
  *to = reinterpret_cast<uint64_t>(at);
  return 0;
}
API int cuThreadExchangeStreamCaptureMode(int*) { return 0; }
API int cuCtxGetCurrent(void** context) {
  *context = &g_context;
  return 0;
}
API int cuCtxSetCurrent(void*) { return 0; }
API int cuStreamGetCtx(void*, void** context) {
  *context = &g_context;
  return 0;
}
API int cuCtxGetDevice(int* device) {
  *device = 0;
  return 0;
}
API int cuDeviceGetUuid_v2(char* uuid, int) {
  for (int i = 0; i < 16; ++i) uuid[i] = static_cast<char>(i);
  return 0;
}
API int cuDeviceGetPCIBusId(char* text, int bytes, int) {
  for (int i = 0; i < bytes; ++i) text[i] = "0000:01:00.0"[i < 12 ? i : 12];
  return 0;
}
API int cuDeviceGetAttribute(int* value, int, int) {
  *value = 1;
  return 0;
}
API int cuEventCreate(void** event, unsigned) {
  *event = &g_events[__atomic_fetch_add(&g_events_used, 1, __ATOMIC_RELAXED) % (1 << 16)];
  return 0;
}
API int cuEventDestroy_v2(void*) { return 0; }
API int cuEventRecord(void*, void*) { return 0; }
API int cuEventQuery(void*) { return 0; }
API int cuEventElapsedTime(float* ms, void*, void*) {
  *ms = 0.01f;
  return 0;
}
API int cuEventElapsedTime_v2(float* ms, void*, void*) {
  *ms = 0.01f;
  return 0;
}
API int cuStreamWaitEvent(void*, void*, unsigned) { return 0; }

API int cudaEventRecord(void*, void*) { return 0; }
API int cudaStreamWaitEvent(void*, void*, unsigned) { return 0; }
API int cudaStreamSynchronize(void*) { return 0; }
API int cudaEventSynchronize(void*) { return 0; }
API int cudaDeviceSynchronize() { return 0; }
API int cudaStreamCreate(void** stream) {
  static uintptr_t next = 0x100000;
  *stream = reinterpret_cast<void*>(__atomic_add_fetch(&next, 64, __ATOMIC_RELAXED));
  return 0;
}
API int cudaEventCreate(void** event) { return cuEventCreate(event, 0); }
API int cudaStreamDestroy(void*) { return 0; }
API int cudaGraphLaunch(void*, void*) { return 0; }
