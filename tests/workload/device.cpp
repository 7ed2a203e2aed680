#include "tests/workload/device.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace trainsim {
namespace {

int message_rank = -1;

uint32_t BitsOf(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Truncates the value; small values become zero. Exact for the whole numbers used here.
uint16_t ToHalf(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127 + 15;
  if (exponent <= 0) return static_cast<uint16_t>(sign);
  if (exponent >= 31) return static_cast<uint16_t>(sign | 0x7c00);
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(exponent) << 10 | (bits >> 13 & 0x3ff));
}

float FromHalf(uint16_t half) {
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  const int exponent = half >> 10 & 0x1f;
  const int fraction = half & 0x3ff;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

template <typename T>
void Store(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
}

template <typename T>
T Load(const void* in) {
  T value;
  std::memcpy(&value, in, sizeof value);
  return value;
}

}  // namespace

void SetRankForMessages(int rank) { message_rank = rank; }

void FailCall(const char* what, const char* why, const char* file, int line) {
  std::fprintf(stderr, "trainsim: rank %d: %s failed: %s (%s:%d)\n", message_rank, what, why, file, line);
  std::fflush(nullptr);
  // No destructors run, because they would wait for other threads inside the runtime.
  std::_Exit(1);
}

Memory::Memory(Place place, size_t size) : place_(place), size_(size) {
  void* memory = nullptr;
  if (place == Place::kDevice) {
    CUDA_OK(cudaMalloc(&memory, size));
  } else {
    CUDA_OK(cudaMallocHost(&memory, size));
  }
  data_ = static_cast<char*>(memory);
}

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this != &other) {
    Free();
    place_ = other.place_;
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void Memory::Free() {
  if (data_ == nullptr) return;
  if (place_ == Place::kDevice) {
    CUDA_OK(cudaFree(data_));
  } else {
    CUDA_OK(cudaFreeHost(data_));
  }
  data_ = nullptr;
}

size_t SizeOf(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 4;
  }
}

void Encode(ncclDataType_t type, double value, void* out) {
  switch (type) {
    case ncclUint8: return Store(out, static_cast<uint8_t>(value));
    case ncclInt32: return Store(out, static_cast<int32_t>(value));
    case ncclInt64: return Store(out, static_cast<int64_t>(value));
    case ncclFloat16: return Store(out, ToHalf(static_cast<float>(value)));
    case ncclBfloat16: return Store(out, static_cast<uint16_t>(BitsOf(static_cast<float>(value)) >> 16));
    case ncclFloat64: return Store(out, value);
    default: return Store(out, static_cast<float>(value));
  }
}

double Decode(ncclDataType_t type, const void* in) {
  switch (type) {
    case ncclUint8: return Load<uint8_t>(in);
    case ncclInt32: return Load<int32_t>(in);
    case ncclInt64: return static_cast<double>(Load<int64_t>(in));
    case ncclFloat16: return FromHalf(Load<uint16_t>(in));
    case ncclBfloat16: {
      const uint32_t bits = static_cast<uint32_t>(Load<uint16_t>(in)) << 16;
      return Load<float>(&bits);
    }
    case ncclFloat64: return Load<double>(in);
    default: return Load<float>(in);
  }
}

double Tolerance(ncclDataType_t type, double expected) {
  switch (type) {
    case ncclBfloat16: return std::abs(expected) <= 256 ? 0 : std::abs(expected) / 32;
    case ncclFloat16: return std::abs(expected) <= 2048 ? 0 : std::abs(expected) / 256;
    case ncclFloat32: return std::abs(expected) * 1e-6;
    case ncclFloat64: return std::abs(expected) * 1e-12;
    default: return 0;
  }
}

double BaseValue(uint64_t seed, int step, int rank) {
  uint64_t mixed = seed * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(step) * 0xbf58476d1ce4e5b9ULL +
                   static_cast<uint64_t>(rank) * 0x94d049bb133111ebULL;
  mixed ^= mixed >> 31;
  mixed *= 0xd6e8feb86659fd93ULL;
  mixed ^= mixed >> 32;
  return 1.0 + static_cast<double>(mixed % 3);
}

}  // namespace trainsim
