// A program that creates, uses and destroys communicators in every way that NCCL has. It prints what calls returned, so
// that runs with and without the recorder can be compared.
//   lives_host MODE LIBNCCL RUNTIME [hip]
#include "recorder/testing/lives_host.h"

#include <errno.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>

namespace lives {
namespace {

constexpr int kFour = 4;

// One process with four devices creates communicators from others in every way. The calls are in groups, because one
// thread drives all devices.
int Children() {
  std::vector<Device> devices = InitAll(kFour);
  const auto start = NCCL(ncclGroupStart);
  const auto end = NCCL(ncclGroupEnd);
  // Two colors; the last rank has none. Keys reverse the order.
  ncclComm_t halves[kFour] = {};
  CHECK(start());
  for (int i = 0; i < kFour; ++i)
    CHECK(NCCL(ncclCommSplit)(devices[i].comm, i == 3 ? NCCL_SPLIT_NOCOLOR : i % 2, -i, &halves[i], nullptr));
  for (const ncclComm_t half : halves) EXPECT(half == nullptr);
  CHECK(end());
  CHECK(start());
  for (int i = 0; i < 3; ++i) CHECK(Reduce(devices[i], halves[i]));
  CHECK(end());
  Synchronize(devices);
  // The first two ranks grow to three: one of them has the id, the other does not, and the new rank has no parent.
  ncclComm_t pair[kFour] = {}, grown[kFour] = {};
  CHECK(start());
  for (int i = 0; i < kFour; ++i)
    CHECK(NCCL(ncclCommSplit)(devices[i].comm, i < 2 ? 0 : NCCL_SPLIT_NOCOLOR, i, &pair[i], nullptr));
  CHECK(end());
  ncclUniqueId id;
  CHECK(NCCL(ncclCommGetUniqueId)(pair[0], &id));
  CHECK(start());
  CHECK(NCCL(ncclCommGrow)(pair[0], 3, &id, -1, &grown[0], nullptr));
  CHECK(NCCL(ncclCommGrow)(pair[1], 3, nullptr, -1, &grown[1], nullptr));
  CHECK(Runtime("SetDevice", 2));
  CHECK(NCCL(ncclCommGrow)(nullptr, 3, &id, 2, &grown[2], nullptr));
  CHECK(end());
  CHECK(start());
  for (int i = 0; i < 3; ++i) CHECK(Reduce(devices[i], grown[i]));
  CHECK(end());
  Synchronize(devices);
  // The same ranks survive twice, so NCCL gives both children one hash. The list is sorted in place.
  ncclComm_t fewer[2][kFour] = {};
  for (auto& children : fewer) {
    int excluded[kFour][2] = {{3, 1}, {3, 1}, {3, 1}, {3, 1}};
    CHECK(start());
    for (int i = 0; i < kFour; i += 2)
      CHECK(NCCL(ncclCommShrink)(devices[i].comm, excluded[i], 2, &children[i], nullptr, NCCL_SHRINK_DEFAULT));
    CHECK(end());
    EXPECT(excluded[0][0] == 1 && excluded[0][1] == 3);
    CHECK(start());
    for (int i = 0; i < kFour; i += 2) CHECK(Reduce(devices[i], children[i]));
    CHECK(end());
  }
  Synchronize(devices);
  Snapshot("living");
  for (int i = 0; i < kFour; ++i) {
    CHECK(NCCL(ncclCommDestroy)(halves[i]));
    CHECK(NCCL(ncclCommDestroy)(pair[i]));
    CHECK(NCCL(ncclCommAbort)(grown[i]));
    for (auto& children : fewer) CHECK(NCCL(ncclCommFinalize)(children[i]));
    for (auto& children : fewer) CHECK(NCCL(ncclCommDestroy)(children[i]));
    CHECK(NCCL(ncclCommDestroy)(devices[i].comm));
  }
  return 0;
}

// Uses a communicator with one rank in each of its states.
int States() {
  std::vector<Device> devices = InitAll(1);
  const Device& d = devices[0];
  Say("reduce", Reduce(d, d.comm));
  Say("suspend", NCCL(ncclCommSuspend)(d.comm, NCCL_SUSPEND_MEM));
  Snapshot("suspended");
  Say("suspended reduce", Reduce(d, d.comm));
  uint64_t bytes = 7;
  Say("stats", NCCL(ncclCommMemStats)(d.comm, ncclStatGpuMemTotal, &bytes));
  Say("resume", NCCL(ncclCommResume)(d.comm));
  Say("resume again", NCCL(ncclCommResume)(d.comm));
  Say("nothing", NCCL(ncclAllReduce)(nullptr, nullptr, 0, ncclFloat, ncclSum, d.comm, d.stream));
  void* memory = nullptr;
  void* registration = nullptr;
  ncclWindow_t window = nullptr;
  Say("alloc", NCCL(ncclMemAlloc)(&memory, 1 << 16));
  Say("register", NCCL(ncclCommRegister)(d.comm, memory, 1 << 16, &registration));
  Say("deregister", NCCL(ncclCommDeregister)(d.comm, registration));
  Say("window", NCCL(ncclCommWindowRegister)(d.comm, memory, 1 << 16, &window, NCCL_WIN_COLL_SYMMETRIC));
  void* same = nullptr;
  Say("window's pointer", NCCL(ncclWinGetUserPtr)(d.comm, window, &same));
  EXPECT(same == memory);
  Say("no window", NCCL(ncclCommWindowDeregister)(d.comm, window));
  Say("free", NCCL(ncclMemFree)(memory));
  ncclRedOp_t custom;
  float factor = 0.5f;
  Say("custom", NCCL(ncclRedOpCreatePreMulSum)(&custom, &factor, ncclFloat, ncclScalarHostImmediate, d.comm));
  Say("custom reduce", NCCL(ncclAllReduce)(d.send, d.recv, kCount, ncclFloat, custom, d.comm, d.stream));
  Say("no custom", NCCL(ncclRedOpDestroy)(custom, d.comm));
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  Say("start", NCCL(ncclGroupStart)());
  Say("simulated reduce", Reduce(d, d.comm));
  Say("simulate", NCCL(ncclGroupSimulateEnd)(&info));
  Say("end at depth 0", NCCL(ncclGroupEnd)());
  Say("start", NCCL(ncclGroupStart)());
  Say("good reduce", Reduce(d, d.comm));
  Say("bad root", NCCL(ncclBroadcast)(d.send, d.recv, kCount, ncclFloat, 9, d.comm, d.stream));
  Say("its end", NCCL(ncclGroupEnd)());
  Say("parameter", NCCL(ncclParamBind)(nullptr, nullptr));
  Say("revoke", NCCL(ncclCommRevoke)(d.comm, NCCL_REVOKE_DEFAULT));
  Snapshot("revoked");
  Say("revoke again", NCCL(ncclCommRevoke)(d.comm, NCCL_REVOKE_DEFAULT));
  Say("revoked reduce", Reduce(d, d.comm));
  Say("revoked finalize", NCCL(ncclCommFinalize)(d.comm));
  ncclComm_t child = nullptr;
  Say("revoked split", NCCL(ncclCommSplit)(d.comm, 0, 0, &child, nullptr));
  Say("finalize", NCCL(ncclCommFinalize)(child));
  Say("finalize again", NCCL(ncclCommFinalize)(child));
  Snapshot("finalized");
  Say("destroy", NCCL(ncclCommDestroy)(child));
  Say("abort", NCCL(ncclCommAbort)(d.comm));
  for (const char* name : {"ncclCommDestroy", "ncclCommAbort", "ncclCommFinalize"})
    Say(name, Must<int (*)(ncclComm_t)>(name)(nullptr));
  Say("revoke nothing", NCCL(ncclCommRevoke)(nullptr, 0));
  return 0;
}

// Uses a non-blocking communicator. The recorder has no background thread, so it learns from later calls that NCCL's
// thread has finished.
int Nonblocking() {
  std::vector<Device> devices = Devices(1);
  Device& d = devices[0];
  ncclUniqueId id;
  CHECK(NCCL(ncclGetUniqueId)(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  Say("init", NCCL(ncclCommInitRankConfig)(&d.comm, 1, id, 0, &config));
  Snapshot("initializing");
  int count = 0;
  Say("count", NCCL(ncclCommCount)(d.comm, &count));
  Await([&] { return State(d.comm) == ncclSuccess; });
  Say("reduce", Reduce(d, d.comm));
  Snapshot("queueing");
  Say("too early", Reduce(d, d.comm));
  Await([&] { return State(d.comm) == ncclSuccess; });
  Snapshot("queued");
  CHECK(NCCL(ncclGroupStart)());
  Say("grouped", Reduce(d, d.comm));
  Say("end", NCCL(ncclGroupEnd)());
  Await([&] { return State(d.comm) == ncclSuccess; });
  // NCCL forgets that a group of such a communicator was only a simulation.
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  CHECK(NCCL(ncclGroupStart)());
  Say("simulated", Reduce(d, d.comm));
  Say("simulate", NCCL(ncclGroupSimulateEnd)(&info));
  Await([&] { return State(d.comm) == ncclSuccess; });
  // NCCL's thread stores the handle. A watchdog of the program sees that the parent is ready.
  auto child = std::make_unique<ncclComm_t>(nullptr);
  Say("split", NCCL(ncclCommSplit)(d.comm, 5, 0, child.get(), nullptr));
  Snapshot("splitting");
  std::thread([&] { Await([&] { return State(d.comm) == ncclSuccess; }); }).join();
  EXPECT(*child != nullptr);
  Await([&] { return State(*child) == ncclSuccess; });
  Snapshot("split");
  // A blocking child of a non-blocking parent, because the child's own configuration does not override the default.
  ncclConfig_t plain = NCCL_CONFIG_INITIALIZER;
  plain.commName = "blocking child";
  ncclComm_t second = nullptr;
  Say("second split", NCCL(ncclCommSplit)(d.comm, 5, 0, &second, &plain));
  Await([&] { return State(d.comm) == ncclSuccess; });
  Say("blocking reduce", Reduce(d, second));
  // The call on the parent writes the child's handle into `gone`, which is unmapped before the child is used.
  {
    auto* gone =
        static_cast<ncclComm_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    Say("third split", NCCL(ncclCommSplit)(d.comm, 5, 0, gone, nullptr));
    ncclComm_t third = nullptr;
    Await([&] { return (third = __atomic_load_n(gone, __ATOMIC_ACQUIRE)) != nullptr; });
    munmap(gone, 4096);
    Await([&] { return State(d.comm) == ncclSuccess; });
    Await([&] { return State(third) == ncclSuccess; });
    Say("third reduce", Reduce(d, third));
    Await([&] { return State(third) == ncclSuccess; });
    NCCL(ncclCommAbort)(third);
  }
  CHECK(Runtime("StreamSynchronize", d.stream));
  NCCL(ncclCommAbort)(second);
  NCCL(ncclCommFinalize)(*child);
  Await([&] { return State(*child) == ncclSuccess; });
  Say("destroy child", NCCL(ncclCommDestroy)(*child));
  Say("destroy", NCCL(ncclCommDestroy)(d.comm));
  return 0;
}

// Rank 1 of 2 never joins. A watchdog of the program queries and aborts while another thread is inside the init call.
int Watchdog() {
  std::vector<Device> devices = Devices(1);
  ncclUniqueId id;
  CHECK(NCCL(ncclGetUniqueId)(&id));
  ncclComm_t comm = nullptr;
  std::thread maker([&] {
    CHECK(Runtime("SetDevice", 0));
    const int result = NCCL(ncclCommInitRank)(&comm, 2, id, 0);
    Say("init", result != 0);
  });
  Await([&] { return __atomic_load_n(&comm, __ATOMIC_ACQUIRE) != nullptr; });
  Say("asked", State(comm) == ncclSuccess || State(comm) == ncclInProgress);
  Snapshot("waiting");
  Say("abort", NCCL(ncclCommAbort)(comm));
  maker.join();
  Snapshot("aborted");
  // Another thread queries the state while this thread makes calls.
  ncclUniqueId second;
  CHECK(NCCL(ncclGetUniqueId)(&second));
  CHECK(NCCL(ncclCommInitRank)(&comm, 1, second, 0));
  std::atomic<bool> stop{false};
  std::thread watchdog([&] {
    while (!stop.load()) State(comm);
  });
  for (int i = 0; i < 2000; ++i) CHECK(Reduce(devices[0], comm));
  stop = true;
  watchdog.join();
  CHECK(Runtime("StreamSynchronize", devices[0].stream));
  CHECK(NCCL(ncclCommDestroy)(comm));
  return 0;
}

// Handles are reused immediately after they are freed, for children and parents in turn.
int Reuse() {
  std::vector<Device> devices = Devices(1);
  std::map<ncclComm_t, int> seen;
  int again = 0;
  for (int i = 0; i < 300; ++i) {
    ncclUniqueId id;
    CHECK(NCCL(ncclGetUniqueId)(&id));
    ncclComm_t comm = nullptr, child = nullptr;
    CHECK(NCCL(ncclCommInitRank)(&comm, 1, id, 0));
    CHECK(Reduce(devices[0], comm));
    if (i % 3 == 0) CHECK(NCCL(ncclCommSplit)(comm, i, 0, &child, nullptr));
    if (child != nullptr) CHECK(Reduce(devices[0], child));
    again += seen[comm]++ > 0;
    CHECK(Runtime("StreamSynchronize", devices[0].stream));
    CHECK(i % 2 == 0 ? NCCL(ncclCommDestroy)(comm) : NCCL(ncclCommAbort)(comm));
    CHECK(NCCL(ncclCommDestroy)(child));
  }
  Say("handles that came again, enough", again > 100);
  return 0;
}

// The test sets NCCL_COMM_ID. All ids are equal, but the communicators are different.
int CommId() {
  std::vector<Device> devices = Devices(2);
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) CHECK(NCCL(ncclGetUniqueId)(&id));
  EXPECT(std::memcmp(&ids[0], &ids[1], sizeof(ids[0])) == 0);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        Device& d = devices[static_cast<size_t>(i)];
        CHECK(Runtime("SetDevice", i));
        CHECK(NCCL(ncclCommInitRank)(&d.comm, 2, ids[round % 2], i));
        for (int n = 0; n <= round; ++n) CHECK(Reduce(d, d.comm));
        CHECK(Runtime("StreamSynchronize", d.stream));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  return 0;
}

// A communicator may have several ids; the first one identifies it. The rank comes before the number of ids.
int Scalable() {
  std::vector<Device> devices = Devices(3);
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) CHECK(NCCL(ncclGetUniqueId)(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "scalable";
  CHECK(NCCL(ncclGroupStart)());
  for (int i = 0; i < 3; ++i) {
    CHECK(Runtime("SetDevice", i));
    CHECK(NCCL(ncclCommInitRankScalable)(&devices[static_cast<size_t>(i)].comm, 3, i, 2, ids, &config));
  }
  CHECK(NCCL(ncclGroupEnd)());
  // The thread that created the communicators uses them at once.
  CHECK(NCCL(ncclGroupStart)());
  for (Device& d : devices) CHECK(Reduce(d, d.comm));
  CHECK(NCCL(ncclGroupEnd)());
  Synchronize(devices);
  return 0;
}

// Two devices use puts with signals, signals without data, and waits: inside and outside groups, and in an abandoned
// group.
int OneSided() {
  std::vector<Device> devices = InitAll(2);
  ncclWindow_t windows[2] = {};
  void* memory[2] = {};
  CHECK(NCCL(ncclGroupStart)());
  for (int i = 0; i < 2; ++i) {
    CHECK(NCCL(ncclMemAlloc)(&memory[i], 4096));
    EXPECT(reinterpret_cast<uintptr_t>(memory[i]) % 4096 == 0 ||
           (memory[i] = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != nullptr);
    CHECK(NCCL(ncclCommWindowRegister)(devices[i].comm, memory[i], 4096, &windows[i], 0));
  }
  CHECK(NCCL(ncclGroupEnd)());
  const auto put = [&](int from, size_t count) {
    return NCCL(ncclPutSignal)(devices[from].send, count, ncclFloat, 1 - from, windows[from], 0, 0, 0, 0,
                               devices[from].comm, devices[from].stream);
  };
  const auto wait = [&](int rank, int times) {
    ncclWaitSignalDesc_t from{times, 1 - rank, 0, 0};
    return NCCL(ncclWaitSignal)(1, &from, devices[rank].comm, devices[rank].stream);
  };
  for (int n = 0; n < 3; ++n) CHECK(put(0, 8));
  CHECK(NCCL(ncclSignal)(1, 0, 0, 0, devices[0].comm, devices[0].stream));
  CHECK(wait(1, 3));
  CHECK(NCCL(ncclGroupStart)());
  CHECK(put(1, 4));
  CHECK(wait(1, 1));
  CHECK(NCCL(ncclGroupEnd)());
  CHECK(wait(0, 1));
  Synchronize(devices);
  CHECK(NCCL(ncclGroupStart)());
  CHECK(put(0, 8));
  Say("peer that is none", NCCL(ncclSignal)(7, 0, 0, 0, devices[0].comm, devices[0].stream));
  Say("given up", NCCL(ncclGroupEnd)());
  Say("no such index", NCCL(ncclSignal)(1, 3, 0, 0, devices[0].comm, devices[0].stream));
  Snapshot("balanced");
  // This signal never comes.
  CHECK(wait(1, 2));
  Snapshot("waiting");
  _exit(0);
}

// Rank 1 waits for more signals than rank 0 sends, and the process waits for rank 1.
int SignalLost() {
  std::vector<Device> devices = InitAll(2);
  for (int n = 0; n < 3; ++n) CHECK(NCCL(ncclSignal)(1, 0, 0, 0, devices[0].comm, devices[0].stream));
  ncclWaitSignalDesc_t from{4, 0, 0, 0};
  CHECK(NCCL(ncclWaitSignal)(1, &from, devices[1].comm, devices[1].stream));
  std::puts("stalled");
  std::fflush(stdout);
  Synchronize(devices);
  return 0;
}

// Rank 0 waits for both peers in each call: at once, with many descriptors, in an abandoned group, and in a capture.
// The signals never come.
int WaitsForSeveral() {
  std::vector<Device> devices = InitAll(3);
  const Device& d = devices[0];
  CHECK(Runtime("SetDevice", 0));
  const auto wait = [&](size_t times) {
    std::vector<ncclWaitSignalDesc_t> from;
    for (size_t i = 0; i < times; ++i) from.insert(from.end(), {{1, 1, 0, 0}, {2, 2, 0, 0}});
    return NCCL(ncclWaitSignal)(static_cast<int>(from.size()), from.data(), d.comm, d.stream);
  };
  CHECK(wait(1));
  CHECK(wait(40));
  Snapshot("waiting");
  CHECK(NCCL(ncclGroupStart)());
  CHECK(wait(1));
  Say("peer that is none", NCCL(ncclSignal)(7, 0, 0, 0, d.comm, d.stream));
  Say("given up", NCCL(ncclGroupEnd)());
  cudaGraph_t graph;
  CHECK(Runtime("StreamBeginCapture", d.stream, cudaStreamCaptureModeRelaxed));
  CHECK(wait(1));
  CHECK(Runtime("StreamEndCapture", d.stream, &graph));
  Snapshot("captured");
  _exit(0);
}

// Callers were built with other headers or pass invalid arguments.
int Configs() {
  std::vector<Device> devices = Devices(1);
  const long page = sysconf(_SC_PAGESIZE);
  auto* memory = static_cast<char*>(
      mmap(nullptr, static_cast<size_t>(2 * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(mprotect(memory + page, static_cast<size_t>(page), PROT_NONE));
  char* const edge = memory + page;
  const auto make = [&](const char* what, void* config) {
    ncclUniqueId id;
    CHECK(NCCL(ncclGetUniqueId)(&id));
    ncclComm_t comm = nullptr;
    const int result = NCCL(ncclCommInitRankConfig)(&comm, 1, id, 0, static_cast<ncclConfig_t*>(config));
    Say(what, result);
    if (result == 0) CHECK(NCCL(ncclCommDestroy)(comm));
  };
  const auto build = [&](size_t bytes, unsigned version, const char* name, size_t claimed, unsigned magic) {
    ncclConfig_t whole = NCCL_CONFIG_INITIALIZER;
    whole.size = claimed;
    whole.version = version;
    whole.magic = magic;
    whole.blocking = 1;
    whole.commName = name;
    char* at = edge - bytes;
    std::memcpy(at, &whole, bytes < sizeof(whole) ? bytes : sizeof(whole));
    return at;
  };
  make("none", nullptr);
  make("2.14", build(24, 21400, "no", 24, NCCL_API_MAGIC));
  make("2.17", build(40, 21700, "no", 40, NCCL_API_MAGIC));
  make("2.18", build(48, 21800, "no", 48, NCCL_API_MAGIC));
  make("2.27", build(72, 22700, "two twenty-seven", 72, NCCL_API_MAGIC));
  // An old caller has something else at the position of the name, so there is no name.
  make("2.26", build(56, 22600, reinterpret_cast<const char*>(0x10), 56, NCCL_API_MAGIC));
  make("2.30", build(sizeof(ncclConfig_t), 23007, "two thirty", sizeof(ncclConfig_t), NCCL_API_MAGIC));
  make("newer", build(sizeof(ncclConfig_t) + 64, 23500, "newer", sizeof(ncclConfig_t) + 64, NCCL_API_MAGIC));
  make("bad magic", build(sizeof(ncclConfig_t), 23007, "x", sizeof(ncclConfig_t), 0x12345678));
  make("too small", build(sizeof(ncclConfig_t), 23007, "x", 4, NCCL_API_MAGIC));
  make("too large", build(sizeof(ncclConfig_t), 23007, "x", SIZE_MAX, NCCL_API_MAGIC));
  // One name ends where its page ends. Another is longer than the available space.
  char* const name = edge - 8;
  std::memcpy(name, "at edge", 8);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  make("edge", &config);
  const std::string longest(300, 'n');
  config.commName = longest.c_str();
  make("long", &config);
  return 0;
}

// Uses names and calls that only a newer NCCL has.
int Future() {
  std::vector<Device> devices = InitAll(2);
  const auto on_both = [&](const std::function<int(Device&)>& call) {
    CHECK(NCCL(ncclGroupStart)());
    for (Device& d : devices) CHECK(call(d));
    CHECK(NCCL(ncclGroupEnd)());
  };
  on_both([](Device& d) {
    return NCCL(ncclAllGather)(d.send, d.recv, kCount, static_cast<ncclDataType_t>(12), d.comm, d.stream);
  });
  on_both([](Device& d) {
    return NCCL(ncclAllReduce)(d.send, d.recv, kCount, ncclFloat, static_cast<ncclRedOp_t>(5), d.comm, d.stream);
  });
  const auto everything = Must<decltype(&ncclAllGather)>("ncclAllGatherEverything");
  on_both([&](Device& d) { return everything(d.send, d.recv, kCount, ncclFloat, d.comm, d.stream); });
  // Calls a function of an NCCL fork, with an argument that no other version has.
  const size_t counts[2] = {8, 8}, offsets[2] = {0, 8};
  const auto relayed = Must<int (*)(const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*,
                                    const void*, ncclDataType_t, ncclComm_t, cudaStream_t)>("ncclAlltoAllv");
  for (Device& d : devices)
    CHECK(relayed(d.send, counts, offsets, d.recv, counts, offsets, d.send, ncclFloat, d.comm, d.stream));
  on_both([](Device& d) { return Reduce(d, d.comm); });
  Synchronize(devices);
  Snapshot("future");
  for (Device& d : devices) CHECK(NCCL(ncclCommDestroy)(d.comm));
  return 0;
}

// Makes the same calls under the names of RCCL and HIP.
int Rocm() {
  std::vector<Device> devices = InitAll(2);
  const auto on_both = [&](const std::function<int(Device&)>& call) {
    CHECK(NCCL(ncclGroupStart)());
    for (Device& d : devices) CHECK(call(d));
    CHECK(NCCL(ncclGroupEnd)());
  };
  for (int n = 0; n < 5; ++n) on_both([](Device& d) { return Reduce(d, d.comm); });
  on_both([](Device& d) {
    return Must<decltype(&ncclAllGather)>("ncclAllToAll")(d.send, d.recv, kCount, ncclFloat, d.comm, d.stream);
  });
  const size_t counts[2] = {8, 8}, offsets[2] = {0, 8};
  const auto every = Must<int (*)(const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*,
                                  ncclDataType_t, ncclComm_t, cudaStream_t)>("ncclAllToAllv");
  on_both(
      [&](Device& d) { return every(d.send, counts, offsets, d.recv, counts, offsets, ncclFloat, d.comm, d.stream); });
  const auto newer = Must<decltype(every)>("ncclAlltoAllv");
  on_both(
      [&](Device& d) { return newer(d.send, counts, offsets, d.recv, counts, offsets, ncclFloat, d.comm, d.stream); });
  const auto biased =
      Must<int (*)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t, const void*)>(
          "ncclAllReduceWithBias");
  on_both([&](Device& d) { return biased(d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream, d.send); });
  int algorithm = 0;
  CHECK(Must<int (*)(const char*, int*, int)>("mscclLoadAlgo")("all.xml", &algorithm, 6));
  EXPECT(algorithm == 7);
  const auto run = Must<int (*)(const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*, size_t,
                                ncclDataType_t, int, int, ncclRedOp_t, int, ncclComm_t, cudaStream_t)>("mscclRunAlgo");
  on_both([&](Device& d) {
    return run(d.send, nullptr, nullptr, d.recv, nullptr, nullptr, kCount, ncclFloat, 0, 0, ncclSum, algorithm, d.comm,
               d.stream);
  });
  CHECK(Must<int (*)(int)>("mscclUnloadAlgo")(algorithm));
  Synchronize(devices);
  CHECK(Runtime("SetDevice", 0));
  cudaEvent_t event;
  CHECK(Runtime("EventCreate", &event));
  CHECK(Runtime("EventRecord", event, devices[0].stream));
  cudaStream_t other;
  CHECK(Runtime("StreamCreate", &other));
  CHECK(Runtime("StreamWaitEvent", other, event, 0u));
  CHECK(Reduce(devices[0], devices[0].comm));
  CHECK(Runtime("EventSynchronize", event));
  CHECK(Runtime("SetDevice", 1));
  CHECK(Reduce(devices[1], devices[1].comm));
  Synchronize(devices);
  // Without a stream, the _spt variants use the calling thread's own default stream.
  CHECK(Runtime("SetDevice", 0));
  CHECK(NCCL(ncclAllReduce)(devices[0].send, devices[0].recv, kCount, ncclFloat, ncclSum, devices[0].comm,
                            cudaStreamPerThread));
  CHECK(Runtime("EventRecord_spt", event, cudaStream_t{}));
  CHECK(Runtime("StreamWaitEvent", devices[0].stream, event, 0u));
  CHECK(Runtime("SetDevice", 1));
  CHECK(Reduce(devices[1], devices[1].comm));
  Synchronize(devices);
  float back = 0;
  CHECK(Runtime("Memcpy", static_cast<void*>(&back), static_cast<const void*>(devices[0].recv), sizeof(back), 2));
  CHECK(Runtime("MemcpyWithStream", static_cast<void*>(&back), static_cast<const void*>(devices[0].recv), sizeof(back),
                2, devices[0].stream));
  CHECK(Runtime("DeviceSynchronize"));
  Snapshot("rocm");
  for (Device& d : devices) {
    CHECK(NCCL(ncclCommDestroy)(d.comm));
    CHECK(Runtime("StreamDestroy", d.stream));
    CHECK(Runtime("Free", static_cast<void*>(d.send)));
  }
  return 0;
}

// There is no device, as with the real NCCL on a machine without a GPU. Every failure must be the same as without the
// recorder.
int NoDevice() {
  errno = 66;
  ncclUniqueId id;
  Say("id", NCCL(ncclGetUniqueId)(&id));
  errno = 66;
  ncclComm_t comm = nullptr;
  Say("init", NCCL(ncclCommInitRank)(&comm, 3, id, 2));
  Say("errno", errno);
  Say("handle", comm != nullptr);
  Say("start", NCCL(ncclGroupStart)());
  Say("end", NCCL(ncclGroupEnd)());
  void* memory = nullptr;
  Say("alloc", NCCL(ncclMemAlloc)(&memory, 4096));
  Say("errno", errno);
  return 0;
}

// One process drives `count` devices. The last one does not reach the last operation, and the process waits forever.
int Stall(int count) {
  std::vector<Device> devices = InitAll(count);
  for (int n = 0; n < 6; ++n) {
    CHECK(NCCL(ncclGroupStart)());
    for (int i = 0; i < count - (n == 5); ++i)
      CHECK(Reduce(devices[static_cast<size_t>(i)], devices[static_cast<size_t>(i)].comm));
    CHECK(NCCL(ncclGroupEnd)());
    if (n < 5) Synchronize(devices);
  }
  std::puts("stalled");
  std::fflush(stdout);
  Synchronize(devices);
  return 0;
}

}  // namespace
}  // namespace lives

int Versions();  // defined in lives_versions.cpp

int main(int argc, char** argv) {
  using namespace lives;
  if (argc < 4) return 2;
  if (argc > 4) g_runtime = argv[4];
  void* runtime = dlopen(argv[3], RTLD_NOW | RTLD_GLOBAL);
  void* nccl = runtime != nullptr ? dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL) : nullptr;
  if (nccl == nullptr) Die(dlerror());
  const std::map<std::string, std::function<int()>> modes = {{"children", Children},
                                                             {"states", States},
                                                             {"nonblocking", Nonblocking},
                                                             {"watchdog", Watchdog},
                                                             {"reuse", Reuse},
                                                             {"comm-id", CommId},
                                                             {"scalable", Scalable},
                                                             {"one-sided", OneSided},
                                                             {"waits-for-several", WaitsForSeveral},
                                                             {"configs", Configs},
                                                             {"future", Future},
                                                             {"rocm", Rocm},
                                                             {"versions", Versions},
                                                             {"no-device", NoDevice},
                                                             {"signal-lost", SignalLost},
                                                             {"stall2", [] { return Stall(2); }},
                                                             {"stall8", [] { return Stall(8); }}};
  const auto mode = modes.find(argv[1]);
  return mode != modes.end() ? mode->second() : 2;
}
