// Compares the driver's prototypes in the recorder with NVIDIA's header, if it is installed.
#include <gtest/gtest.h>

#include <type_traits>

#include "recorder/base/driver.h"

#if LOCKSTEP_HAS_REAL_CUDA
#include <cuda.h>
#endif

namespace lockstep::recorder {
namespace {

#if LOCKSTEP_HAS_REAL_CUDA

// Whether both types are passed in the same way: both are pointers, or both are integers of the same size. A device
// address counts as an integer.
template <typename A, typename B>
constexpr bool kPassedAlike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

template <typename Ours, typename Theirs>
struct Alike;
template <typename R, typename... A, typename S, typename... B>
struct Alike<R (*)(A...), S (*)(B...)> {
  static constexpr bool Check() {
    if constexpr (sizeof...(A) != sizeof...(B)) {
      return false;
    } else {
      return sizeof(R) == sizeof(S) && (kPassedAlike<A, B> && ...);
    }
  }
};

#define ALIKE(FIELD, FUNCTION) \
  static_assert(Alike<decltype(Driver::FIELD), decltype(&FUNCTION)>::Check(), #FUNCTION " is another function")
ALIKE(write64, cuStreamWriteValue64);
ALIKE(is_capturing, cuStreamIsCapturing);
ALIKE(host_register, cuMemHostRegister);
ALIKE(host_pointer, cuMemHostGetDevicePointer);
ALIKE(capture_mode, cuThreadExchangeStreamCaptureMode);
ALIKE(get_current, cuCtxGetCurrent);
ALIKE(set_current, cuCtxSetCurrent);
ALIKE(stream_context, cuStreamGetCtx);
ALIKE(driver_version, cuDriverGetVersion);
ALIKE(device_uuid, cuDeviceGetUuid);
ALIKE(pci_id, cuDeviceGetPCIBusId);
ALIKE(attribute, cuDeviceGetAttribute);
ALIKE(stream_id, cuStreamGetId);
ALIKE(context_id, cuCtxGetId);
ALIKE(event_create, cuEventCreate);
ALIKE(event_record, cuEventRecord);
ALIKE(event_query, cuEventQuery);
ALIKE(event_elapsed, cuEventElapsedTime);
static_assert(CUDA_ERROR_NOT_READY == kDriverNotReady);
static_assert(CU_STREAM_CAPTURE_MODE_RELAXED == kCaptureRelaxed);
static_assert(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS == 122);
static_assert(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1 == 93);

TEST(DriverAbi, GpuErrorsAreDistinguishedFromWrongCalls) {
  for (int error : {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_ASSERT,
                    CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS,
                    CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC, CUDA_ERROR_LAUNCH_FAILED,
                    CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_UNKNOWN}) {
    EXPECT_TRUE(IsGpuError(error)) << error;
  }
  for (int error :
       {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_INVALID_CONTEXT,
        CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_READY, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
        CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT}) {
    EXPECT_FALSE(IsGpuError(error)) << error;
  }
}

#else

TEST(DriverAbi, GpuErrorsAreDistinguishedFromWrongCalls) {
  GTEST_SKIP() << "no cuda.h of CUDA 12 or later on this machine";
}

#endif

}  // namespace
}  // namespace lockstep::recorder
