#include "tests/standin/nccl/profiler.h"

#include <dlfcn.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>

#include "tests/standin/cuda/capture.h"
#include "tests/standin/nccl/comm.h"
#include "tests/standin/nccl/profiler_tables.h"

namespace standin {

namespace {

constexpr uint32_t kStepsUnderWay = 8;

int Number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text ? atoi(text) : otherwise;
}

// The plugin that all communicators share. It is closed when the last communicator is freed.
struct Loaded {
  std::mutex mutex;
  void* library = nullptr;
  ProfilerPlugin* plugin = nullptr;
  int references = 0;
  bool failed = false;
};
Loaded& TheLoaded() {
  static auto* loaded = new Loaded;
  return *loaded;
}

// The process has one mask. Every plugin's init gets its address, and each operation reads the mask again.
std::atomic<int> event_mask{0};

int Mask() { return event_mask.load(std::memory_order_relaxed); }

void* TryOpen(const char* name) {
  if (!name || !*name) {
    return nullptr;
  }
  if (strncasecmp(name, "STATIC_PLUGIN", strlen(name)) == 0) {
    name = nullptr;
  }
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void* OpenPlugin(const char* name) {
  char path[255];  // longer names are truncated, as in NCCL
  snprintf(path, sizeof path, "%s", name && *name ? name : "libnccl-profiler.so");
  if (void* library = TryOpen(path)) {
    return library;
  }
  const size_t length = name ? strlen(name) : 0;
  const bool whole = length >= 3 && strncmp(name, "lib", 3) == 0 && strcmp(name + length - 3, ".so") == 0;
  if (length == 0 || strchr(name, '/') || whole) {
    return nullptr;
  }
  snprintf(path, sizeof path, "libnccl-profiler-%s.so", name);
  return TryOpen(path);
}

ProfilerPlugin* Acquire() {
  Loaded& loaded = TheLoaded();
  const std::lock_guard lock(loaded.mutex);
  if (loaded.failed) {
    return nullptr;
  }
  if (loaded.references > 0) {
    ++loaded.references;
    return loaded.plugin;
  }
  const char* name = getenv("NCCL_PROFILER_PLUGIN");
  if (!name || strcasecmp(name, "none") != 0) {
    loaded.library = OpenPlugin(name);
  }
  if (loaded.library) {
    loaded.plugin = ProfilerPlugin::Find(loaded.library, Number("STANDIN_PROFILER_MAX_VERSION", 7));
  }
  if (!loaded.plugin) {
    if (loaded.library) {
      dlclose(loaded.library);
    }
    loaded.library = nullptr;
    loaded.failed = true;
    return nullptr;
  }
  Info("profiler plugin loaded, interface version %d", loaded.plugin->version);
  loaded.references = 1;
  return loaded.plugin;
}

void ReleasePlugin() {
  Loaded& loaded = TheLoaded();
  const std::lock_guard lock(loaded.mutex);
  if (--loaded.references > 0) {
    return;
  }
  delete loaded.plugin;
  loaded.plugin = nullptr;
  dlclose(loaded.library);
  loaded.library = nullptr;
}

// Reads the simulated GPU's clock, which is neither the CPU's monotonic clock nor its wall clock.
uint64_t GpuNow() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec) - 12'500'000'000u;
}

int Channels() { return std::clamp(Number("STANDIN_CHANNELS", 2), 1, 64); }

// Returns whether data to or from the peer passes over the network: the two ranks are on different nodes.
// STANDIN_NODE_RANKS is the number of ranks per node; 0 means one node.
bool OverNetwork(const ncclComm& comm, int peer) {
  static const int node = Number("STANDIN_NODE_RANKS", 0);
  return node > 0 && peer / node != comm.rank / node;
}

const char* FuncOf(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce: return "AllReduce";
    case Kind::kReduce: return "Reduce";
    case Kind::kBroadcast: return "Broadcast";
    case Kind::kAllGather: return "AllGather";
    case Kind::kReduceScatter: return "ReduceScatter";
    case Kind::kAlltoAll: return "AlltoAll";
    case Kind::kGather: return "Gather";
    case Kind::kScatter: return "Scatter";
    case Kind::kSend: return "Send";
    case Kind::kRecv: return "Recv";
  }
  return "";
}

