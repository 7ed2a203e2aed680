// Streams, devices and memory of the CPU stand-in. It lives in libcuda.so.1; the stand-ins of libcudart and libnccl
// link it, as the real ones stand on the driver.
#ifndef LOCKSTEP_TESTS_STANDIN_CUDA_ENGINE_H_
#define LOCKSTEP_TESTS_STANDIN_CUDA_ENGINE_H_

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

// A place in a stream: reached when everything enqueued up to and including `ticket` has ended. A default one is always
// reached. In a captured stream it is a node of the graph to be and is never reached by itself (capture.h).
struct StreamPoint {
  std::shared_ptr<Stream> stream;
  uint64_t ticket = 0;
  std::shared_ptr<Capture> capture;
  size_t node = 0;
};

// Called on the host for each launch, in the order of launches: makes what then runs on the stream.
using Make = std::function<std::function<void()>()>;

// Devices. The count is STANDIN_DEVICES (default 8); each has the same made-up properties and its own PCI id and UUID.
STANDIN_EXPORT int DeviceCount();
// The calling thread's device; -1 while no CUDA runtime call bound one to the thread (the driver's "no current
// context").
STANDIN_EXPORT int BoundDevice();
// Some thread has used the device.
STANDIN_EXPORT bool DeviceActive(int device);
STANDIN_EXPORT void BindDevice(int device);
// As the runtime sees it: binds device 0 to a thread that has none.
STANDIN_EXPORT int CurrentDevice();
// 16 bytes, equal in every process of the machine.
STANDIN_EXPORT void DeviceUuid(int device, char* uuid);
// "0000:1a:00.0".
STANDIN_EXPORT void DevicePciBusId(int device, char* text, size_t size);

// Streams: FIFO queues, each with one worker thread started at its first operation.
// `bounded`: the host waits while kLaunchQueue entries are in it, as in CUDA; what a graph's launch unfolds is one
// entry.
inline constexpr size_t kLaunchQueue = 1024;
STANDIN_EXPORT void* CreateStream(int device, bool non_blocking, bool bounded = true);
// What was enqueued still runs. False: no such stream.
STANDIN_EXPORT bool DestroyStream(void* handle);
// nullptr and 1 mean the legacy stream of the current device, 2 the calling thread's own one. Null: no such stream.
STANDIN_EXPORT std::shared_ptr<Stream> FindStream(void* handle);
STANDIN_EXPORT int StreamDevice(const Stream& stream);
STANDIN_EXPORT uint64_t StreamId(const Stream& stream);  // never given twice
STANDIN_EXPORT bool StreamNonBlocking(const Stream& stream);
STANDIN_EXPORT bool StreamIsLegacy(const Stream& stream);
// Queues `work` behind everything in the stream and behind `after`. The legacy stream and the blocking streams of its
// device wait for each other as CUDA says. Waits while the launch queue is full.
STANDIN_EXPORT StreamPoint Enqueue(const std::shared_ptr<Stream>& stream, std::function<void()> work,
                                   std::vector<StreamPoint> after = {});
// The same for work that is numbered when it is launched: at once, or at each launch of the graph that captures it.
STANDIN_EXPORT StreamPoint EnqueueMade(const std::shared_ptr<Stream>& stream, Make make,
                                       std::vector<StreamPoint> after = {});
// With CUDA_DEVICE_MAX_CONNECTIONS=1 a device has one queue, and a memory operation in it that waits for its stream's
// turn holds up what is put on any stream of the device from then on (seen on an H100). Nothing happens with more
// connections.
STANDIN_EXPORT void HoldUpOthers(const StreamPoint& point);
// The last thing enqueued so far.
STANDIN_EXPORT StreamPoint Tail(const std::shared_ptr<Stream>& stream);
STANDIN_EXPORT bool Reached(const StreamPoint& point);
// For what runs on streams: sleeps.
STANDIN_EXPORT void WaitFor(const StreamPoint& point);

// How the host waits for the device. kAuto spins like CUDA's where the machine has more processors than the job has
// local ranks, else it sleeps. STANDIN_WAIT=spin|yield|block decides for kAuto.
enum class HostWait { kAuto = 0, kSpin = 1, kYield = 2, kBlock = 4 };
STANDIN_EXPORT void SetHostWait(int device, HostWait wait);
STANDIN_EXPORT HostWait HostWaitOf(int device);
// For the host. Ends without being reached where an error ended the context.
STANDIN_EXPORT void HostWaitFor(const StreamPoint& point, HostWait wait = HostWait::kAuto);
// Until an entry is free in the stream's launch queue.
STANDIN_EXPORT void WaitForRoom(Stream& stream);

// One asynchronous copy, as CUDA synchronises it: to pageable memory it returns when the copy is done; from pageable
// memory it waits for the stream first where more is copied than is staged; between host memories it is done at once.
// `move` copies from where it is told, `from` or a staged copy of the `bytes` there.
STANDIN_EXPORT void EnqueueCopy(const std::shared_ptr<Stream>& stream, const void* to, const void* from, size_t bytes,
                                std::function<void(const void* from)> move);
// Every stream of the device, empty now or not.
STANDIN_EXPORT std::vector<std::shared_ptr<Stream>> StreamsOf(int device);

// Memory the device may touch. Allocations are plain host memory; `registered` ranges belong to the caller.
enum class MemoryKind { kDevice, kHost, kRegistered };
STANDIN_EXPORT void* Allocate(size_t size, MemoryKind kind);
// False: `pointer` is no such allocation.
STANDIN_EXPORT bool Release(void* pointer, MemoryKind kind);
enum class RegisterResult { kOk, kOverlap, kInvalid };
STANDIN_EXPORT RegisterResult RegisterHost(void* pointer, size_t size);
STANDIN_EXPORT bool UnregisterHost(void* pointer);
// True where the whole range lies in one known allocation or registration.
STANDIN_EXPORT bool KnownMemory(const void* pointer, size_t size);
// Host memory that is neither allocated by the driver nor registered with it.
STANDIN_EXPORT bool Pageable(const void* pointer);
// The device's own, or managed.
STANDIN_EXPORT bool DeviceMemory(const void* pointer);
STANDIN_EXPORT size_t AllocatedBytes();

// The error that ended the device's context, 0 while there is none. It never goes away: from then on nothing on the
// device runs or is reached, and every call about it gives that error.
STANDIN_EXPORT int StickyError(int device);
STANDIN_EXPORT void Poison(int device, int error);
// cudaDeviceReset: the streams and events are gone, and so is the error.
STANDIN_EXPORT void ResetDevice(int device);

// Events. The results are the driver's, whose values the runtime shares.
// `blocking`: the host sleeps in its waits for it.
STANDIN_EXPORT void* CreateEvent(int device, bool timing, bool blocking);
STANDIN_EXPORT bool DestroyEvent(void* event);
STANDIN_EXPORT void DestroyEventsOf(int device);
STANDIN_EXPORT size_t EventCount();
STANDIN_EXPORT int RecordEvent(void* event, const std::shared_ptr<Stream>& stream);
STANDIN_EXPORT int QueryEvent(void* event);
STANDIN_EXPORT int WaitForEvent(void* event);
STANDIN_EXPORT int ElapsedTime(float* milliseconds, void* start, void* end);
// Where it was last recorded; the default point when it never was. False: no such event.
STANDIN_EXPORT bool EventPoint(void* event, StreamPoint* point);

// A detached thread with every signal masked. False: it could not be started.
STANDIN_EXPORT bool StartThread(std::function<void()> body);

}  // namespace standin

#endif  // LOCKSTEP_TESTS_STANDIN_CUDA_ENGINE_H_
