#include "collector/evidence/stacks/gpu_state.h"

#include <dlfcn.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/evidence/pci_address.h"
#include "analyzer/util/printable.h"
#include "collector/evidence/stacks/nvml.h"

namespace lockstep {
namespace {

constexpr unsigned int kMostGpus = 64, kMostProcesses = 1024;

std::string TextOf(const char* text, size_t most) { return Printable({text, strnlen(text, most)}); }

class Library {
 public:
  explicit Library(void* handle) : handle_(handle) {}
  template <typename Function>
  Function Find(const char* name) const {
    return reinterpret_cast<Function>(dlsym(handle_, name));
  }
  std::string Error(nvml::Return code) const {
    const auto text = Find<nvml::ErrorString>("nvmlErrorString");
    return text == nullptr ? absl::StrCat("error ", code) : Printable(text(code), 100);
  }

 private:
  void* const handle_;
};

// Reads one GPU's values, and lists those that the driver refuses.
class Reader {
 public:
  Reader(const Library& library, nvml::Device device, GpuState* gpu) : library_(library), device_(device), gpu_(gpu) {}

  template <typename Function, typename... Arguments>
  bool Ask(const char* what, const char* function, Arguments... arguments) {
    const auto call = library_.Find<Function>(function);
    if (call == nullptr) {
      gpu_->add_unread(absl::StrCat(what, ": this driver has no ", function));
      return false;
    }
    if (!gpu_->lost().empty()) return false;
    const nvml::Return result = call(device_, arguments...);
    if (result == nvml::kSuccess) return true;
    if (result == nvml::kGpuIsLost) {
      gpu_->set_lost(library_.Error(result));
    } else {
      gpu_->add_unread(absl::StrCat(what, ": ", library_.Error(result)));
    }
    return false;
  }

