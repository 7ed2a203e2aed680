// Calls every public function of all NCCL versions, with any version loaded. With a recorder, all names exist, and a
// function missing from the loaded NCCL returns ncclInvalidUsage.
#include "recorder/testing/lives_host.h"

#include <nccl_device.h>

#include <cstring>

using namespace lives;

namespace {

void* g_library;

// Prints the result and whether the library has the function. Like a linked program, calls the recorder's function.
template <typename F, typename... Arguments>
void Try(F, const char* name, Arguments... arguments) {
  const bool has = dlsym(g_library, name) != nullptr;
  const F function = Look<F>(name);
  if (has) {
    std::printf("%s: %d\n", name, static_cast<int>(function(arguments...)));
  } else if (function != nullptr) {
    std::printf("%s missing: %d\n", name, static_cast<int>(function(arguments...)));
  } else {
    std::printf("%s missing: %d\n", name, static_cast<int>(ncclInvalidUsage));
  }
}
#define TRY(name, ...) Try(static_cast<decltype(&name)>(nullptr), #name __VA_OPT__(, ) __VA_ARGS__)

template <typename F>
F OrNull(const char* name) {
  return reinterpret_cast<F>(dlsym(g_library, name)) != nullptr ? Look<F>(name) : nullptr;
}

}  // namespace

