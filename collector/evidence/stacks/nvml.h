// The part of NVML that Lockstep uses, declared here so that the build does not need CUDA. nvml_test compares it with
// the toolkit's header if available. NVML guarantees these structures and values.
#pragma once

namespace lockstep::nvml {

using Return = int;
struct DeviceHandle;
using Device = DeviceHandle*;

constexpr Return kSuccess = 0, kUninitialized = 1, kNotSupported = 3, kNoPermission = 4, kDriverNotLoaded = 9,
                 kGpuIsLost = 15, kInsufficientSize = 7;

struct PciInfo {  // nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3
  char bus_id_legacy[16];
  unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct Utilization {
  unsigned int gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
struct ProcessInfo {  // nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3
  unsigned int pid;
  unsigned long long used_memory;
  unsigned int gpu_instance, compute_instance;
};

constexpr int kTemperatureGpu = 0, kClockSm = 1, kEccUncorrected = 1, kEccVolatile = 0;

using Init = Return (*)();
using ErrorString = const char* (*)(Return);
using GetCount = Return (*)(unsigned int*);
using GetHandle = Return (*)(unsigned int, Device*);
using GetPci = Return (*)(Device, PciInfo*);
using GetText = Return (*)(Device, char*, unsigned int);
using GetUtilization = Return (*)(Device, Utilization*);
using GetMemory = Return (*)(Device, Memory*);
using GetTemperature = Return (*)(Device, int, unsigned int*);
using GetNumber = Return (*)(Device, unsigned int*);
using GetClock = Return (*)(Device, int, unsigned int*);
using GetReasons = Return (*)(Device, unsigned long long*);
using GetEcc = Return (*)(Device, int, int, unsigned long long*);
using GetRemapped = Return (*)(Device, unsigned int*, unsigned int*, unsigned int*, unsigned int*);
using GetProcesses = Return (*)(Device, unsigned int*, ProcessInfo*);

}  // namespace lockstep::nvml
