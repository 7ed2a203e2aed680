// Measures how a driver handles the recorder's markers, without NCCL and without the recorder.
//   facts machine               the GPU, as the driver names it
//   facts register FILE         whether host registration accepts a mapping of FILE (on tmpfs), and whether the GPU's
//                               writes arrive
//   facts killed FILE           writes a completed marker, starts an endless kernel with a marker behind it, prints
//                               "ready" and waits for SIGKILL
//   facts costs --ptx FILE      host time of a marker; time between dependent kernels with and without markers
//   facts beside --ptx FILE     whether a kernel runs while another stream's kernel has markers behind it
//   facts capture               which of the recorder's calls invalidate a running capture
// Prints one line of JSON for each result.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <random>

#include "programs.h"

namespace {

// Looked up as in the recorder: `_v2` first. The plain name is the first version of the function, and drivers before
// CUDA 11.7 have no other.
using Write64 = CUresult (*)(CUstream, CUdeviceptr, uint64_t, unsigned int);
Write64 FindWrite64() {
  void* found = dlsym(RTLD_DEFAULT, "cuStreamWriteValue64_v2");
  if (!found) found = dlsym(RTLD_DEFAULT, "cuStreamWriteValue64");
  if (!found) Die("dlsym(cuStreamWriteValue64)", 1, __FILE__, __LINE__);
  return reinterpret_cast<Write64>(found);
}

constexpr size_t kBytes = 1 << 20;
constexpr unsigned int kPortableMapped = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
constexpr uint64_t kSecond = 1000000000;

// Creates a shared mapping with reserved space, like that of a ring file.
uint64_t* Map(const char* path, int* fd) {
  *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (*fd < 0 || posix_fallocate(*fd, 0, kBytes) != 0) Die(path, errno, __FILE__, __LINE__);
  void* at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  if (at == MAP_FAILED) Die("mmap", errno, __FILE__, __LINE__);
  return static_cast<uint64_t*>(at);
}

CUdeviceptr Register(void* at) {
  CHECK(cuMemHostRegister(at, kBytes, kPortableMapped));
  CUdeviceptr device = 0;
  CHECK(cuMemHostGetDevicePointer(&device, at, 0));
  return device;
}

int Machine() {
  CHECK(cudaFree(nullptr));
  char name[256] = {}, pci[32] = {};
  int driver = 0, runtime = 0, devices = 0, major = 0, minor = 0, processors = 0, writes = 0;
  CHECK(cuDeviceGetName(name, sizeof(name), 0));
  CHECK(cuDeviceGetPCIBusId(pci, sizeof(pci), 0));
  CHECK(cuDriverGetVersion(&driver));
  CHECK(cudaRuntimeGetVersion(&runtime));
  CHECK(cudaGetDeviceCount(&devices));
  CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  CHECK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
  CHECK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  // Attribute 122 has different names in different versions of the header.
  cuDeviceGetAttribute(&writes, static_cast<CUdevice_attribute>(122), 0);
  std::printf(
      "{\"what\": \"machine\", \"gpu\": \"%s\", \"pci\": \"%s\", \"gpus\": %d, \"compute\": \"%d.%d\", "
      "\"multiprocessors\": %d, "
      "\"cuda_driver\": %d, \"cuda_runtime\": %d, \"writes_64_bits\": %d}\n",
      name, pci, devices, major, minor, processors, driver, runtime, writes);
  return 0;
}

int RegisterFile(const char* path) {
  CHECK(cudaFree(nullptr));
  int fd = -1;
  uint64_t* at = Map(path, &fd);
  const double begin = NowUs();
  const CUresult result = cuMemHostRegister(at, kBytes, kPortableMapped);
  const double end = NowUs();
  bool equal = false;
  CUdeviceptr device = 0;
  int pointer_result = -1, write_result = -1;
  uint64_t mapped = 0, through_file = 0;
  if (result == CUDA_SUCCESS) {
    pointer_result = cuMemHostGetDevicePointer(&device, at, 0);
    if (pointer_result == 0) {
      equal = device == reinterpret_cast<uintptr_t>(at);
      cudaStream_t stream;
      CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      write_result = FindWrite64()(stream, device + 4096, 0x1234567890abcdef, 0);
      CHECK(cudaStreamSynchronize(stream));
      mapped = __atomic_load_n(&at[4096 / 8], __ATOMIC_ACQUIRE);
      if (pread(fd, &through_file, 8, 4096) != 8) through_file = 0;
    }
  }
  const bool arrived = mapped == 0x1234567890abcdef && through_file == mapped;
  std::printf(
      "{\"what\": \"register\", \"result\": %d, \"pointer_result\": %d, \"write_result\": %d, \"same_address\": %s, "
      "\"arrived\": %s, \"us\": [%.1f]}\n",
      static_cast<int>(result), pointer_result, write_result, equal ? "true" : "false", arrived ? "true" : "false",
      end - begin);
  return 0;
}

int Killed(const char* path, const char* ptx) {
  const Kernels kernels(ptx);
  int fd = -1;
  uint64_t* at = Map(path, &fd);
  const CUdeviceptr device = Register(at);
  const Write64 write = FindWrite64();
  const Gate gate;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(write(stream, device, 1, 0));
  CHECK(cudaStreamSynchronize(stream));
  kernels.Spin(stream, gate.device, 30 * kSecond);
  CHECK(write(stream, device + 64, 7, 0));
  std::printf("ready\n");
  std::fflush(stdout);
  pause();
  return 0;
}

enum Between { kNothing, kWrite, kTwoWrites, kEvent, kTwoEvents, kTimedEvent, kTwoTimedEvents, kBetweens };
constexpr const char* kBetweenNames[] = {"nothing",    "one write",       "two writes",      "one event",
                                         "two events", "one timed event", "two timed events"};

struct Bench {
  explicit Bench(const char* ptx) : kernels(ptx) {
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&cell, 64));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&other, cudaEventDisableTiming));
    for (cudaEvent_t& event : timed) CHECK(cudaEventCreate(&event));
    void* at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) Die("mmap", errno, __FILE__, __LINE__);
    mark = Register(at);
    // The first launch of a kernel may load it, which waits for running work. So it must not come after the spinning
    // kernel.
    gate.Open();
    kernels.Tiny(a, cell);
    kernels.Spin(a, gate.device, kSecond);
    CHECK(cudaMemsetAsync(cell, 0, 64, a));
    CHECK(cudaDeviceSynchronize());
  }

  void Put(Between between, cudaStream_t stream) {
    ++ticket;
    switch (between) {
      case kTwoWrites: CHECK(write(stream, mark + 64, ticket, 0)); [[fallthrough]];
      case kWrite: CHECK(write(stream, mark, ticket, 0)); break;
      case kTwoEvents: CHECK(cudaEventRecord(other, stream)); [[fallthrough]];
      case kEvent: CHECK(cudaEventRecord(plain, stream)); break;
      // Like in the recorder, every operation has its own pair of events.
      case kTwoTimedEvents: CHECK(cudaEventRecord(timed[ticket * 2 % kTimed], stream)); [[fallthrough]];
      case kTimedEvent: CHECK(cudaEventRecord(timed[(ticket * 2 + 1) % kTimed], stream)); break;
      default: break;
    }
  }

  Kernels kernels;
  Write64 write = FindWrite64();
  Gate gate;
  cudaStream_t a = nullptr, b = nullptr;
  void* cell = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr, plain = nullptr, other = nullptr;
  static constexpr size_t kTimed = 512;
  cudaEvent_t timed[kTimed] = {};
  CUdeviceptr mark = 0;
  uint64_t ticket = 0;
};