const char* TypeName(ncclDataType_t type) {
  static const char* const kNames[] = {"ncclInt8",    "ncclUint8",    "ncclInt32",      "ncclUint32",
                                       "ncclInt64",   "ncclUint64",   "ncclFloat16",    "ncclFloat32",
                                       "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
  const auto number = static_cast<size_t>(type);
  return number < sizeof kNames / sizeof kNames[0] ? kNames[number] : "Unknown";
}

bool ByParts(Kind kind) { return kind == Kind::kAlltoAll || kind == Kind::kGather || kind == Kind::kScatter; }

// A task that NCCL creates if a collective runs as sends and receives.
struct Part {
  const char* func;
  int peer;
  void* buffer;
};

std::vector<Part> PartsOf(const ncclComm& comm, const Task& task) {
  std::vector<Part> parts;
  const size_t bytes = task.count * TypeBytes(task.type);
  const auto at = [bytes](const void* base, int peer) {
    return const_cast<char*>(static_cast<const char*>(base)) + bytes * static_cast<size_t>(peer);
  };
  const bool root = comm.rank == task.peer;
  for (int peer = 0; peer < comm.nranks; ++peer) {
    if (task.kind == Kind::kAlltoAll) {
      parts.push_back({"Send", peer, at(task.send, peer)});
      parts.push_back({"Recv", peer, at(task.recv, peer)});
    } else if (task.kind == Kind::kGather && root) {
      parts.push_back({"Recv", peer, at(task.recv, peer)});
    } else if (task.kind == Kind::kScatter && root) {
      parts.push_back({"Send", peer, at(task.send, peer)});
    }
  }
  if (task.kind == Kind::kGather) {
    parts.push_back({"Send", task.peer, at(task.send, 0)});
  } else if (task.kind == Kind::kScatter) {
    parts.push_back({"Recv", task.peer, at(task.recv, 0)});
  }
  return parts;
}

struct ApiState {
  void* group = nullptr;
  void* call = nullptr;
  ProfilerPlugin* plugin = nullptr;  // owner of `group` and `call`
};
thread_local ApiState api;

constexpr int kBelowColl = kProfileProxyOp | kProfileProxyStep | kProfileKernelCh | kProfileNetPlugin;

}  // namespace

void ProfilerWork::Start() { started.store(GpuNow(), std::memory_order_release); }
void ProfilerWork::Stop() { stopped.store(GpuNow(), std::memory_order_release); }

