// Errors, buffers and element values: what trainsim needs on top of the CUDA runtime and NCCL.
#ifndef LOCKSTEP_TESTS_WORKLOAD_DEVICE_H_
#define LOCKSTEP_TESTS_WORKLOAD_DEVICE_H_

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>

namespace trainsim {

// Prints "trainsim: rank R: WHAT: WHY" and exits 1: after a failed call the job cannot continue.
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

// Owned memory of the device or pinned memory of the host. Move only.
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
// Whole numbers of a few hundred are exact in every type but the 8-bit floats, which trainsim does not use.
void Encode(ncclDataType_t type, double value, void* out);
double Decode(ncclDataType_t type, const void* in);
// How far a reduction's result may be from the exact one: nothing, but for types of few bits.
double Tolerance(ncclDataType_t type, double expected);

// A rank's values in a step: 1, 2 or 3, so that sums identify ranks and steps.
double BaseValue(uint64_t seed, int step, int rank);
// Buffers hold one value per group member's share, so that results identify shares.
inline double ShareValue(double base, int64_t share) {
  return base + static_cast<double>(share % 4);
}

}  // namespace trainsim

#endif  // LOCKSTEP_TESTS_WORKLOAD_DEVICE_H_