 private:
  const Library& library_;
  const nvml::Device device_;
  GpuState* const gpu_;
};

void ReadOne(const Library& library, nvml::Device device, pid_t pid, GpuState* gpu) {
  Reader reader(library, device, gpu);
  nvml::PciInfo pci{};
  if (reader.Ask<nvml::GetPci>("PCI address", "nvmlDeviceGetPciInfo_v3", &pci))
    gpu->set_pci(PciAddress(TextOf(pci.bus_id, sizeof pci.bus_id)));
  char text[128] = {};
  if (reader.Ask<nvml::GetText>("UUID", "nvmlDeviceGetUUID", text, 96u)) gpu->set_uuid(TextOf(text, sizeof text));
  if (reader.Ask<nvml::GetText>("name", "nvmlDeviceGetName", text, 96u)) gpu->set_name(TextOf(text, sizeof text));
  nvml::Utilization use{};
  if (reader.Ask<nvml::GetUtilization>("utilization", "nvmlDeviceGetUtilizationRates", &use))
    gpu->set_utilization_percent(static_cast<int>(use.gpu));
  nvml::Memory memory{};
  if (reader.Ask<nvml::GetMemory>("memory", "nvmlDeviceGetMemoryInfo", &memory)) {
    gpu->set_memory_used_bytes(static_cast<int64_t>(memory.used));
    gpu->set_memory_total_bytes(static_cast<int64_t>(memory.total));
  }
  unsigned int number = 0;
  if (reader.Ask<nvml::GetTemperature>("temperature", "nvmlDeviceGetTemperature", nvml::kTemperatureGpu, &number))
    gpu->set_temperature_c(static_cast<int>(number));
  if (reader.Ask<nvml::GetNumber>("power", "nvmlDeviceGetPowerUsage", &number))
    gpu->set_power_mw(static_cast<int>(number));
  if (reader.Ask<nvml::GetClock>("SM clock", "nvmlDeviceGetClockInfo", nvml::kClockSm, &number))
    gpu->set_sm_clock_mhz(static_cast<int>(number));
  unsigned long long wide = 0;
  const char* reasons = "nvmlDeviceGetCurrentClocksEventReasons";  // older drivers use the function name below
  if (library.Find<nvml::GetReasons>(reasons) == nullptr) reasons = "nvmlDeviceGetCurrentClocksThrottleReasons";
  if (reader.Ask<nvml::GetReasons>("clock limits", reasons, &wide)) gpu->set_slowed_because(wide);
  if (reader.Ask<nvml::GetEcc>("uncorrected ECC errors", "nvmlDeviceGetTotalEccErrors", nvml::kEccUncorrected,
                               nvml::kEccVolatile, &wide))
    gpu->set_uncorrected_ecc(static_cast<int64_t>(wide));
  unsigned int corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (reader.Ask<nvml::GetRemapped>("remapped rows", "nvmlDeviceGetRemappedRows", &corrected, &uncorrected, &pending,
                                    &failed))
    gpu->set_rows_pending(pending != 0 ? 1 : 0);
  if (reader.Ask<nvml::GetNumber>("PCIe replays", "nvmlDeviceGetPcieReplayCounter", &number))
    gpu->set_pcie_replays(static_cast<int>(number));
  std::vector<nvml::ProcessInfo> processes(kMostProcesses);
  unsigned int count = kMostProcesses;
  if (reader.Ask<nvml::GetProcesses>("processes", "nvmlDeviceGetComputeRunningProcesses_v3", &count,
                                     processes.data())) {
    for (unsigned int i = 0; i < std::min(count, kMostProcesses); ++i) {
      if (processes[i].pid == static_cast<unsigned int>(pid)) gpu->set_of_process(true);
    }
  }
}

}  // namespace

void ReadGpus(pid_t pid, const char* library_name, const std::function<void()>& progress, ProcessEvidence* evidence) {
  void* handle = dlopen(library_name != nullptr ? library_name : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    if (why == nullptr || strstr(why, "No such file") != nullptr)
      evidence->set_gpus_unread("no NVIDIA driver library (libnvidia-ml.so.1) on this host");
    else
      evidence->set_gpus_unread(absl::StrCat("cannot load NVML: ", why));
    return;
  }
  const Library library(handle);
  const auto init = library.Find<nvml::Init>("nvmlInit_v2");
  const auto count_of = library.Find<nvml::GetCount>("nvmlDeviceGetCount_v2");
  const auto handle_of = library.Find<nvml::GetHandle>("nvmlDeviceGetHandleByIndex_v2");
  if (init == nullptr || count_of == nullptr || handle_of == nullptr) {
    evidence->set_gpus_unread("the NVIDIA driver library is older than NVML's version 2 interface");
    return;
  }
  if (const nvml::Return result = init(); result != nvml::kSuccess) {
    evidence->set_gpus_unread(absl::StrCat("cannot initialize NVML: ", library.Error(result)));
    return;
  }
  unsigned int count = 0;
  if (const nvml::Return result = count_of(&count); result != nvml::kSuccess) {
    evidence->set_gpus_unread(absl::StrCat("NVML does not report the number of GPUs: ", library.Error(result)));
    return;
  }
  if (count == 0) evidence->set_gpus_unread("the driver reports no GPU");
  for (unsigned int i = 0; i < std::min(count, kMostGpus); ++i) {
    GpuState* gpu = evidence->add_gpus();
    gpu->set_index(static_cast<int>(i));
    gpu->set_utilization_percent(-1);
    gpu->set_memory_used_bytes(-1);
    gpu->set_memory_total_bytes(-1);
    gpu->set_temperature_c(-1);
    gpu->set_power_mw(-1);
    gpu->set_sm_clock_mhz(-1);
    gpu->set_uncorrected_ecc(-1);
    gpu->set_rows_pending(-1);
    gpu->set_pcie_replays(-1);
    nvml::Device device = nullptr;
    if (const nvml::Return result = handle_of(i, &device); result != nvml::kSuccess) {
      gpu->set_lost(library.Error(result));
    } else {
      ReadOne(library, device, pid, gpu);
    }
    progress();
  }
}

}  // namespace lockstep
