// Shared by the programs of the life-cycle tests: opening any version of NCCL, devices, and copies of the rings as
// they are at one moment.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace lives {

inline std::string g_runtime = "cuda";

template <typename F>
F Look(const std::string& name) {
  return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name.c_str()));
}

inline void Die(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
  _exit(1);
}

template <typename F>
F Must(const std::string& name) {
  const F found = Look<F>(name);
  if (found == nullptr) Die("no " + name);
  return found;
}

// Looks up a function in the global scope, where a preloaded library comes first, as for a linked application.
#define NCCL(name) lives::Must<decltype(&name)>(#name)
#define CHECK(call)                                                                                        \
  do {                                                                                                     \
    const int check_result = static_cast<int>(call);                                                       \
    if (check_result != 0)                                                                                 \
      lives::Die("line " + std::to_string(__LINE__) + ": " #call " gave " + std::to_string(check_result)); \
  } while (0)
#define EXPECT(condition)                                                               \
  do {                                                                                  \
    if (!(condition)) lives::Die("line " + std::to_string(__LINE__) + ": " #condition); \
  } while (0)

// Calls the runtime's function under CUDA's or HIP's name and returns its result.
template <typename... Arguments>
int Runtime(const char* name, Arguments... arguments) {
  return Must<int (*)(Arguments...)>(g_runtime + name)(arguments...);
}

inline void Say(const char* what, int result) {
  std::printf("%s %d\n", what, result);
  std::fflush(stdout);
}

// Copies the rings to the folder `name`, where the tests read them. Does nothing without a recorder.
inline void Snapshot(const char* name) {
  const char* rings = std::getenv("LOCKSTEP_DIR");
  const char* copies = std::getenv("LIVES_COPIES");
  if (rings == nullptr || copies == nullptr || !std::filesystem::exists(rings)) return;
  const std::string to = std::string(copies) + "/" + name;
  std::filesystem::create_directories(to);
  std::filesystem::copy(rings, to, std::filesystem::copy_options::recursive);
}

template <typename F>
void Await(F done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(50);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) Die("the awaited condition did not occur");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

struct Device {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* send = nullptr;
  float* recv = nullptr;
};

constexpr size_t kCount = 64;

inline std::vector<Device> Devices(int count) {
  std::vector<Device> devices(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    Device& d = devices[static_cast<size_t>(i)];
    CHECK(Runtime("SetDevice", i));
    CHECK(Runtime("StreamCreate", &d.stream));
    CHECK(Runtime("Malloc", reinterpret_cast<void**>(&d.send), kCount * sizeof(float) * 16));
    CHECK(Runtime("Malloc", reinterpret_cast<void**>(&d.recv), kCount * sizeof(float) * 16));
  }
  return devices;
}

inline std::vector<Device> InitAll(int count) {
  std::vector<Device> devices = Devices(count);
  std::vector<ncclComm_t> comms(static_cast<size_t>(count));
  CHECK(NCCL(ncclCommInitAll)(comms.data(), count, nullptr));
  for (size_t i = 0; i < comms.size(); ++i) devices[i].comm = comms[i];
  return devices;
}

inline int Reduce(const Device& d, ncclComm_t comm) {
  return NCCL(ncclAllReduce)(d.send, d.recv, kCount, ncclFloat, ncclSum, comm, d.stream);
}

inline void Synchronize(const std::vector<Device>& devices) {
  for (size_t i = 0; i < devices.size(); ++i) {
    CHECK(Runtime("SetDevice", static_cast<int>(i)));
    CHECK(Runtime("StreamSynchronize", devices[i].stream));
  }
}

inline ncclResult_t State(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  CHECK(NCCL(ncclCommGetAsyncError)(comm, &state));
  return state;
}

}  // namespace lives
