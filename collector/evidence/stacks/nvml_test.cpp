#include "collector/evidence/stacks/nvml.h"

#include <gtest/gtest.h>

#include <type_traits>

#if __has_include(<nvml.h>)
#include <nvml.h>
#define LOCKSTEP_HAS_NVML 1
#endif

namespace lockstep {
namespace {

#ifdef LOCKSTEP_HAS_NVML
#define SAME_PLACE(ours, our_field, theirs, their_field)               \
  EXPECT_EQ(offsetof(ours, our_field), offsetof(theirs, their_field)); \
  EXPECT_EQ(sizeof(ours::our_field), sizeof(theirs::their_field))

TEST(Nvml, DeclarationsMatchTheToolkits) {
  EXPECT_EQ(sizeof(nvml::PciInfo), sizeof(nvmlPciInfo_t));
  SAME_PLACE(nvml::PciInfo, bus_id_legacy, nvmlPciInfo_t, busIdLegacy);
  SAME_PLACE(nvml::PciInfo, domain, nvmlPciInfo_t, domain);
  SAME_PLACE(nvml::PciInfo, bus_id, nvmlPciInfo_t, busId);
  EXPECT_EQ(sizeof(nvml::Utilization), sizeof(nvmlUtilization_t));
  SAME_PLACE(nvml::Utilization, gpu, nvmlUtilization_t, gpu);
  EXPECT_EQ(sizeof(nvml::Memory), sizeof(nvmlMemory_t));
  SAME_PLACE(nvml::Memory, total, nvmlMemory_t, total);
  SAME_PLACE(nvml::Memory, used, nvmlMemory_t, used);
  EXPECT_EQ(sizeof(nvml::ProcessInfo), sizeof(nvmlProcessInfo_t));
  SAME_PLACE(nvml::ProcessInfo, pid, nvmlProcessInfo_t, pid);
  SAME_PLACE(nvml::ProcessInfo, used_memory, nvmlProcessInfo_t, usedGpuMemory);
  EXPECT_EQ(nvml::kSuccess, NVML_SUCCESS);
  EXPECT_EQ(nvml::kNotSupported, NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(nvml::kDriverNotLoaded, NVML_ERROR_DRIVER_NOT_LOADED);
  EXPECT_EQ(nvml::kGpuIsLost, NVML_ERROR_GPU_IS_LOST);
  EXPECT_EQ(nvml::kTemperatureGpu, NVML_TEMPERATURE_GPU);
  EXPECT_EQ(nvml::kClockSm, NVML_CLOCK_SM);
  EXPECT_EQ(nvml::kEccUncorrected, NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
  EXPECT_EQ(nvml::kEccVolatile, NVML_VOLATILE_ECC);
  // Enumerations are passed as int, the handle as a pointer.
  static_assert(sizeof(nvmlReturn_t) == sizeof(nvml::Return) && sizeof(nvmlTemperatureSensors_t) == sizeof(int) &&
                sizeof(nvmlClockType_t) == sizeof(int) && sizeof(nvmlMemoryErrorType_t) == sizeof(int) &&
                sizeof(nvmlEccCounterType_t) == sizeof(int));
  static_assert(std::is_pointer_v<nvmlDevice_t>);
  static_assert(std::is_invocable_v<decltype(&nvmlDeviceGetUtilizationRates), nvmlDevice_t, nvmlUtilization_t*>);
  static_assert(std::is_invocable_v<decltype(&nvmlDeviceGetTotalEccErrors), nvmlDevice_t, nvmlMemoryErrorType_t,
                                    nvmlEccCounterType_t, unsigned long long*>);
  static_assert(std::is_invocable_v<decltype(&nvmlDeviceGetRemappedRows), nvmlDevice_t, unsigned*, unsigned*, unsigned*,
                                    unsigned*>);
  static_assert(std::is_invocable_v<decltype(&nvmlDeviceGetComputeRunningProcesses), nvmlDevice_t, unsigned*,
                                    nvmlProcessInfo_t*>);
}
#else
TEST(Nvml, DeclarationsMatchTheToolkits) { GTEST_SKIP() << "nvml.h is not installed (CUDA toolkit)"; }
#endif

}  // namespace
}  // namespace lockstep
