// A CUDA runtime that does nothing, and the needed part of a driver, so that benchmarks measure only the recorder.
#include <cstddef>
#include <cstdint>

#define API extern "C" __attribute__((visibility("default")))

static int g_capturing;
static char g_graph, g_exec;

API int cudaEventRecord(void*, void*) { return 0; }
API int cudaStreamWaitEvent(void*, void*, unsigned) { return 0; }
API int cudaStreamSynchronize(void*) { return 0; }
API int cudaMemcpy(void*, const void*, size_t, int) { return 0; }
API int cudaMemcpyAsync(void*, const void*, size_t, int, void*) { return 0; }
API int cudaStreamBeginCapture(void*, int) {
  g_capturing = 1;
  return 0;
}
API int cudaStreamEndCapture(void*, void** graph) {
  g_capturing = 0;
  *graph = &g_graph;
  return 0;
}
API int cudaGraphInstantiate(void** exec, void*, uint64_t, void*, size_t) {
  *exec = &g_exec;
  return 0;
}
API int cudaGraphLaunch(void*, void*) { return 0; }
API int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
API int cuStreamIsCapturing(void*, int* status) {
  *status = g_capturing;
  return 0;
}
API int cuStreamGetCaptureInfo(void*, int* status, uint64_t* id) {
  *status = g_capturing;
  *id = 1;
  return 0;
}
