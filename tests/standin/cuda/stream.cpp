#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tests/standin/cuda/capture.h"
#include "tests/standin/cuda/engine.h"

namespace standin {

namespace {

constexpr size_t kMostDevices = 256;
std::atomic<int> sticky_errors[kMostDevices];
std::atomic<uint64_t> next_stream_id{1};
std::atomic<bool> device_used[kMostDevices];
std::atomic<long> devices_used{0};

struct Work {
  std::function<void()> run;
  std::vector<StreamPoint> after;
};

}  // namespace

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(int device, bool non_blocking, bool legacy, bool bounded = true)
      : device_(device), non_blocking_(non_blocking), legacy_(legacy), bounded_(bounded) {
    if (!legacy && !device_used[device].exchange(true)) devices_used.fetch_add(1);
  }

  uint64_t Push(Work work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    enqueued_.fetch_add(1);
    if (!running_) {
      running_ = StartThread([self = shared_from_this()] { self->Serve(); });
    }
    changed_.notify_all();
    return enqueued_.load();
  }

  uint64_t Enqueued() const { return enqueued_.load(); }

  bool Reached(uint64_t ticket) const { return done_.load(std::memory_order_acquire) >= ticket; }
  bool Full() const { return bounded_ && enqueued_.load() - done_.load() >= kLaunchQueue; }

  // Waits for the ticket. Returns early if an error ended the context.
  void Wait(uint64_t ticket) {
    WaitUntil([&] { return Reached(ticket); }, HostWait::kBlock);
  }

  template <typename Condition>
  void WaitUntil(Condition condition, HostWait wait) {
    const auto over = [&] { return condition() || StickyError(device_) != 0; };
    if (wait == HostWait::kBlock) {
      if (over()) {
        return;
      }
      std::unique_lock lock(mutex_);
      changed_.wait(lock, over);
      return;
    }
    while (!over()) {
      if (wait == HostWait::kYield) {
        sched_yield();
      }
    }
  }

  void Wake() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

  void Close() {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }

  int device() const { return device_; }
  uint64_t id() const { return id_; }
  bool non_blocking() const { return non_blocking_; }
  bool legacy() const { return legacy_; }

 private:
  void Serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) {
        return;
      }
      Work work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      for (const StreamPoint& point : work.after) {
        WaitFor(point);
      }
      if (work.run && StickyError(device_) == 0) {
        work.run();
      }
      work = {};
      lock.lock();
      // When the context has ended, neither the current operation nor any later one completes.
      if (StickyError(device_) != 0) {
        continue;
      }
      // Pairs with Reached(): a reader of the ticket sees the work's writes.
      done_.fetch_add(1, std::memory_order_release);
      changed_.notify_all();
    }
  }

  const int device_;
  const uint64_t id_ = next_stream_id.fetch_add(1);
  const bool non_blocking_;
  const bool legacy_;
  const bool bounded_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::atomic<uint64_t> enqueued_{0};
  std::atomic<uint64_t> done_{0};
  bool running_ = false;
  bool closing_ = false;
};

namespace {

struct Device {
  std::mutex mutex;  // orders enqueueing on the legacy stream and the blocking streams
  std::shared_ptr<Stream> legacy;
  std::unordered_map<void*, std::shared_ptr<Stream>> streams;
  StreamPoint holds_up;  // set by HoldUpOthers
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<void*, std::shared_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Device>> devices;
};

// Never destroyed: worker threads may outlive static destruction.
Registry& TheRegistry() {
  static Registry* registry = [] {
    auto* made = new Registry;
    for (int i = 0; i < DeviceCount(); ++i) {
      made->devices.push_back(std::make_unique<Device>());
      made->devices.back()->legacy = std::make_shared<Stream>(i, false, true);
    }
    return made;
  }();
  return *registry;
}

std::shared_ptr<Stream> ThreadStream(int device) {
  // A thread's own stream, which ends with the thread. Enqueued work still runs.
  struct Own {
    std::unordered_map<int, void*> handles;
    ~Own() {
      for (const auto& [number, handle] : handles) {
        DestroyStream(handle);
      }
    }
  };
  thread_local Own own;
  auto [at, fresh] = own.handles.try_emplace(device, nullptr);
  if (fresh) {
    at->second = CreateStream(device, false);
  }
  return FindStream(at->second);
}

}  // namespace