int Costs(const char* ptx, int rounds) {
  Bench bench(ptx);
  std::mt19937 random(1);
  constexpr int kSteps = 150;  // a queue holds at least 1,024 entries, and the host must not wait for space
  std::vector<double> chain[kBetweens], host[kBetweens], launches;
  for (int round = -2; round < rounds; ++round) {  // two warm-up rounds
    Between order[] = {kNothing, kWrite, kTwoWrites, kEvent, kTwoEvents, kTimedEvent, kTwoTimedEvents};
    std::shuffle(std::begin(order), std::end(order), random);
    for (const Between between : order) {
      // Everything is queued before the gate opens, so that the GPU limits the speed and not the CPU.
      bench.gate.Close();
      bench.kernels.Spin(bench.a, bench.gate.device, 5 * kSecond);
      CHECK(cudaEventRecord(bench.begin, bench.a));
      double in_marks = 0;
      double in_launches = 0;
      for (int step = 0; step < kSteps; ++step) {
        const double before = NowUs();
        bench.kernels.Tiny(bench.a, bench.cell);
        const double between_them = NowUs();
        bench.Put(between, bench.a);
        in_marks += NowUs() - between_them;
        in_launches += between_them - before;
      }
      CHECK(cudaEventRecord(bench.end, bench.a));
      bench.gate.Open();
      CHECK(cudaStreamSynchronize(bench.a));
      float milliseconds = 0;
      CHECK(cudaEventElapsedTime(&milliseconds, bench.begin, bench.end));
      if (round < 0) continue;
      chain[between].push_back(milliseconds * 1e3 / kSteps);
      host[between].push_back(in_marks / kSteps);
      if (between == kNothing) launches.push_back(in_launches / kSteps);
    }
  }
  for (int i = 0; i < kBetweens; ++i) {
    PrintSamples("chain", std::string("\"between\": \"") + kBetweenNames[i] + "\", ", chain[i]);
    PrintSamples("host", std::string("\"between\": \"") + kBetweenNames[i] + "\", ", host[i]);
  }
  PrintSamples("launch", "", launches);
  unsigned long long done = 0;
  CHECK(cudaMemcpy(&done, bench.cell, sizeof(done), cudaMemcpyDeviceToHost));
  const auto expected = static_cast<unsigned long long>(kSteps) * (rounds + 2) * kBetweens;
  std::printf("{\"what\": \"chain is right\", \"ok\": %s}\n", done == expected ? "true" : "false");
  return 0;
}

