#include "analyzer/evidence/process_evidence.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/util/paths.h"

namespace lockstep {
namespace {

constexpr int kMostThreads = 2048, kMostFrames = 512, kMostModules = 4096, kMostGpus = 64, kMostEvents = 256,
              kMostUnread = 32;
constexpr size_t kMostText = 1024;

template <typename Field>
void Cut(Field* field, int limit) {
  if (field->size() > limit) field->DeleteSubrange(limit, field->size() - limit);
}

void Cut(std::string* text) {
  if (text->size() > kMostText) *text = CleanUtf8(*text, kMostText);
}

}  // namespace

void BoundEvidence(ProcessEvidence* evidence) {
  Cut(evidence->mutable_modules(), kMostModules);
  for (StackModule& module : *evidence->mutable_modules()) {
    Cut(module.mutable_path());
    Cut(module.mutable_build_id());
  }
  Cut(evidence->mutable_threads(), kMostThreads);
  const uint32_t modules = static_cast<uint32_t>(evidence->modules_size());
  for (ThreadStack& thread : *evidence->mutable_threads()) {
    if (thread.frames_size() > kMostFrames) thread.set_truncated(true);
    Cut(thread.mutable_frames(), kMostFrames);
    for (StackFrame& frame : *thread.mutable_frames()) {
      Cut(frame.mutable_function());
      Cut(frame.mutable_file());
      if (frame.module() > modules) frame.set_module(0);
    }
    for (std::string* text :
         {thread.mutable_name(), thread.mutable_state(), thread.mutable_wchan(), thread.mutable_refused()})
      Cut(text);
  }
  Cut(evidence->mutable_gpus(), kMostGpus);
  for (GpuState& gpu : *evidence->mutable_gpus()) {
    for (std::string* text : {gpu.mutable_pci(), gpu.mutable_uuid(), gpu.mutable_name(), gpu.mutable_lost()}) Cut(text);
    Cut(gpu.mutable_unread(), kMostUnread);
    for (std::string& text : *gpu.mutable_unread()) Cut(&text);
  }
  if (evidence->hardware_size() > kMostEvents) {  // keep the newest
    evidence->mutable_hardware()->DeleteSubrange(0, evidence->hardware_size() - kMostEvents);
  }
  for (HardwareEvent& event : *evidence->mutable_hardware()) {
    Cut(event.mutable_pci());
    Cut(event.mutable_text());
  }
  for (std::string* text :
       {evidence->mutable_stacks_refused(), evidence->mutable_python_refused(), evidence->mutable_python_version(),
        evidence->mutable_gpus_unread(), evidence->mutable_hardware_unread()}) {
    Cut(text);
  }
  if (evidence->has_memory()) Cut(evidence->mutable_memory()->mutable_cgroup());
}

std::string FrameText(const StackFrame& frame, const ProcessEvidence& evidence) {
  std::string place;
  if (!frame.file().empty()) {
    place = frame.kind() == StackFrame::PYTHON ? frame.file() : std::string(BaseName(frame.file()));
    if (frame.line() > 0) absl::StrAppend(&place, ":", frame.line());
  }
  if (frame.kind() == StackFrame::KERNEL) return absl::StrCat("[kernel] ", frame.function());
  if (!frame.function().empty())
    return place.empty() ? frame.function() : absl::StrCat(frame.function(), " (", place, ")");
  const uint32_t index = frame.module();
  if (index == 0 || index > static_cast<uint32_t>(evidence.modules_size())) return "code outside of any file";
  return absl::StrCat(std::string(BaseName(evidence.modules(static_cast<int>(index) - 1).path())), " at 0x",
                      absl::Hex(frame.offset()));
}

std::vector<std::string> StackTexts(const ThreadStack& thread, const ProcessEvidence& evidence, bool python_only) {
  std::vector<std::string> texts;
  for (const StackFrame& frame : thread.frames()) {
    if (!python_only || frame.kind() == StackFrame::PYTHON) texts.push_back(FrameText(frame, evidence));
  }
  return texts;
}

std::string HardwareName(const HardwareEvent& event) {
  switch (event.kind()) {
    case HardwareEvent::XID: return absl::StrCat("Xid ", event.code());
    case HardwareEvent::NVSWITCH: return absl::StrCat("NVSwitch SXid ", event.code());
    case HardwareEvent::PCIE: return "PCIe error";
    case HardwareEvent::MACHINE_CHECK: return "machine check";
    case HardwareEvent::NETWORK: return "network adapter";
    case HardwareEvent::OUT_OF_MEMORY: return "out of memory";
    case HardwareEvent::HUNG_TASK: return "hung task";
    case HardwareEvent::STORAGE: return "storage";
    case HardwareEvent::CRASH: return "crash";
    case HardwareEvent::AMD_GPU: return "amdgpu";
    default: return "kernel";
  }
}

std::vector<std::string> GpuTrouble(const ProcessEvidence& evidence) {
  std::vector<std::string> lines;
  for (const GpuState& gpu : evidence.gpus()) {
    const std::string name =
        absl::StrCat("GPU ", gpu.index(), gpu.pci().empty() ? "" : absl::StrCat(" (", gpu.pci(), ")"));
    if (!gpu.lost().empty()) lines.push_back(absl::StrCat(name, " does not answer its driver: ", gpu.lost()));
    if (gpu.uncorrected_ecc() > 0)
      lines.push_back(absl::StrCat(name, ": ", gpu.uncorrected_ecc(), " uncorrected memory errors"));
    if (gpu.rows_pending() > 0) lines.push_back(absl::StrCat(name, ": remapped memory rows wait for a reset"));
  }
  return lines;
}

std::vector<std::string> HardwareTrouble(const ProcessEvidence& evidence, size_t limit) {
  std::vector<std::string> lines = GpuTrouble(evidence);
  for (int i = evidence.hardware_size() - 1; i >= 0; --i) {
    const HardwareEvent& event = evidence.hardware(i);
    // Crashes of other programs are irrelevant.
    if (event.kind() == HardwareEvent::CRASH) continue;
    lines.push_back(
        absl::StrCat(HardwareName(event), event.gpu() > 0 ? absl::StrCat(" on GPU ", event.gpu() - 1) : "",
                     event.age_ns() >= 0 ? absl::StrCat(", ", event.age_ns() / 1'000'000'000, " s before") : "", ": ",
                     event.text()));
  }
  KeepFirst(limit, "", &lines);
  return lines;
}

std::string HardwareSeen(const ProcessEvidence& evidence) {
  const bool trouble = !HardwareTrouble(evidence, 1).empty();
  const bool only_log = evidence.hardware_size() > 0 && !evidence.has_memory() && evidence.gpus().empty();
  std::string text = !evidence.hardware_unread().empty()
                         ? absl::StrCat("errors were not read: ", evidence.hardware_unread())
                     : trouble  ? "errors: see above"
                     : only_log ? "no errors of this process or its GPU in the kernel log"
                                : "no errors in the last hour of the kernel log";
  if (!evidence.gpus_unread().empty()) {
    absl::StrAppend(&text, "; GPUs not read: ", evidence.gpus_unread());
  } else if (!only_log) {
    absl::StrAppend(&text, "; ", evidence.gpus_size(), evidence.gpus_size() == 1 ? " GPU read" : " GPUs read");
  }
  return text;
}

std::string MemoryTrouble(const ProcessEvidence& evidence) {
  if (!evidence.has_memory()) return "";
  const MemoryState& memory = evidence.memory();
  std::string text;
  const auto add = [&text](const std::string& part) { absl::StrAppend(&text, text.empty() ? "" : ", ", part); };
  const auto gigabytes = [](int64_t bytes) { return absl::StrFormat("%.1f GB", static_cast<double>(bytes) / 1e9); };
  if (memory.cgroup_limit_bytes() > 0 && memory.cgroup_bytes() > memory.cgroup_limit_bytes() / 10 * 9) {
    add(absl::StrCat(gigabytes(memory.cgroup_bytes()), " of the ", gigabytes(memory.cgroup_limit_bytes()),
                     " that its cgroup may use"));
  }
  if (memory.cgroup_oom_kills() > 0)
    add(absl::StrCat("processes of its cgroup that were killed for memory: ", memory.cgroup_oom_kills()));
  if (memory.swapped_bytes() > 100 << 20) add(absl::StrCat(gigabytes(memory.swapped_bytes()), " of it swapped out"));
  return text;
}

}  // namespace lockstep