int StickyError(int device) { return sticky_errors[static_cast<size_t>(device)].load(std::memory_order_acquire); }

void Poison(int device, int error) {
  int none = 0;
  sticky_errors[static_cast<size_t>(device)].compare_exchange_strong(none, error);
  for (const auto& stream : StreamsOf(device)) {
    stream->Wake();
  }
}

void ResetDevice(int device) {
  for (const auto& stream : StreamsOf(device)) {
    if (!stream->legacy()) {
      DestroyStream(stream.get());
    }
  }
  DestroyEventsOf(device);
  sticky_errors[static_cast<size_t>(device)].store(0, std::memory_order_release);
}

bool StartThread(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread(std::move(body)).detach();
  } catch (...) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void* CreateStream(int device, bool non_blocking, bool bounded) {
  auto stream = std::make_shared<Stream>(device, non_blocking, false, bounded);
  Registry& registry = TheRegistry();
  {
    Device& owner = *registry.devices[static_cast<size_t>(device)];
    const std::lock_guard lock(owner.mutex);
    owner.streams[stream.get()] = stream;
  }
  const std::lock_guard lock(registry.mutex);
  registry.streams[stream.get()] = stream;
  return stream.get();
}

bool DestroyStream(void* handle) {
  Registry& registry = TheRegistry();
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard lock(registry.mutex);
    const auto at = registry.streams.find(handle);
    if (at == registry.streams.end()) {
      return false;
    }
    stream = at->second;
    registry.streams.erase(at);
  }
  {
    Device& owner = *registry.devices[static_cast<size_t>(stream->device())];
    const std::lock_guard lock(owner.mutex);
    owner.streams.erase(handle);
  }
  stream->Close();
  return true;
}

std::shared_ptr<Stream> FindStream(void* handle) {
  Registry& registry = TheRegistry();
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= 1) {
    return registry.devices[static_cast<size_t>(CurrentDevice())]->legacy;
  }
  if (number == 2) {
    return ThreadStream(CurrentDevice());
  }
  const std::lock_guard lock(registry.mutex);
  const auto at = registry.streams.find(handle);
  return at == registry.streams.end() ? nullptr : at->second;
}

int StreamDevice(const Stream& stream) { return stream.device(); }
uint64_t StreamId(const Stream& stream) { return stream.id(); }
bool StreamNonBlocking(const Stream& stream) { return stream.non_blocking(); }
bool StreamIsLegacy(const Stream& stream) { return stream.legacy(); }

namespace {

std::atomic<HostWait> host_waits[kMostDevices];

// CUDA spins because its machines have spare processors. On test machines, spinning ranks would take every processor
// from the programs that observe them.
HostWait AutomaticWait() {
  static const HostWait chosen = [] {
    const char* wanted = getenv("STANDIN_WAIT");
    const std::string_view text = wanted == nullptr ? "" : wanted;
    if (text == "spin" || text == "yield" || text == "block") {
      return text == "spin" ? HostWait::kSpin : text == "yield" ? HostWait::kYield : HostWait::kBlock;
    }
    long ranks = 1;
    for (const char* name : {"LOCAL_WORLD_SIZE", "WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"}) {
      if (const char* value = getenv(name); value != nullptr && atol(value) > 0) {
        ranks = atol(value);
        break;
      }
    }
    // One process may drive devices for several ranks.
    ranks = std::max(ranks, devices_used.load());
    return ranks < sysconf(_SC_NPROCESSORS_ONLN) ? HostWait::kSpin : HostWait::kBlock;
  }();
  return chosen;
}

// With kAuto, a thread that would spin yields instead if as many threads already wait as there are processors.
template <typename Condition>
void WaitAsHost(Stream& stream, Condition condition, HostWait wait) {
  static std::atomic<long> waiting{0};
  if (wait == HostWait::kAuto) {
    wait = HostWaitOf(stream.device());
  }
  if (wait == HostWait::kAuto) {
    wait = AutomaticWait();
    if (wait == HostWait::kSpin && waiting.load() >= sysconf(_SC_NPROCESSORS_ONLN)) {
      wait = HostWait::kYield;
    }
  }
  waiting.fetch_add(1);
  stream.WaitUntil(condition, wait);
  waiting.fetch_sub(1);
}

bool OneQueue() {
  static const char* const connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return connections != nullptr && std::string_view(connections) == "1";
}

}  // namespace