// Stream b runs an endless kernel, followed by `count` markers. Stream a then gets a tiny kernel. Measures whether and
// when the tiny kernel runs.
int Beside(const char* ptx, int rounds) {
  Bench bench(ptx);
  for (const int count : {1, 4, 32}) {
    for (const Between between : {kNothing, kWrite, kEvent}) {
      int blocked = 0;
      std::vector<double> waits;
      for (int round = 0; round < rounds; ++round) {
        bench.gate.Close();
        bench.kernels.Spin(bench.b, bench.gate.device, 5 * kSecond);
        for (int i = 0; i < count; ++i) bench.Put(between, bench.b);
        const double begin = NowUs();
        bench.kernels.Tiny(bench.a, bench.cell);
        CHECK(cudaEventRecord(bench.begin, bench.a));
        cudaError_t state = cudaErrorNotReady;
        while (NowUs() - begin < 20000 && (state = cudaEventQuery(bench.begin)) == cudaErrorNotReady) {
        }
        const double waited = NowUs() - begin;
        if (state == cudaErrorNotReady) {
          ++blocked;
        } else {
          CHECK(state);
          waits.push_back(waited);
        }
        bench.gate.Open();
        CHECK(cudaDeviceSynchronize());
      }
      char extra[96];
      std::snprintf(extra, sizeof(extra), "\"behind\": \"%s\", \"count\": %d, \"rounds\": %d, \"blocked\": %d, ",
                    kBetweenNames[between], count, rounds, blocked);
      PrintSamples("beside", extra, waits);
    }
  }
  return 0;
}

// Calls each driver function of the recorder once, each in a separate capture. Reports the result, and whether the
// capture continues.
struct Called {
  CUstream stream, other;
  CUdeviceptr mark;
  CUevent made, recorded;
  CUcontext context;
};

template <typename... Parameters>
int ByName(const char* name, Parameters... parameters) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (!found) return -1;
  return reinterpret_cast<CUresult (*)(Parameters...)>(found)(parameters...);
}