int Versions() {
  const char* path = std::getenv("LIVES_NCCL");
  g_library = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  EXPECT(g_library != nullptr);
  int version = 0;
  CHECK(NCCL(ncclGetVersion)(&version));
  std::printf("version %d, %s\n", version, NCCL(ncclGetErrorString)(ncclInvalidUsage));
  std::vector<Device> devices = Devices(2);
  Device& d = devices[0];
  ncclUniqueId id;
  CHECK(NCCL(ncclGetUniqueId)(&id));
  CHECK(NCCL(ncclCommInitRank)(&d.comm, 1, id, 0));
  int number = 0;
  TRY(ncclCommCount, d.comm, &number);
  TRY(ncclCommUserRank, d.comm, &number);
  TRY(ncclCommCuDevice, d.comm, &number);
  ncclResult_t state = ncclSuccess;
  TRY(ncclCommGetAsyncError, d.comm, &state);
  TRY(ncclAllReduce, d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream);
  TRY(ncclAllReduce, d.send, d.recv, kCount, ncclFloat, ncclAvg, d.comm, d.stream);
  TRY(ncclAllGather, d.send, d.recv, kCount, ncclBfloat16, d.comm, d.stream);
  TRY(ncclAllGather, d.send, d.recv, kCount, ncclFloat8e5m2, d.comm, d.stream);
  TRY(ncclAllGather, d.send, d.recv, kCount, static_cast<ncclDataType_t>(12), d.comm, d.stream);
  TRY(ncclReduceScatter, d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream);
  TRY(ncclReduce, d.send, d.recv, kCount, ncclFloat, ncclSum, 0, d.comm, d.stream);
  TRY(ncclBroadcast, d.send, d.recv, kCount, ncclFloat, 0, d.comm, d.stream);
  TRY(ncclBcast, d.recv, kCount, ncclFloat, 0, d.comm, d.stream);
  TRY(ncclAlltoAll, d.send, d.recv, kCount, ncclFloat, d.comm, d.stream);
  TRY(ncclGather, d.send, d.recv, kCount, ncclFloat, 0, d.comm, d.stream);
  TRY(ncclScatter, d.send, d.recv, kCount, ncclFloat, 0, d.comm, d.stream);
  ncclCollConfig_t of_call = NCCL_COLLCONFIG_INITIALIZER;
  TRY(ncclAllReduceConfig, d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream, &of_call);
  TRY(ncclReduceScatterConfig, d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream, &of_call);
  TRY(ncclReduceConfig, d.send, d.recv, kCount, ncclFloat, ncclSum, 0, d.comm, d.stream, &of_call);
  TRY(ncclAllGatherConfig, d.send, d.recv, kCount, ncclFloat, d.comm, d.stream, &of_call);
  TRY(ncclBroadcastConfig, d.send, d.recv, kCount, ncclFloat, 0, d.comm, d.stream, &of_call);
  TRY(ncclAlltoAllConfig, d.send, d.recv, kCount, ncclFloat, d.comm, d.stream, &of_call);
  TRY(ncclGatherConfig, d.send, d.recv, kCount, ncclFloat, 0, d.comm, d.stream, &of_call);
  TRY(ncclScatterConfig, d.send, d.recv, kCount, ncclFloat, 0, d.comm, d.stream,
      static_cast<const ncclCollConfig_t*>(nullptr));
  of_call.magic = 1;
  TRY(ncclAllReduceConfig, d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream, &of_call);
  TRY(ncclSetEncryption, static_cast<const ncclEncryptionConfig_t*>(nullptr));
  TRY(ncclGroupStart);
  TRY(ncclSend, d.send, kCount, ncclFloat, 0, d.comm, d.stream);
  TRY(ncclRecv, d.recv, kCount, ncclFloat, 0, d.comm, d.stream);
  TRY(ncclGroupEnd);
  ncclRedOp_t op = ncclSum;
  float factor = 2;
  TRY(ncclRedOpCreatePreMulSum, &op, static_cast<void*>(&factor), ncclFloat, ncclScalarHostImmediate, d.comm);
  TRY(ncclRedOpDestroy, op, d.comm);
  ncclSimInfo_t simulated = NCCL_SIM_INFO_INITIALIZER;
  TRY(ncclGroupStart);
  TRY(ncclGroupSimulateEnd, &simulated);
  if (dlsym(g_library, "ncclGroupSimulateEnd") == nullptr) TRY(ncclGroupEnd);
  void* memory = nullptr;
  void* registration = nullptr;
  TRY(ncclMemAlloc, &memory, size_t{8192});
  TRY(ncclCommRegister, d.comm, static_cast<void*>(d.send), size_t{256}, &registration);
  TRY(ncclCommDeregister, d.comm, registration);
  ncclWindow_t window = nullptr;
  TRY(ncclCommWindowRegister, d.comm, static_cast<void*>(d.send), size_t{4096}, &window, 64);
  TRY(ncclCommWindowDeregister, d.comm, window);
  void* pointer = nullptr;
  TRY(ncclWinGetUserPtr, d.comm, window, &pointer);
  TRY(ncclPutSignal, d.send, kCount, ncclFloat, 5, window, size_t{0}, 0, 0, 0u, d.comm, d.stream);
  TRY(ncclSignal, 0, 0, 0, 0u, d.comm, d.stream);
  ncclWaitSignalDesc_t wait{1, 0, 0, 0};
  TRY(ncclWaitSignal, 1, &wait, d.comm, d.stream);
  TRY(ncclMemFree, memory);
  uint64_t bytes = 0;
  TRY(ncclCommMemStats, d.comm, ncclStatGpuMemTotal, &bytes);
  ncclCommProperties_t properties = {};
  properties.size = sizeof(properties);
  properties.magic = NCCL_COMM_PROPERTIES_MAGIC;
  properties.version = static_cast<unsigned>(NCCL_VERSION_CODE);
  TRY(ncclCommQueryProperties, d.comm, &properties);
  if (dlsym(g_library, "ncclCommQueryProperties") != nullptr) EXPECT(properties.nRanks == 1 && properties.rank == 0);
  ncclParamHandle_t parameter = nullptr;
  TRY(ncclParamBind, &parameter, "NCCL_DEBUG");
  int64_t value = 0;
  TRY(ncclParamGetI64, parameter, &value);
  const char* text = nullptr;
  TRY(ncclParamGetStr, parameter, &text);
  // These functions pass a structure by value, as argument and as result.
  if (const auto world = OrNull<decltype(&ncclTeamWorld)>("ncclTeamWorld")) {
    const ncclTeam_t team = world(d.comm);
    std::printf("team %d %d %d, member 0 is rank %d\n", team.nRanks, team.rank, team.stride,
                NCCL(ncclTeamRankToWorld)(d.comm, team, 0));
  } else if (const auto lacking = Look<decltype(&ncclTeamWorld)>("ncclTeamWorld")) {
    const ncclTeam_t team = lacking(d.comm);
    EXPECT(team.nRanks == 0 && team.rank == 0 && team.stride == 0);
  }
  // These functions have more arguments than there are registers, including a structure.
  if (const auto info_of = OrNull<decltype(&ncclGetCftDeviceLeInfo)>("ncclGetCftDeviceLeInfo")) {
    ncclCftLeId le = 0;
    size_t offset = 0;
    char any = 0;
    CHECK(info_of(reinterpret_cast<ncclWindow_t>(&any), 1000, 7, ncclTeam_t{4, 3, 11}, &le, &offset));
    EXPECT(le == 80 && offset == 1004);
  }
  TRY(ncclCommSuspend, d.comm, NCCL_SUSPEND_MEM);
  TRY(ncclCommResume, d.comm);
  ncclComm_t child = nullptr, other = nullptr;
  TRY(ncclCommSplit, d.comm, 0, 0, &child, static_cast<ncclConfig_t*>(nullptr));
  int excluded[1] = {0};
  TRY(ncclCommShrink, d.comm, excluded, 1, &other, static_cast<ncclConfig_t*>(nullptr), 0);
  ncclUniqueId more{};
  TRY(ncclCommGetUniqueId, d.comm, &more);
  TRY(ncclCommGrow, static_cast<ncclComm_t>(nullptr), 1, static_cast<const ncclUniqueId*>(nullptr), 0, &other,
      static_cast<ncclConfig_t*>(nullptr));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (dlsym(g_library, "ncclCommInitRankConfig") != nullptr) {
    ncclUniqueId second;
    CHECK(NCCL(ncclGetUniqueId)(&second));
    TRY(ncclCommInitRankConfig, &other, 1, second, 0, &config);
    CHECK(NCCL(ncclCommDestroy)(other));
  } else {
    TRY(ncclCommInitRankConfig, &other, 1, id, 0, &config);
  }
  TRY(ncclCommInitRankScalable, &other, 1, 7, 1, &id, &config);
  CHECK(Runtime("StreamSynchronize", d.stream));
  Snapshot("used");
  TRY(ncclCommFinalize, child);
  CHECK(NCCL(ncclCommDestroy)(child));
  TRY(ncclCommRevoke, d.comm, 0);
  TRY(ncclCommAbort, d.comm);
  TRY(ncclCommDestroy, static_cast<ncclComm_t>(nullptr));
  return 0;
}
