// Errors, buffers and element values for trainsim.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>

namespace trainsim {

// Prints "trainsim: rank R: WHAT failed: WHY (FILE:LINE)" and exits with status 1.
[[noreturn]] void FailCall(const char* what, const char* why, const char* file, int line);
void SetRankForMessages(int rank);

#define CUDA_OK(call)                                                                                           \
  do {                                                                                                          \
    cudaError_t cuda_ok_ = (call);                                                                              \
    if (cuda_ok_ != cudaSuccess) ::trainsim::FailCall(#call, cudaGetErrorString(cuda_ok_), __FILE__, __LINE__); \
  } while (false)

#define NCCL_OK(call)                                                                                           \
  do {                                                                                                          \
    ncclResult_t nccl_ok_ = (call);                                                                             \
    if (nccl_ok_ != ncclSuccess) ::trainsim::FailCall(#call, ncclGetErrorString(nccl_ok_), __FILE__, __LINE__); \
  } while (false)

// Owned device memory or pinned host memory. Move only.
class Memory {
 public:
  enum class Place { kDevice, kPinned };
  Memory() = default;
  Memory(Place place, size_t size);
  ~Memory() { Free(); }
  Memory(Memory&& other) noexcept { *this = static_cast<Memory&&>(other); }
  Memory& operator=(Memory&& other) noexcept;

  char* data() const { return data_; }
  size_t size() const { return size_; }
  void Free();

 private:
  Place place_ = Place::kDevice;
  char* data_ = nullptr;
  size_t size_ = 0;
};

size_t SizeOf(ncclDataType_t type);
// Encodes a value, for the types that trainsim uses. Whole numbers up to 255 are exact in all of them.
void Encode(ncclDataType_t type, double value, void* out);
double Decode(ncclDataType_t type, const void* in);
// Returns the allowed difference between the result of a reduction and the exact result. It is 0 for integers, and for
// 16-bit floats as long as they represent all whole numbers exactly.
double Tolerance(ncclDataType_t type, double expected);

// Returns a rank's value in a step: 1, 2 or 3. Sums differ between ranks and steps.
double BaseValue(uint64_t seed, int step, int rank);
// Each member's share of a buffer has a different value, so that results show which share arrived.
inline double ShareValue(double base, int64_t share) { return base + static_cast<double>(share % 4); }

}  // namespace trainsim