struct CapturedCall {
  const char* name;
  int (*call)(Called*);
};
constexpr CapturedCall kCapturedCalls[] = {
    {"nothing", [](Called*) { return 0; }},
    {"cuStreamIsCapturing",
     [](Called* c) {
       int s = 0;
       return ByName("cuStreamIsCapturing", c->stream, &s);
     }},
    {"cuStreamGetCaptureInfo",
     [](Called* c) {
       int s = 0;
       uint64_t id = 0;
       return ByName("cuStreamGetCaptureInfo", c->stream, &s, &id);
     }},
    {"cuStreamGetId",
     [](Called* c) {
       unsigned long long id = 0;
       return ByName("cuStreamGetId", c->stream, &id);
     }},
    {"cuStreamGetId of another stream",
     [](Called* c) {
       unsigned long long id = 0;
       return ByName("cuStreamGetId", c->other, &id);
     }},
    {"cuStreamGetCtx",
     [](Called* c) {
       CUcontext x = nullptr;
       return ByName("cuStreamGetCtx", c->stream, &x);
     }},
    {"cuCtxGetCurrent",
     [](Called*) {
       CUcontext x = nullptr;
       return ByName("cuCtxGetCurrent", &x);
     }},
    {"cuCtxSetCurrent", [](Called* c) { return ByName("cuCtxSetCurrent", c->context); }},
    {"cuCtxGetDevice",
     [](Called*) {
       CUdevice d = 0;
       return ByName("cuCtxGetDevice", &d);
     }},
    {"cuCtxGetId",
     [](Called* c) {
       unsigned long long id = 0;
       return ByName("cuCtxGetId", c->context, &id);
     }},
    {"cuDevicePrimaryCtxRetain and Release",
     [](Called*) {
       CUcontext x = nullptr;
       const int result = ByName("cuDevicePrimaryCtxRetain", &x, CUdevice{0});
       return result != 0 ? result : ByName("cuDevicePrimaryCtxRelease_v2", CUdevice{0});
     }},
    {"cuMemHostGetDevicePointer",
     [](Called* c) {
       CUdeviceptr p = 0;
       return ByName("cuMemHostGetDevicePointer_v2", &p, reinterpret_cast<void*>(c->mark), 0u);
     }},
    {"cuEventCreate",
     [](Called*) {
       CUevent e = nullptr;
       return ByName("cuEventCreate", &e, 0u);
     }},
    {"cuEventQuery", [](Called* c) { return ByName("cuEventQuery", c->recorded); }},
    {"cuEventElapsedTime",
     [](Called* c) {
       float ms = 0;
       return ByName("cuEventElapsedTime", &ms, c->recorded, c->recorded);
     }},
    {"cuEventRecord on another stream", [](Called* c) { return ByName("cuEventRecord", c->made, c->other); }},
    {"cuStreamWriteValue64 on another stream",
     [](Called* c) { return static_cast<int>(FindWrite64()(c->other, c->mark, 1, 0)); }},
    {"cuStreamWriteValue64 on the stream",
     [](Called* c) { return static_cast<int>(FindWrite64()(c->stream, c->mark, 1, 0)); }},
};

int InCapture() {
  CHECK(cudaFree(nullptr));
  void* at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) Die("mmap", errno, __FILE__, __LINE__);
  Called called{};
  called.mark = Register(at);
  CHECK(cuCtxGetCurrent(&called.context));
  CHECK(cudaStreamCreateWithFlags(&called.stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&called.other, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&called.made));
  CHECK(cudaEventCreate(&called.recorded));
  CHECK(cudaEventRecord(called.recorded, called.other));
  CHECK(cudaStreamSynchronize(called.other));
  for (const bool relaxed : {false, true}) {
    for (const CapturedCall& one : kCapturedCalls) {
      CHECK(cudaStreamBeginCapture(called.stream, cudaStreamCaptureModeGlobal));
      CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
      if (relaxed) CHECK(cuThreadExchangeStreamCaptureMode(&mode));
      const int result = one.call(&called);
      if (relaxed) CHECK(cuThreadExchangeStreamCaptureMode(&mode));
      CUstreamCaptureStatus status{};
      const int asked = cuStreamIsCapturing(called.stream, &status);
      cudaGraph_t graph = nullptr;
      const int ended = cudaStreamEndCapture(called.stream, &graph);
      if (graph) cudaGraphDestroy(graph);
      std::printf(
          "{\"what\": \"capture\", \"call\": \"%s\", \"relaxed\": %s, \"result\": %d, \"spoilt\": %s, \"ended\": %d}\n",
          one.name, relaxed ? "true" : "false", result, asked != 0 || status != 1 || ended != 0 ? "true" : "false",
          ended);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const char* ptx = Option(argc, argv, "--ptx", "kernels.ptx");
  const int rounds = NumberOption(argc, argv, "--rounds", 30);
  if (what == "machine") return Machine();
  if (what == "register" && argc > 2) return RegisterFile(argv[2]);
  if (what == "killed" && argc > 2) return Killed(argv[2], ptx);
  if (what == "costs") return Costs(ptx, rounds);
  if (what == "beside") return Beside(ptx, rounds);
  if (what == "capture") return InCapture();
  std::fprintf(
      stderr,
      "usage: facts machine | register FILE | killed FILE | costs | beside | capture  [--ptx FILE] [--rounds N]\n");
  return 2;
}
