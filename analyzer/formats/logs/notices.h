// Reads lines in which NCCL, gloo, the kernel, a scheduler or a runtime reports an error of a process, GPU, host or
// link.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/formats/logs/launcher.h"
#include "analyzer/formats/logs/nccl_info.h"
#include "proto/process.pb.h"

namespace lockstep::logs {

struct Notice {
  enum class By { kGloo, kNccl, kKernel, kScheduler, kShell, kXla, kGpu } by = By::kNccl;
  std::string text;
  std::string host = "";  // empty if not printed
  int64_t pid = 0;        // 0 if not printed
  int32_t gpu = -1;       // the GPU's number in the process; -1 if not printed
  std::string pci = "";   // address of a GPU or another device; empty if not printed
  // How the process ended, if the line reports that; otherwise 0. A negative number is the signal.
  int64_t exit_code = 0;
  // NCCL reports that another process ended or did not answer.
  bool of_others = false;
  bool of_gpu = false;                                   // a call to the process's own GPU failed
  std::shared_ptr<const HardwareEvent> event = nullptr;  // only for the kernel's messages
};

Notice WarningOf(const NcclPlace& place);

class NoticeReader {
 public:
  std::optional<Notice> Take(std::string_view text);

 private:
  std::string pod_;  // "Name: .." of kubectl describe
};

}  // namespace lockstep::logs
