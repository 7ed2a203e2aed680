// Shared by the measuring programs: CHECK, which prints the failed line and exits, a clock, the kernels, and samples as
// JSON lines.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

inline void Die(const char* what, int result, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: %s gave %d\n", file, line, what, result);
  std::fflush(nullptr);
  _exit(1);
}
#define CHECK(call)                                                      \
  do {                                                                   \
    const int check_result = static_cast<int>(call);                     \
    if (check_result != 0) Die(#call, check_result, __FILE__, __LINE__); \
  } while (0)

inline double NowUs() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the VALUE of "--name VALUE" in the arguments, or `otherwise`.
inline const char* Option(int argc, char** argv, const char* name, const char* otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  }
  return otherwise;
}

inline int NumberOption(int argc, char** argv, const char* name, int otherwise) {
  const char* text = Option(argc, argv, name, nullptr);
  return text ? std::atoi(text) : otherwise;
}

// Prints {"what": "...", EXTRA, "us": [...]}. `extra` is empty, or JSON members with a comma at the end.
inline void PrintSamples(const std::string& what, const std::string& extra, const std::vector<double>& samples) {
  std::printf("{\"what\": \"%s\", %s\"us\": [", what.c_str(), extra.c_str());
  for (size_t i = 0; i < samples.size(); ++i) std::printf("%s%.3f", i ? "," : "", samples[i]);
  std::printf("]}\n");
  std::fflush(stdout);
}

class Kernels {
 public:
  // Create it while the device that runs the kernels is current.
  explicit Kernels(const char* path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    if (text.str().empty()) Die(path, 2, __FILE__, __LINE__);
    CHECK(cudaFree(nullptr));  // makes the context current
    CHECK(cuModuleLoadData(&module_, text.str().c_str()));
    CHECK(cuModuleGetFunction(&tiny_, module_, "lockstep_tiny"));
    CHECK(cuModuleGetFunction(&spin_, module_, "lockstep_spin"));
    CHECK(cuModuleGetFunction(&gemm_, module_, "lockstep_gemm"));
  }

  void Tiny(cudaStream_t stream, void* cell) const {
    void* parameters[] = {&cell};
    CHECK(cuLaunchKernel(tiny_, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  }

  void Spin(cudaStream_t stream, const void* flag, uint64_t limit_ns) const {
    void* parameters[] = {&flag, &limit_ns};
    CHECK(cuLaunchKernel(spin_, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  }

  // `n` is a multiple of 16.
  void Gemm(cudaStream_t stream, const float* a, const float* b, float* c, unsigned int n) const {
    void* parameters[] = {&a, &b, &c, &n};
    CHECK(cuLaunchKernel(gemm_, n / 16, n / 16, 1, 16, 16, 1, 0, stream, parameters, nullptr));
  }

 private:
  CUmodule module_ = nullptr;
  CUfunction tiny_ = nullptr, spin_ = nullptr, gemm_ = nullptr;
};

// A word in pinned memory that the host sets to end a spinning kernel.
struct Gate {
  Gate() {
    CHECK(cudaHostAlloc(reinterpret_cast<void**>(&host), 64, cudaHostAllocMapped | cudaHostAllocPortable));
    CHECK(cudaHostGetDevicePointer(&device, host, 0));
    Close();
  }
  void Close() const { __atomic_store_n(host, 0u, __ATOMIC_SEQ_CST); }
  void Open() const { __atomic_store_n(host, 1u, __ATOMIC_SEQ_CST); }

  unsigned int* host = nullptr;
  void* device = nullptr;
};
