// The GPU driver's functions for markers and events, found at run time: CUDA's, or HIP's if there is no CUDA.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace lockstep::recorder {

using DriverResult = int;  // a CUresult or hipError_t; 0 is success
using DevicePointer = unsigned long long;

// The driver functions in use, with the published prototypes; null if missing. With HIP, a context stands for a
// device.
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
  DriverResult (*attribute)(int* value, int attribute, int device);
  DriverResult (*stream_id)(void* stream, unsigned long long* id);
  DriverResult (*context_id)(void* context, unsigned long long* id);
  // Returns the context of the default streams; never creates one.
  DriverResult (*device_context)(int device, void** context);
  DriverResult (*event_create)(void** event, unsigned flags);
  DriverResult (*event_record)(void* event, void* stream);
  DriverResult (*event_query)(void* event);
  DriverResult (*event_elapsed)(float* milliseconds, void* from, void* to);
  bool old_write64;  // write64 is the first version of the function, which drivers reject by default
};

inline constexpr DriverResult kDriverNotReady = 600;
inline constexpr int kCaptureRelaxed = 2;

// Returns whether the error means a broken GPU or context, not a wrong call.
inline bool IsGpuError(DriverResult result) noexcept {
  return (result >= 700 && result <= 721 && result != 704 && result != 705 && result != 708 && result != 709 &&
          result != 712 && result != 713 && result != 720) ||
         result == 214 || result == 220 || result == 226 || result == 999;
}

extern Driver g_driver;
// 0: no driver is loaded yet; 1: the driver has everything that markers need; 2: it does not.
extern uint32_t g_driver_state;

// Returns true if the driver has everything that markers need. If no driver is loaded yet, the next call checks
// again.
bool FindDriver() noexcept;

// Makes a context current for the calling thread; the destructor restores the earlier one. Does nothing if the context
// is null or already current.
class InContext {
 public:
  explicit InContext(void* context) noexcept {
    if (context == nullptr || g_driver.get_current == nullptr || g_driver.set_current == nullptr ||
        g_driver.get_current(&before_) != 0 || before_ == context) {
      return;
    }
    result_ = g_driver.set_current(context);
    switched_ = result_ == 0;
  }
  ~InContext() {
    if (switched_) g_driver.set_current(before_);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  DriverResult result() const noexcept { return result_; }

 private:
  void* before_ = nullptr;
  DriverResult result_ = 0;
  bool switched_ = false;
};

// While another thread captures in global mode, some calls would invalidate its capture. Relaxed mode prevents that.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept {
    if (g_driver.capture_mode != nullptr) g_driver.capture_mode(&mode_);
  }
  ~RelaxedCapture() {
    if (g_driver.capture_mode != nullptr) g_driver.capture_mode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int mode_ = kCaptureRelaxed;
};

}  // namespace lockstep::recorder
