// The GPU driver's functions that marks need, found at run time: CUDA's, or HIP's where there is no CUDA.
#ifndef LOCKSTEP_RECORDER_DRIVER_H_
#define LOCKSTEP_RECORDER_DRIVER_H_

#include <stddef.h>
#include <stdint.h>

namespace lockstep::recorder {

using DriverResult = int;  // CUresult, hipError_t: 0 is success
using DevicePointer = unsigned long long;

// Only what is used, by the driver's published prototypes; null where it is lacking. With HIP a context stands for a device.
struct Driver {
  DriverResult (*write64)(void* stream, DevicePointer to, uint64_t value, unsigned flags);
  DriverResult (*is_capturing)(void* stream, int* status);
  DriverResult (*capture_info)(void* stream, int* status, uint64_t* id);
  DriverResult (*host_register)(void* at, size_t bytes, unsigned flags);
  DriverResult (*host_pointer)(DevicePointer* to, void* at, unsigned flags);
  DriverResult (*capture_mode)(int* mode);
  DriverResult (*get_current)(void** context);
  DriverResult (*set_current)(void* context);
  DriverResult (*stream_context)(void* stream, void** context);
  DriverResult (*get_device)(int* device);
  DriverResult (*driver_version)(int* version);
  DriverResult (*device_uuid)(void* uuid, int device);
  DriverResult (*pci_id)(char* text, int bytes, int device);
};

extern Driver g_driver;
extern uint32_t g_driver_state;  // 0 no driver was loaded yet, 1 complete enough for marks, 2 not

// True when it is complete enough for marks. While no driver is loaded the next call looks again.
bool FindDriver() noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_DRIVER_H_