// Reports the events of launched operations to the plugin, as NCCL's proxy thread does.
class ProfilerProgress {
 public:
  explicit ProfilerProgress(ncclComm& comm)
      : comm_(comm), plugin_(comm.profiler), context_(comm.profiler_context), thread_([this] { Run(); }) {}
  ~ProfilerProgress() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void Post(std::shared_ptr<ProfilerWork> work, void* task, int peer, int mask) {
    Item item;
    item.work = std::move(work);
    item.task = task;
    item.mask = mask;
    for (int p = 0; p < comm_.nranks; ++p) {
      if ((peer >= 0 && p != peer) || !OverNetwork(comm_, p)) {
        continue;
      }
      for (const bool send : {false, true}) {
        if (send ? item.work->sends_to[static_cast<size_t>(p)] : item.work->receives_from[static_cast<size_t>(p)]) {
          item.proxies.push_back(
              {p, send, static_cast<uint8_t>((p + comm_.rank) % Channels())});  // the same channel at both ends
        }
      }
    }
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(item));
    }
    changed_.notify_all();
  }

 private:
  struct Proxy {
    int peer;
    bool send;
    uint8_t channel;
    bool begun = false, ended = false;
    void* handle = nullptr;
    void* borrowed = nullptr;  // the same operation, as if done for another process (PXN)
    std::array<void*, kStepsUnderWay> steps{};
    uint32_t posted = 0, handed = 0, done = 0;
  };
  struct Item {
    std::shared_ptr<ProfilerWork> work;
    void* task = nullptr;
    int mask = 0;
    bool started = false;
    std::vector<void*> kernels;
    std::vector<Proxy> proxies;
  };

  void Run() {
    std::deque<Item> active;
    std::unique_lock lock(mutex_);
    while (!stop_) {
      if (active.empty()) {
        changed_.wait(lock, [&] { return stop_ || !posted_.empty(); });
      } else {
        changed_.wait_for(lock, std::chrono::milliseconds(1), [&] { return stop_ || !posted_.empty(); });
      }
      for (Item& item : posted_) {
        active.push_back(std::move(item));
      }
      posted_.clear();
      lock.unlock();
      for (auto at = active.begin(); at != active.end();) {
        at = Advance(*at) ? active.erase(at) : std::next(at);
      }
      lock.lock();
    }
    // Operations that have already ended are reported as well.
    for (Item& item : posted_) {
      active.push_back(std::move(item));
    }
    for (Item& item : active) {
      Advance(item);
    }
  }

  bool Advance(Item& item) {
    ProfilerWork& work = *item.work;
    if (!item.started && work.started.load(std::memory_order_acquire) != 0) {
      item.started = true;
      if (item.mask & kProfileKernelCh) {
        for (int channel = 0; channel < Channels(); ++channel) {
          Event event;
          event.type = kProfileKernelCh;
          event.parent = item.task;
          event.channel = static_cast<uint8_t>(channel);
          event.gpu_ns = work.started.load() + static_cast<uint64_t>(channel) * 64;
          item.kernels.push_back(nullptr);
          plugin_->Start(context_, &item.kernels.back(), event);
        }
      }
    }
    bool all = true;
    for (Proxy& proxy : item.proxies) {
      Advance(item, proxy);
      all &= proxy.ended;
    }
    const uint64_t stopped = work.stopped.load(std::memory_order_acquire);
    if (!item.started || stopped == 0) {
      return false;
    }
    for (void* kernel : item.kernels) {
      if (kernel) {
        plugin_->Record(kernel, kKernelChStop, stopped, 0);
        plugin_->Stop(kernel);
      }
    }
    item.kernels.clear();
    return all || comm_.aborted.load() || comm_.revoked.load();
  }

  void Begin(Item& item, Proxy& proxy) {
    proxy.begun = true;
    Event event;
    event.type = kProfileProxyOp;
    event.parent = item.task;
    event.rank = comm_.rank;
    event.proxy_op = {
        getpid(),          proxy.channel, proxy.peer, static_cast<int>(item.work->steps), static_cast<int>(kChunkBytes),
        proxy.send ? 1 : 0};
    plugin_->Start(context_, &proxy.handle, event);
    if (proxy.handle) {
      plugin_->Record(proxy.handle, kProxyOpInProgress, 0, 0);
    }
    static const bool pxn = Number("STANDIN_PROFILER_PXN", 0) != 0;
    if (pxn) {
      // An event for another process carries that process's pid, parent and context. These values look valid here, or
      // point nowhere.
      event.proxy_op.pid = getpid() + 1;
      event.rank = comm_.nranks - 1 - comm_.rank;
      if (proxy.send) {
        event.parent = reinterpret_cast<void*>(uintptr_t{0x10});
      }
      plugin_->Start(reinterpret_cast<void*>(uintptr_t{0x20}), &proxy.borrowed, event);
    }
  }

  uint32_t Done(const Item& item, const Proxy& proxy) const {
    const ProfilerWork& work = *item.work;
    const auto peer = static_cast<size_t>(proxy.peer);
    if (!proxy.send) {
      return work.received[peer].load(std::memory_order_acquire);
    }
    const uint32_t taken = comm_.segment->mailbox(comm_.rank, proxy.peer).taken_steps.load(std::memory_order_acquire);
    return std::min(taken - work.sent_before[peer], work.published.load(std::memory_order_acquire));
  }

  void Advance(Item& item, Proxy& proxy) {
    ProfilerWork& work = *item.work;
    if (proxy.ended || work.started.load(std::memory_order_acquire) == 0 ||
        !(item.mask & (kProfileProxyOp | kProfileProxyStep))) {
      proxy.ended |= !(item.mask & (kProfileProxyOp | kProfileProxyStep));
      return;
    }
    if (!proxy.begun) {
      Begin(item, proxy);
    }
    const uint32_t done = std::min(Done(item, proxy), work.steps);
    while (true) {
      for (; proxy.posted < std::min(work.steps, proxy.done + kStepsUnderWay); ++proxy.posted) {
        Event event;
        event.type = kProfileProxyStep;
        event.parent = proxy.handle;
        event.rank = comm_.rank;
        event.step = static_cast<int>(proxy.posted);
        void** step = &proxy.steps[proxy.posted % kStepsUnderWay];
        plugin_->Start(context_, step, event);
        Note(*step, proxy.send ? kSendGPUWait : kRecvWait);
        if (proxy.borrowed) {
          event.parent = proxy.borrowed;
          void* borrowed = nullptr;
          plugin_->Start(reinterpret_cast<void*>(uintptr_t{0x20}), &borrowed, event);
          Note(borrowed, proxy.send ? kSendWait : kRecvWait);
          if (borrowed) {
            plugin_->Stop(borrowed);
          }
        }
      }
      const uint32_t published = work.published.load(std::memory_order_acquire);
      for (; proxy.send && proxy.handed < std::min(proxy.posted, published); ++proxy.handed) {
        void* step = proxy.steps[proxy.handed % kStepsUnderWay];
        Note(step, kSendPeerWait);
        Note(step, kSendWait);
      }
      if (proxy.done >= done) {
        break;
      }
      void*& step = proxy.steps[proxy.done % kStepsUnderWay];
      if (!proxy.send) {
        Note(step, kRecvFlushWait);
        Note(step, kRecvGPUWait);
      }
      if (step) {
        plugin_->Stop(step);
        step = nullptr;
      }
      ++proxy.done;
    }
    if (proxy.done == work.steps) {
      proxy.ended = true;
      for (void* handle : {proxy.handle, proxy.borrowed}) {
        if (handle) {
          plugin_->Stop(handle);
        }
      }
    }
  }

  void Note(void* handle, int state) {
    if (handle) {
      plugin_->Record(handle, state, 0, kChunkBytes);
    }
  }

  ncclComm& comm_;
  ProfilerPlugin* plugin_;
  void* context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::vector<Item> posted_;
  std::thread thread_;
};

