#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "tests/standin/cuda/engine.h"

namespace standin {

namespace {

thread_local int bound_device = -1;
std::atomic<bool> active_devices[256];

struct Range {
  size_t size = 0;
  MemoryKind kind = MemoryKind::kDevice;
};

struct Memory {
  std::mutex mutex;
  std::map<uintptr_t, Range> ranges;
  size_t device_bytes = 0;
};

// Never destroyed: stream workers may still copy while the process exits.
Memory& TheMemory() {
  static auto* memory = new Memory;
  return *memory;
}

// Returns the range that contains `address`, or the end. The caller holds the mutex.
std::map<uintptr_t, Range>::iterator Holding(Memory& memory, uintptr_t address) {
  auto at = memory.ranges.upper_bound(address);
  if (at == memory.ranges.begin()) {
    return memory.ranges.end();
  }
  --at;
  return address - at->first < at->second.size ? at : memory.ranges.end();
}

}  // namespace

int DeviceCount() {
  static const int count = [] {
    const char* text = getenv("STANDIN_DEVICES");
    const int wanted = text ? atoi(text) : 8;
    return std::clamp(wanted, 1, 256);
  }();
  return count;
}

int BoundDevice() { return bound_device; }
void BindDevice(int device) {
  bound_device = device;
  if (device >= 0) {
    active_devices[static_cast<size_t>(device)].store(true, std::memory_order_relaxed);
  }
}
bool DeviceActive(int device) { return active_devices[static_cast<size_t>(device)].load(std::memory_order_relaxed); }

int CurrentDevice() {
  if (bound_device < 0) {
    BindDevice(0);
  }
  return bound_device;
}

void DeviceUuid(int device, char* uuid) {
  memcpy(uuid, "lockstepstandin", 15);
  uuid[15] = static_cast<char>(device);
}

void DevicePciBusId(int device, char* text, size_t size) { snprintf(text, size, "0000:%02x:00.0", 0x10 + device); }

void* Allocate(size_t size, MemoryKind kind) {
  void* pointer = nullptr;
  // NCCL needs page-aligned window memory; the real allocators align at least that much.
  const size_t rounded = std::max<size_t>(size, 1);
  if (posix_memalign(&pointer, 4096, rounded) != 0) {
    return nullptr;
  }
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  memory.ranges[reinterpret_cast<uintptr_t>(pointer)] = {rounded, kind};
  if (kind == MemoryKind::kDevice) {
    memory.device_bytes += rounded;
  }
  return pointer;
}

bool Release(void* pointer, MemoryKind kind) {
  Memory& memory = TheMemory();
  {
    const std::lock_guard lock(memory.mutex);
    const auto at = memory.ranges.find(reinterpret_cast<uintptr_t>(pointer));
    if (at == memory.ranges.end() || at->second.kind != kind) {
      return false;
    }
    if (kind == MemoryKind::kDevice) {
      memory.device_bytes -= at->second.size;
    }
    memory.ranges.erase(at);
  }
  free(pointer);
  return true;
}

RegisterResult RegisterHost(void* pointer, size_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  if (begin == 0 || size == 0 || begin + size < begin) {
    return RegisterResult::kInvalid;
  }
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  const auto next = memory.ranges.lower_bound(begin);
  if ((next != memory.ranges.end() && next->first < begin + size) || Holding(memory, begin) != memory.ranges.end()) {
    return RegisterResult::kOverlap;
  }
  memory.ranges[begin] = {size, MemoryKind::kRegistered};
  return RegisterResult::kOk;
}

bool UnregisterHost(void* pointer) {
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  const auto at = memory.ranges.find(reinterpret_cast<uintptr_t>(pointer));
  if (at == memory.ranges.end() || at->second.kind != MemoryKind::kRegistered) {
    return false;
  }
  memory.ranges.erase(at);
  return true;
}

bool KnownMemory(const void* pointer, size_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  const auto at = Holding(memory, begin);
  return at != memory.ranges.end() && size <= at->second.size - (begin - at->first);
}

bool Pageable(const void* pointer) {
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  return Holding(memory, reinterpret_cast<uintptr_t>(pointer)) == memory.ranges.end();
}

bool DeviceMemory(const void* pointer) {
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  const auto at = Holding(memory, reinterpret_cast<uintptr_t>(pointer));
  return at != memory.ranges.end() && at->second.kind == MemoryKind::kDevice;
}

size_t AllocatedBytes() {
  Memory& memory = TheMemory();
  const std::lock_guard lock(memory.mutex);
  return memory.device_bytes;
}

}  // namespace standin
