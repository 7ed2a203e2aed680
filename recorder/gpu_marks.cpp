#include "recorder/gpu_marks.h"

#include "recorder/driver.h"
#include "recorder/process.h"

namespace lockstep::recorder {
namespace {

using Result = DriverResult;

uint32_t g_registered;    // 0 no, 1 under way, 2 yes, 3 refused
int32_t g_register_error;
uint32_t g_gpu_described;

constexpr unsigned kRegisterPortable = 1, kRegisterDeviceMap = 2;
constexpr int kCaptureRelaxed = 2;

// While another thread captures in global mode a registration would spoil its capture; relaxed mode keeps out of it.
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

bool RegisterMarks() noexcept {
  if (Swap<uint32_t>(&g_registered, 0, 1)) {
    g_register_error = g_driver.host_register(g.map.marks, g.map.marks_bytes, kRegisterPortable | kRegisterDeviceMap);
    StoreRelease(&g_registered, g_register_error == 0 ? 2 : 3);
  }
  return LoadAcquire(&g_registered) == 2;
}

void Fail(StreamLocal* stream, Result error) noexcept {
  stream->device_mark = 0;
  if (stream->cell->first_error == 0) Store(&stream->cell->first_error, error);
  Store(&stream->cell->marked, 0u);
}

void Write(StreamLocal* stream, DevicePointer at, uint64_t ticket) noexcept {
  ErrnoKeeper keep;
  void* current = nullptr;
  const bool other = stream->context != nullptr && g_driver.get_current != nullptr &&
                     g_driver.get_current(&current) == 0 && current != stream->context;
  if (other && g_driver.set_current(stream->context) != 0) {
    Fail(stream, -1);
    return;
  }
  auto* handle = reinterpret_cast<void*>(stream->cell->handle);
  const Result result = g_driver.write64(handle, at, ticket, 0);
  if (other) g_driver.set_current(current);
  if (result != 0) Fail(stream, result);
}

}  // namespace

LOCKSTEP_COLD void EnableMarks(StreamLocal* stream, uint32_t index) noexcept {
  ErrnoKeeper keep;
  if (g.gpu == GpuMode::kOff || g.gpu == GpuMode::kProfiler || !FindDriver()) return;
  RelaxedCapture relaxed;
  auto* handle = reinterpret_cast<void*>(stream->cell->handle);
  stream->context = nullptr;
  if (stream->cell->handle > 2) {
    if (g_driver.stream_context != nullptr && g_driver.set_current != nullptr &&
        g_driver.stream_context(handle, &stream->context) != 0) {
      stream->context = nullptr;
    }
  } else {
    // A default stream is that of the current context: while another device's is current a mark would go to the wrong
    // stream and tell of work that is not done. Such a stream stays unmarked until it is used with its own.
    if (CurrentDevice() != stream->cell->device) return;
    if (g_driver.get_current == nullptr || g_driver.set_current == nullptr ||
        g_driver.get_current(&stream->context) != 0 || stream->context == nullptr) {
      return;
    }
  }
  if (!RegisterMarks()) {
    if (g_register_error != 0) Store(&stream->cell->first_error, g_register_error);
    return;
  }
  DevicePointer at = 0;
  const Result result = g_driver.host_pointer(&at, &g.map.marks[index], 0);
  if (result != 0 || at == 0) {
    Store(&stream->cell->first_error, result != 0 ? result : -1);
    return;
  }
  stream->mark = &g.map.marks[index];
  stream->device_mark = at;
  Store(&stream->cell->marked, 1u);
}

Capture QueryCapture(const StreamLocal& stream, uint64_t* graph) noexcept {
  ErrnoKeeper keep;
  *graph = 0;
  auto* handle = reinterpret_cast<void*>(stream.cell->handle);
  int status = 0;
  if (g_driver.is_capturing(handle, &status) != 0) return Capture::kUnknown;
  if (status == 0) return Capture::kNo;
  if (g_driver.capture_info != nullptr) {
    uint64_t id = 0;
    if (g_driver.capture_info(handle, &status, &id) == 0) *graph = id;
  }
  return Capture::kYes;
}

void WriteStarted(StreamLocal* stream, uint64_t ticket) noexcept {
  if (stream->device_mark != 0) Write(stream, stream->device_mark + offsetof(ring::MarkLine, started), ticket);
}

void WriteCompleted(StreamLocal* stream, uint64_t ticket) noexcept {
  if (stream->device_mark != 0) Write(stream, stream->device_mark + offsetof(ring::MarkLine, completed), ticket);
}

int32_t CurrentDevice() noexcept {
  ErrnoKeeper keep;
  FindDriver();
  int device = -1;
  if (LoadAcquire(&g_driver_state) == 0 || g_driver.get_device == nullptr || g_driver.get_device(&device) != 0)
    return -1;
  return device;
}

LOCKSTEP_COLD void DescribeGpu(int32_t device) noexcept {
  ErrnoKeeper keep;
  FindDriver();
  if (device < 0 || !Swap<uint32_t>(&g_gpu_described, 0, 1)) return;
  ring::Header* header = g.map.header;
  Store(&header->gpu_index, device);
  if (LoadAcquire(&g_driver_state) == 0) return;
  int version = 0;
  if (g_driver.driver_version != nullptr && g_driver.driver_version(&version) == 0)
    Store(&header->cuda_version, version);
  unsigned char uuid[16] = {};
  if (g_driver.device_uuid != nullptr && g_driver.device_uuid(uuid, device) == 0) {
    snprintf(header->gpu_uuid, sizeof(header->gpu_uuid),
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", uuid[0], uuid[1], uuid[2],
             uuid[3], uuid[4], uuid[5], uuid[6], uuid[7], uuid[8], uuid[9], uuid[10], uuid[11], uuid[12], uuid[13],
             uuid[14], uuid[15]);
  }
  char pci[32] = {};
  if (g_driver.pci_id != nullptr && g_driver.pci_id(pci, sizeof(pci), device) == 0) {
    CopyText(header->gpu_pci, sizeof(header->gpu_pci), pci);
  }
}

void ForgetMarks() noexcept {
  g_registered = g_gpu_described = 0;
}

}  // namespace lockstep::recorder
