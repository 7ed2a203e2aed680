// Streams, devices and memory of the CPU stand-in. This code is part of libcuda.so.1; the stand-ins of libcudart and
// libnccl link against it, as the real libraries need the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#define STANDIN_EXPORT __attribute__((visibility("default")))

namespace standin {

class Stream;
struct Capture;

// A position in a stream, reached when everything enqueued up to and including `ticket` has ended. A default
// StreamPoint is always reached. In a captured stream, it is a node of the future graph and is never reached
// (capture.h).
struct StreamPoint {
  std::shared_ptr<Stream> stream;
  uint64_t ticket = 0;
  std::shared_ptr<Capture> capture;
  size_t node = 0;
};

// Each launch calls this function, in launch order. It returns the work that then runs on the stream.
using Make = std::function<std::function<void()>()>;

// STANDIN_DEVICES sets the number of devices (default 8). All have the same made-up properties; each has its own PCI id
// and UUID.
STANDIN_EXPORT int DeviceCount();
// Returns the calling thread's device, or -1 if no device is bound to the thread (the driver's "no current context").
STANDIN_EXPORT int BoundDevice();
// Returns whether any thread has used the device.
STANDIN_EXPORT bool DeviceActive(int device);
STANDIN_EXPORT void BindDevice(int device);
// Returns the device as the runtime sees it: binds device 0 to a thread that has none.
STANDIN_EXPORT int CurrentDevice();
// Writes 16 bytes that are equal in every process of the machine.
STANDIN_EXPORT void DeviceUuid(int device, char* uuid);
// Writes a PCI id, for example "0000:1a:00.0".
STANDIN_EXPORT void DevicePciBusId(int device, char* text, size_t size);

// Streams are FIFO queues. Each has one worker thread, started by its first operation. If `bounded` is true, callers
// wait while kLaunchQueue entries are queued, as in CUDA. All operations of one graph launch count as one entry.
inline constexpr size_t kLaunchQueue = 1024;
STANDIN_EXPORT void* CreateStream(int device, bool non_blocking, bool bounded = true);
// Enqueued work still runs. Returns false if the stream does not exist.
STANDIN_EXPORT bool DestroyStream(void* handle);
// Returns the stream: nullptr and 1 mean the current device's legacy stream, 2 means the calling thread's own stream.
// Returns null if the stream does not exist.
STANDIN_EXPORT std::shared_ptr<Stream> FindStream(void* handle);
STANDIN_EXPORT int StreamDevice(const Stream& stream);
STANDIN_EXPORT uint64_t StreamId(const Stream& stream);  // ids are never reused
STANDIN_EXPORT bool StreamNonBlocking(const Stream& stream);
STANDIN_EXPORT bool StreamIsLegacy(const Stream& stream);
// Queues `work` behind everything in the stream and behind `after`. The legacy stream and its device's blocking streams
// wait for each other, as in CUDA. Waits while the launch queue is full.
STANDIN_EXPORT StreamPoint Enqueue(const std::shared_ptr<Stream>& stream, std::function<void()> work,
                                   std::vector<StreamPoint> after = {});
// Like Enqueue, but `make` creates the work at launch: now, or at each launch of the graph that captures the call.
STANDIN_EXPORT StreamPoint EnqueueMade(const std::shared_ptr<Stream>& stream, Make make,
                                       std::vector<StreamPoint> after = {});
// With CUDA_DEVICE_MAX_CONNECTIONS=1, a device has one queue. A memory operation that waits there delays all later work
// on any stream of the device, as on an H100. With more connections, this function does nothing.
STANDIN_EXPORT void HoldUpOthers(const StreamPoint& point);
// Returns the position of the newest enqueued work.
STANDIN_EXPORT StreamPoint Tail(const std::shared_ptr<Stream>& stream);
STANDIN_EXPORT bool Reached(const StreamPoint& point);
// Sleeps until the point is reached or an error ends the context. For work on streams.
STANDIN_EXPORT void WaitFor(const StreamPoint& point);

// How a CPU thread waits for the device. kAuto spins like CUDA if the machine has more processors than the job has
// local ranks, and sleeps otherwise. STANDIN_WAIT=spin|yield|block overrides kAuto.
enum class HostWait { kAuto = 0, kSpin = 1, kYield = 2, kBlock = 4 };
STANDIN_EXPORT void SetHostWait(int device, HostWait wait);
STANDIN_EXPORT HostWait HostWaitOf(int device);
// Waits on the CPU thread. Returns early if an error ended the context.
STANDIN_EXPORT void HostWaitFor(const StreamPoint& point, HostWait wait = HostWait::kAuto);
// Waits until the stream's launch queue has a free entry.
STANDIN_EXPORT void WaitForRoom(Stream& stream);

// One asynchronous copy, synchronized as in CUDA. The call waits until the copy is done if it goes to pageable memory,
// from host memory to host memory, or from pageable memory and is larger than the staging buffer. `move` copies from
// its argument: `from`, or a staged copy of those `bytes`.
STANDIN_EXPORT void EnqueueCopy(const std::shared_ptr<Stream>& stream, const void* to, const void* from, size_t bytes,
                                std::function<void(const void* from)> move);
// Returns every stream of the device, including empty ones.
STANDIN_EXPORT std::vector<std::shared_ptr<Stream>> StreamsOf(int device);

// Memory that the device may touch. Allocations are plain host memory; `registered` ranges belong to the caller.
enum class MemoryKind { kDevice, kHost, kRegistered };
STANDIN_EXPORT void* Allocate(size_t size, MemoryKind kind);
// Returns false if `pointer` is not an allocation of this kind.
STANDIN_EXPORT bool Release(void* pointer, MemoryKind kind);
enum class RegisterResult { kOk, kOverlap, kInvalid };
STANDIN_EXPORT RegisterResult RegisterHost(void* pointer, size_t size);
STANDIN_EXPORT bool UnregisterHost(void* pointer);
// Returns whether the whole range lies in one known allocation or registration.
STANDIN_EXPORT bool KnownMemory(const void* pointer, size_t size);
// Returns whether this is host memory that is neither allocated by the driver nor registered with it.
STANDIN_EXPORT bool Pageable(const void* pointer);
// Returns whether this is the device's own memory or managed memory.
STANDIN_EXPORT bool DeviceMemory(const void* pointer);
STANDIN_EXPORT size_t AllocatedBytes();

// Returns the error that ended the device's context, or 0. The error stays: nothing on the device runs or completes any
// more, and most calls for the device return the error.
STANDIN_EXPORT int StickyError(int device);
STANDIN_EXPORT void Poison(int device, int error);
// cudaDeviceReset: removes the streams, the events and the error.
STANDIN_EXPORT void ResetDevice(int device);

// Events. The functions return the driver's error numbers, which the runtime shares. `blocking` is true if the CPU
// thread sleeps while it waits for the event.
STANDIN_EXPORT void* CreateEvent(int device, bool timing, bool blocking);
STANDIN_EXPORT bool DestroyEvent(void* event);
STANDIN_EXPORT void DestroyEventsOf(int device);
STANDIN_EXPORT size_t EventCount();
STANDIN_EXPORT int RecordEvent(void* event, const std::shared_ptr<Stream>& stream);
STANDIN_EXPORT int QueryEvent(void* event);
STANDIN_EXPORT int WaitForEvent(void* event);
STANDIN_EXPORT int ElapsedTime(float* milliseconds, void* start, void* end);
// Returns the position of the event's last recording, or the default point if it was never recorded. False: the event
// does not exist.
STANDIN_EXPORT bool EventPoint(void* event, StreamPoint* point);

// Starts a detached thread with every signal masked. Returns false on failure.
STANDIN_EXPORT bool StartThread(std::function<void()> body);

}  // namespace standin