void ProfilerInit(ncclComm& comm) {
  ProfilerPlugin* plugin = Acquire();
  if (!plugin) {
    return;
  }
  int mask = Mask();
  const int failed = plugin->Init(&comm.profiler_context, comm.hash, &mask,
                                  comm.name.empty() ? nullptr : comm.name.c_str(), 1, comm.nranks, comm.rank);
  if (failed) {
    Warn(nullptr, "Profiler init failed with error '%d'. Continue without profiler.", failed);
    ReleasePlugin();
    return;
  }
  event_mask.store(mask, std::memory_order_relaxed);
  comm.profiler = plugin;
}

void ProfilerFinalize(ncclComm& comm) {
  comm.progress.reset();
  if (!comm.profiler) {
    return;
  }
  if (comm.profiler_context) {
    comm.profiler->Finalize(comm.profiler_context);
  }
  comm.profiler = nullptr;
  ReleasePlugin();
}

void ProfilerBeginCall(Task& task, int group_depth) {
  ncclComm& comm = *task.comm;
  const int mask = comm.profiler ? Mask() : 0;
  if (mask == 0) {
    return;
  }
  const bool captured = CaptureOf(task.stream) != nullptr;
  api.plugin = comm.profiler;
  if (!api.group) {
    Event event;
    event.type = kProfileGroupApi;
    event.rank = comm.rank;
    event.group_api = {captured, group_depth};
    api.plugin->Start(comm.profiler_context, &api.group, event);
    if (api.group) {
      api.plugin->Record(api.group, kGroupStartApiStop, 0, 0);
    }
  }
  const bool point_to_point = task.kind >= Kind::kSend;
  const int wanted =
      point_to_point ? kProfileP2pApi | kProfileP2p | kBelowColl : kProfileCollApi | kProfileColl | kBelowColl;
  if (mask & wanted) {
    Event event;
    event.type = point_to_point || ByParts(task.kind) ? kProfileP2pApi : kProfileCollApi;
    event.parent = api.group;
    event.rank = comm.rank;
    event.api = {FuncOf(task.kind), task.count, TypeName(task.type), task.peer, task.stream_handle, captured};
    api.plugin->Start(comm.profiler_context, &api.call, event);
  }
  task.api_handle = api.call;
  task.profiler_mask = mask;
}

void ProfilerEndCall() {
  if (api.call) {
    api.plugin->Stop(api.call);
    api.call = nullptr;
  }
}

void ProfilerBeginGroupEnd() {
  if (api.group) {
    api.plugin->Record(api.group, kGroupEndApiStart, 0, 0);
  }
}

void ProfilerEndGroup() {
  if (api.group) {
    api.plugin->Stop(api.group);
    api.group = nullptr;
  }
}

