// A libnvidia-ml for tests. LOCKSTEP_FAKE_NVML selects its behavior: "fine" (two GPUs), "lost" (the second GPU is
// lost), "hang" (forever, at the second GPU), "crash", "no-driver".
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/evidence/stacks/nvml.h"

using namespace lockstep::nvml;

namespace {

bool Mode(const char* name) {
  const char* mode = getenv("LOCKSTEP_FAKE_NVML");
  return mode != nullptr && strcmp(mode, name) == 0;
}
intptr_t Index(Device device) { return reinterpret_cast<intptr_t>(device) - 1; }
Return State(Device device) {
  if (Index(device) == 1 && Mode("hang")) {
    for (;;) pause();
  }
  if (Index(device) == 1 && Mode("crash")) abort();
  return Index(device) == 1 && Mode("lost") ? kGpuIsLost : kSuccess;
}
Return Number(Device device, unsigned int value, unsigned int* out) {
  *out = value;
  return State(device);
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) Return nvmlInit_v2() { return Mode("no-driver") ? kDriverNotLoaded : kSuccess; }
__attribute__((visibility("default"))) const char* nvmlErrorString(Return code) {
  return code == kGpuIsLost         ? "GPU is lost"
         : code == kNotSupported    ? "Not Supported"
         : code == kDriverNotLoaded ? "Driver Not Loaded"
                                    : "Unknown Error";
}
__attribute__((visibility("default"))) Return nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 2;
  return kSuccess;
}
__attribute__((visibility("default"))) Return nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device* device) {
  *device = reinterpret_cast<Device>(static_cast<intptr_t>(index) + 1);
  return kSuccess;
}
__attribute__((visibility("default"))) Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* pci) {
  memset(pci, 0, sizeof *pci);
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%dB:00.0", static_cast<int>(Index(device)) + 1);
  return State(device);
}
__attribute__((visibility("default"))) Return nvmlDeviceGetUUID(Device device, char* text, unsigned int size) {
  snprintf(text, size, "GPU-%d", static_cast<int>(Index(device)));
  return State(device);
}
__attribute__((visibility("default"))) Return nvmlDeviceGetName(Device device, char* text, unsigned int size) {
  snprintf(text, size, "Fake\x01 GPU");
  return State(device);
}
__attribute__((visibility("default"))) Return nvmlDeviceGetUtilizationRates(Device device, Utilization* use) {
  *use = {97, 12};
  return State(device);
}
__attribute__((visibility("default"))) Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  *memory = {80ull << 30, 10ull << 30, 70ull << 30};
  return State(device);
}
__attribute__((visibility("default"))) Return nvmlDeviceGetTemperature(Device device, int, unsigned int* value) {
  return Number(device, 61, value);
}
__attribute__((visibility("default"))) Return nvmlDeviceGetPowerUsage(Device device, unsigned int* value) {
  return Number(device, 412000, value);
}
__attribute__((visibility("default"))) Return nvmlDeviceGetClockInfo(Device device, int, unsigned int* value) {
  return Number(device, 1410, value);
}
__attribute__((visibility("default"))) Return nvmlDeviceGetTotalEccErrors(Device, int, int, unsigned long long*) {
  return kNotSupported;
}
__attribute__((visibility("default"))) Return nvmlDeviceGetComputeRunningProcesses_v3(Device device,
                                                                                      unsigned int* count,
                                                                                      ProcessInfo* processes) {
  processes[0] = {static_cast<unsigned int>(getppid()), 1 << 20, 0, 0};
  *count = 1;
  return State(device);
}
}
