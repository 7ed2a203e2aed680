// Calls NCCL and the CUDA runtime on a machine without a GPU, with right and wrong arguments, and prints each result.
// With the recorder preloaded, the output must not change.
//   real_calls [LIBNCCL LIBCUDART]   with arguments: opens the libraries itself and looks up functions with dlsym
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

namespace {

void* g_nccl;
void* g_runtime;

template <class F>
F* Find(F* linked, const char* name, bool runtime = false) {
  if (!g_nccl) return linked;
  void* found = dlsym(runtime ? g_runtime : g_nccl, name);
  if (!found) std::printf("%s not found\n", name);
  return reinterpret_cast<F*>(found);
}
#define NCCL(name) Find(&name, #name)
#define CUDA(name) Find(&name, #name, true)

template <class Result>
void Say(const char* what, Result result) {
  std::printf("%s: %d, errno %s\n", what, static_cast<int>(result), errno == 77 ? "kept" : "set");
  errno = 77;
}

void Calls() {
  int version = 0;
  errno = 77;
  Say("ncclGetVersion", NCCL(ncclGetVersion)(&version));
  std::printf("version %d\n", version);
  Say("ncclGetVersion(null)", NCCL(ncclGetVersion)(nullptr));
  std::printf("%s | %s\n", NCCL(ncclGetErrorString)(ncclInvalidUsage),
              NCCL(ncclGetErrorString)(static_cast<ncclResult_t>(99)));
  int device = -5;
  Say("cudaGetDevice", CUDA(cudaGetDevice)(&device));
  Say("cudaGetDeviceCount", CUDA(cudaGetDeviceCount)(&device));
  Say("cudaDeviceSynchronize", CUDA(cudaDeviceSynchronize)());
  Say("cudaStreamSynchronize", CUDA(cudaStreamSynchronize)(nullptr));
  cudaStream_t stream = nullptr;
  Say("cudaStreamCreate", CUDA(cudaStreamCreate)(&stream));
  cudaEvent_t event = nullptr;
  Say("cudaEventCreate", CUDA(cudaEventCreateWithFlags)(&event, cudaEventDisableTiming));
  void* memory = nullptr;
  Say("cudaMalloc", Find(static_cast<cudaError_t (*)(void**, size_t)>(&cudaMalloc), "cudaMalloc", true)(&memory, 4096));

  ncclUniqueId ids[2] = {};
  Say("ncclGetUniqueId", NCCL(ncclGetUniqueId)(&ids[0]));
  Say("ncclGetUniqueId", NCCL(ncclGetUniqueId)(&ids[1]));
  std::printf("ids differ: %d\n", std::memcmp(&ids[0], &ids[1], sizeof(ids[0])) != 0);
  Say("ncclGetUniqueId(null)", NCCL(ncclGetUniqueId)(nullptr));

  ncclComm_t comm = nullptr;
  Say("ncclCommInitRank", NCCL(ncclCommInitRank)(&comm, 1, ids[0], 0));
  std::printf("no communicator: %d, %s\n", comm == nullptr, NCCL(ncclGetLastError)(nullptr));
  Say("ncclCommInitRank, no such rank", NCCL(ncclCommInitRank)(&comm, 2, ids[0], 7));
  Say("ncclCommInitRank(null)", NCCL(ncclCommInitRank)(nullptr, 1, ids[0], 0));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  Say("ncclCommInitRankConfig", NCCL(ncclCommInitRankConfig)(&comm, 1, ids[1], 0, &config));
  const int devices[] = {0, 1};
  ncclComm_t comms[2] = {};
  Say("ncclCommInitAll", NCCL(ncclCommInitAll)(comms, 2, devices));

  float buffer[16] = {};
  Say("ncclAllReduce(null)", NCCL(ncclAllReduce)(buffer, buffer, 16, ncclFloat, ncclSum, nullptr, nullptr));
  Say("ncclBcast(null)", NCCL(ncclBcast)(buffer, 16, ncclFloat, 0, nullptr, nullptr));
  Say("ncclGroupStart", NCCL(ncclGroupStart)());
  Say("ncclAllReduce(null) in a group", NCCL(ncclAllReduce)(buffer, buffer, 16, ncclFloat, ncclSum, nullptr, nullptr));
  Say("ncclSend(null) in a group", NCCL(ncclSend)(buffer, 16, ncclFloat, 0, nullptr, nullptr));
  Say("ncclGroupEnd", NCCL(ncclGroupEnd)());
  Say("ncclGroupEnd without a start", NCCL(ncclGroupEnd)());
  Say("ncclGroupStart", NCCL(ncclGroupStart)());
  Say("ncclGroupStart", NCCL(ncclGroupStart)());
  Say("ncclCommInitRank in a group", NCCL(ncclCommInitRank)(&comm, 1, ids[1], 0));
  Say("ncclGroupEnd", NCCL(ncclGroupEnd)());
  Say("ncclGroupEnd", NCCL(ncclGroupEnd)());
  int value = 0;
  ncclResult_t state = ncclSuccess;
  Say("ncclCommCount(null)", NCCL(ncclCommCount)(nullptr, &value));
  Say("ncclCommGetAsyncError(null)", NCCL(ncclCommGetAsyncError)(nullptr, &state));
  Say("ncclCommSplit(null)", NCCL(ncclCommSplit)(nullptr, 0, 0, &comm, nullptr));
  Say("ncclCommFinalize(null)", NCCL(ncclCommFinalize)(nullptr));
  Say("ncclCommDestroy(null)", NCCL(ncclCommDestroy)(nullptr));
  Say("ncclCommAbort(null)", NCCL(ncclCommAbort)(nullptr));
  Say("ncclMemFree(null)", NCCL(ncclMemFree)(nullptr));
  ncclRedOp_t operation = ncclSum;
  float scalar = 2;
  Say("ncclRedOpCreatePreMulSum(null)",
      NCCL(ncclRedOpCreatePreMulSum)(&operation, &scalar, ncclFloat, ncclScalarHostImmediate, nullptr));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) {
    g_nccl = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    g_runtime = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (!g_nccl || !g_runtime) {
      std::printf("%s\n", dlerror());
      return 1;
    }
  }
  Calls();
  std::thread(Calls).join();
  return 0;
}