void ProfilerPrepare(ncclComm& comm, std::vector<Task>& tasks) {
  for (Task& task : tasks) {
    if (task.profiler_mask == 0) {
      continue;
    }
    task.work = std::make_shared<ProfilerWork>(static_cast<size_t>(comm.nranks));
    const size_t bytes = task.count * TypeBytes(task.type);
    const size_t chunk =
        task.kind >= Kind::kSend ? comm.segment->mail_bytes()
        : task.kind == Kind::kReduceScatter || task.kind == Kind::kAlltoAll || task.kind == Kind::kScatter
            ? kChunkBytes / static_cast<size_t>(comm.nranks) / 64 * 64
            : kChunkBytes;
    task.work->steps = static_cast<uint32_t>(std::max<size_t>(1, (bytes + chunk - 1) / chunk));
    const bool root = comm.rank == task.peer;
    for (int peer = 0; peer < comm.nranks; ++peer) {
      const auto p = static_cast<size_t>(peer);
      bool sends = true, receives = true;
      switch (task.kind) {
        case Kind::kBroadcast:
        case Kind::kScatter:
          sends = root;
          receives = !root && peer == task.peer;
          break;
        case Kind::kReduce:
        case Kind::kGather:
          sends = !root && peer == task.peer;
          receives = root;
          break;
        case Kind::kSend:
          sends = peer == task.peer;
          receives = false;
          break;
        case Kind::kRecv:
          sends = false;
          receives = peer == task.peer;
          break;
        default: break;
      }
      task.work->sends_to[p] = sends && peer != comm.rank;
      task.work->receives_from[p] = receives && peer != comm.rank;
    }
  }
}

void ProfilerLaunched(const CommPtr& comm, const std::vector<Task>& tasks) {
  ProfilerPlugin* plugin = comm->profiler;
  if (!plugin || std::none_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.work != nullptr; })) {
    return;
  }
  if (!comm->progress) {
    comm->progress = std::make_shared<ProfilerProgress>(*comm);
  }
  void* group = nullptr;
  Event opening;
  opening.type = kProfileGroup;
  plugin->Start(comm->profiler_context, &group, opening);
  static const bool copy_engine = Number("STANDIN_PROFILER_CE", 0) != 0;
  struct Told {
    const Task* task;
    void* handle;
    int peer;
  };
  std::vector<Told> told;
  const auto tell = [&](const Task& task, uint64_t type, const char* func, int root, void* buffer) {
    Event event;
    event.type = type;
    event.parent = task.api_handle;
    event.rank = comm->rank;
    size_t count = task.count;
    ncclDataType_t datatype = task.type;
    // NCCL converts these counts to bytes, so the stand-in does too.
    if (type == kProfileColl && (task.kind == Kind::kAllGather || task.kind == Kind::kBroadcast)) {
      count *= TypeBytes(datatype);
      datatype = ncclInt8;
    }
    event.coll = {comm->name.empty() ? nullptr : comm->name.c_str(),
                  comm->hash,
                  task.seq,
                  func,
                  task.send,
                  buffer,
                  count,
                  root,
                  TypeName(datatype),
                  static_cast<uint8_t>(Channels()),
                  group,
                  task.stream_handle};
    void* handle = nullptr;
    plugin->Start(comm->profiler_context, &handle, event);
    told.push_back({&task, handle, type == kProfileP2p ? root : -1});
  };
  for (const Task& task : tasks) {
    if (!task.work) {
      continue;
    }
    if (copy_engine && task.kind < Kind::kSend && plugin->version >= 6) {
      tell(task, kProfileCeColl, FuncOf(task.kind), task.peer, task.recv);
    } else if (ByParts(task.kind)) {
      for (const Part& part : PartsOf(*comm, task)) {
        tell(task, kProfileP2p, part.func, part.peer, part.buffer);
      }
    } else if (task.kind >= Kind::kSend) {
      tell(task, kProfileP2p, FuncOf(task.kind), task.peer,
           task.kind == Kind::kSend ? const_cast<void*>(task.send) : task.recv);
    } else {
      tell(task, kProfileColl, FuncOf(task.kind), task.peer, task.recv);
    }
  }
  // The stop event means that the operation is queued. Later, the other thread reports the GPU's progress.
  for (const Told& each : told) {
    if (!copy_engine) {
      comm->progress->Post(each.task->work, each.handle, each.peer, each.task->profiler_mask);
    }
    if (each.handle) {
      plugin->Stop(each.handle);
    }
  }
  if (group) {
    plugin->Stop(group);
  }
}

bool NetworkIsStuck(const ncclComm& comm, int from, uint64_t operation, uint64_t step) {
  struct Fault {
    int from = -1, to = -1;
    unsigned long step = 0, operation = 0;
  };
  static const Fault fault = [] {
    Fault read;
    const char* text = getenv("STANDIN_NET_STUCK");
    if (!text || sscanf(text, "%d:%d:%lu:%lu", &read.from, &read.to, &read.step, &read.operation) < 3) {
      read.from = -1;
    }
    return read;
  }();
  return fault.from == from && fault.to == comm.rank && step >= fault.step && operation >= fault.operation;
}

}  // namespace standin