StreamPoint EnqueueMade(const std::shared_ptr<Stream>& stream, Make make, std::vector<StreamPoint> after) {
  StreamPoint captured;
  if (AnyCapture() && AppendToCapture(stream, make, after, &captured)) {
    return captured;
  }
  return Enqueue(stream, make(), std::move(after));
}

StreamPoint Enqueue(const std::shared_ptr<Stream>& stream, std::function<void()> work, std::vector<StreamPoint> after) {
  StreamPoint captured;
  if (AnyCapture() && AppendToCapture(
                          stream, [work] { return work; }, after, &captured)) {
    return captured;
  }
  WaitForRoom(*stream);
  if (stream->non_blocking() && !OneQueue()) {
    return {stream, stream->Push({std::move(work), std::move(after)}), nullptr, 0};
  }
  Device& device = *TheRegistry().devices[static_cast<size_t>(stream->device())];
  const std::lock_guard lock(device.mutex);
  if (device.holds_up.stream && device.holds_up.stream != stream && !Reached(device.holds_up)) {
    after.push_back(device.holds_up);
  }
  if (stream->non_blocking()) {
    return {stream, stream->Push({std::move(work), std::move(after)}), nullptr, 0};
  }
  if (stream->legacy()) {
    for (const auto& [handle, other] : device.streams) {
      if (other->non_blocking()) {
        continue;
      }
      const uint64_t tail = other->Enqueued();
      if (!other->Reached(tail)) {
        after.push_back({other, tail, nullptr, 0});
      }
    }
  } else {
    const uint64_t tail = device.legacy->Enqueued();
    if (!device.legacy->Reached(tail)) {
      after.push_back({device.legacy, tail, nullptr, 0});
    }
  }
  return {stream, stream->Push({std::move(work), std::move(after)}), nullptr, 0};
}

void HoldUpOthers(const StreamPoint& point) {
  if (!OneQueue() || point.capture) {
    return;
  }
  Device& device = *TheRegistry().devices[static_cast<size_t>(point.stream->device())];
  const std::lock_guard lock(device.mutex);
  device.holds_up = point;
}

StreamPoint Tail(const std::shared_ptr<Stream>& stream) { return {stream, stream->Enqueued(), nullptr, 0}; }

bool Reached(const StreamPoint& point) {
  return !point.stream || (!point.capture && point.stream->Reached(point.ticket));
}

void WaitFor(const StreamPoint& point) {
  if (point.stream && !point.capture) {
    point.stream->Wait(point.ticket);
  }
}

void SetHostWait(int device, HostWait wait) { host_waits[static_cast<size_t>(device)].store(wait); }

HostWait HostWaitOf(int device) { return host_waits[static_cast<size_t>(device)].load(); }

void HostWaitFor(const StreamPoint& point, HostWait wait) {
  if (point.stream && !point.capture && !Reached(point)) {
    WaitAsHost(
        *point.stream, [&] { return Reached(point); }, wait);
  }
}

void WaitForRoom(Stream& stream) {
  if (stream.Full()) {
    WaitAsHost(
        stream, [&] { return !stream.Full(); }, HostWait::kAuto);
  }
}

void EnqueueCopy(const std::shared_ptr<Stream>& stream, const void* to, const void* from, size_t bytes,
                 std::function<void(const void* from)> move) {
  constexpr size_t kStaged = 65536;
  const auto copy = [move, from] { move(from); };
  if (CaptureOf(stream)) {
    Enqueue(stream, copy);
  } else if (Pageable(to) || (!DeviceMemory(to) && !DeviceMemory(from)) || (Pageable(from) && bytes > kStaged)) {
    HostWaitFor(Enqueue(stream, copy));
  } else if (Pageable(from)) {
    const auto* begin = static_cast<const char*>(from);
    Enqueue(stream, [move, staged = std::vector<char>(begin, begin + bytes)] { move(staged.data()); });
  } else {
    Enqueue(stream, copy);
  }
}

std::vector<std::shared_ptr<Stream>> StreamsOf(int device) {
  Device& owner = *TheRegistry().devices[static_cast<size_t>(device)];
  const std::lock_guard lock(owner.mutex);
  std::vector<std::shared_ptr<Stream>> all{owner.legacy};
  for (const auto& [handle, stream] : owner.streams) {
    all.push_back(stream);
  }
  return all;
}

}  // namespace standin
