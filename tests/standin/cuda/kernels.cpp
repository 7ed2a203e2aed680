// Kernels of the stand-in driver. The CPU simulates the three kernels of tests/gpu/kernels.cu. Loading a module only
// reads the entry names of its PTX.
#include <cuda.h>
#include <string.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/standin/cuda/engine.h"

// Reads the parameter values at once, as a launch does, and returns what the stream will run.
using Played = std::function<void()> (*)(void** parameters);

struct CUfunc_st {
  std::string name;
  Played play;
};

struct CUmod_st {
  std::vector<std::unique_ptr<CUfunc_st>> functions;
};

namespace {

template <class T>
T Parameter(void** parameters, int index) {
  T value;
  memcpy(&value, parameters[index], sizeof(value));
  return value;
}

std::function<void()> Tiny(void** parameters) {
  auto* cell = Parameter<unsigned long long*>(parameters, 0);
  return [cell] { __atomic_store_n(cell, __atomic_load_n(cell, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED); };
}

std::function<void()> Spin(void** parameters) {
  auto* flag = Parameter<unsigned int*>(parameters, 0);
  const auto limit = std::chrono::nanoseconds(Parameter<unsigned long long>(parameters, 1));
  return [flag, limit] {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (__atomic_load_n(flag, __ATOMIC_RELAXED) == 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  };
}

std::function<void()> Gemm(void** parameters) {
  const auto* a = Parameter<const float*>(parameters, 0);
  const auto* b = Parameter<const float*>(parameters, 1);
  auto* c = Parameter<float*>(parameters, 2);
  const size_t n = Parameter<unsigned int>(parameters, 3);
  return [a, b, c, n] {
    for (size_t row = 0; row < n; ++row) {
      for (size_t column = 0; column < n; ++column) {
        float sum = 0;
        for (size_t i = 0; i < n; ++i) {
          sum += a[row * n + i] * b[i * n + column];
        }
        c[row * n + column] = sum;
      }
    }
  };
}

constexpr struct {
  const char* name;
  Played play;
} kKernels[] = {{"lockstep_tiny", Tiny}, {"lockstep_spin", Spin}, {"lockstep_gemm", Gemm}};

}  // namespace

extern "C" STANDIN_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (!module || !image) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const auto* text = static_cast<const char*>(image);
  auto made = std::make_unique<CUmod_st>();
  for (const auto& kernel : kKernels) {
    const std::string entry = std::string(".entry ") + kernel.name + "(";
    if (strstr(text, entry.c_str())) {
      made->functions.push_back(std::make_unique<CUfunc_st>(CUfunc_st{kernel.name, kernel.play}));
    }
  }
  *module = made.release();
  return CUDA_SUCCESS;
}

extern "C" STANDIN_EXPORT CUresult cuModuleUnload(CUmodule module) {
  delete module;
  return CUDA_SUCCESS;
}

extern "C" STANDIN_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (!function || !module || !name) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& known : module->functions) {
    if (known->name == name) {
      *function = known.get();
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_NOT_FOUND;
}

extern "C" STANDIN_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                                  unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                                  unsigned int block_z, unsigned int, CUstream handle,
                                                  void** parameters, void**) {
  if (!function || !parameters || grid_x * grid_y * grid_z == 0 || block_x * block_y * block_z == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const auto stream = standin::FindStream(handle);
  if (!stream || standin::StreamDevice(*stream) != standin::BoundDevice()) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  standin::Enqueue(stream, function->play(parameters));
  return CUDA_SUCCESS;
}
