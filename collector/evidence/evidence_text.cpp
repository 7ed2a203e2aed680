
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/util/printable.h"
#include "collector/evidence/evidence.h"

namespace lockstep {
namespace {

std::string Megabytes(int64_t bytes) {
  return bytes < 0 ? "not readable" : absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

void AppendThread(const ThreadStack& thread, const ProcessEvidence& evidence, std::string* out) {
  absl::StrAppend(out, "\nThread ", thread.tid(),
                  thread.inner_tid() != thread.tid() ? absl::StrCat(" (inside: ", thread.inner_tid(), ")") : "", " \"",
                  Printable(thread.name(), 64), "\" ", Printable(thread.state(), 4),
                  thread.wchan().empty() ? "" : absl::StrCat(" in ", Printable(thread.wchan(), 64)),
                  thread.holds_interpreter_lock() ? ", holds the interpreter lock" : "",
                  thread.stopped_ns() > 0
                      ? absl::StrFormat(", stopped for %.1f ms", static_cast<double>(thread.stopped_ns()) / 1e6)
                      : "",
                  "\n");
  int number = 0;
  for (const std::string& frame : StackTexts(thread, evidence))
    absl::StrAppend(out, absl::StrFormat("  #%-3d ", number++), Printable(frame, 400), "\n");
  if (thread.truncated()) absl::StrAppend(out, "  ... outer frames are missing\n");
  if (!thread.refused().empty()) absl::StrAppend(out, "  (", Printable(thread.refused(), 300), ")\n");
}

}  // namespace

std::string EvidenceText(const EvidenceReport& report) {
  const ProcessState& process = report.process();
  const ProcessEvidence& evidence = process.evidence();
  std::string out = absl::StrCat("Process ", report.pid());
  if (process.life() == ProcessState::GONE) return absl::StrCat(out, ": gone\n");
  absl::StrAppend(&out, ": state ", Printable(process.state(), 4),
                  process.wchan().empty() ? "" : absl::StrCat(" in ", Printable(process.wchan(), 64)), ", ",
                  evidence.threads_total(), evidence.threads_total() == 1 ? " thread" : " threads");
  if (process.threads_in_d() > 0) absl::StrAppend(&out, ", ", process.threads_in_d(), " in uninterruptible sleep");
  if (!evidence.python_version().empty()) absl::StrAppend(&out, ", Python ", Printable(evidence.python_version(), 16));
  absl::StrAppend(&out, "\n");
  if (process.cpu_ns_between_samples() >= 0) {
    absl::StrAppend(
        &out, absl::StrFormat("Activity: %.0f ms of CPU", static_cast<double>(process.cpu_ns_between_samples()) / 1e6),
        process.io_bytes_between_samples() >= 0
            ? absl::StrCat(", ", process.io_bytes_between_samples(), " bytes of I/O")
            : ", I/O not readable",
        absl::StrFormat(" in %.1f s\n", static_cast<double>(process.sample_gap_ns()) / 1e9));
  }
  const MemoryState& memory = evidence.memory();
  absl::StrAppend(&out, "Memory: ", Megabytes(memory.resident_bytes()), " resident, ",
                  Megabytes(memory.swapped_bytes()), " swapped, OOM score ", memory.oom_score(), " (adjusted by ",
                  memory.oom_score_adj(), "), host has ", Megabytes(memory.host_available_bytes()), " left\n");
  if (!memory.cgroup().empty()) {
    absl::StrAppend(&out, "Cgroup: ", Printable(memory.cgroup(), 200), ", ", Megabytes(memory.cgroup_bytes()), " of ",
                    memory.cgroup_limit_bytes() < 0 ? "unknown limit" : Megabytes(memory.cgroup_limit_bytes()),
                    memory.cgroup_oom_kills() < 0 ? "" : absl::StrCat(", OOM kills ", memory.cgroup_oom_kills()), "\n");
  }
  for (const std::string& file : process.written_files()) absl::StrAppend(&out, "Writes: ", Printable(file, 300), "\n");
  for (const GpuState& gpu : evidence.gpus()) {
    absl::StrAppend(&out, "GPU ", gpu.index(), " ", Printable(gpu.pci(), 32), " ", Printable(gpu.name(), 64),
                    gpu.of_process() ? " (used by this process)" : "");
    if (!gpu.lost().empty()) absl::StrAppend(&out, ": LOST: ", Printable(gpu.lost(), 100));
    if (gpu.utilization_percent() >= 0) absl::StrAppend(&out, ", busy ", gpu.utilization_percent(), " %");
    if (gpu.temperature_c() >= 0) absl::StrAppend(&out, ", ", gpu.temperature_c(), " C");
    if (gpu.uncorrected_ecc() > 0) absl::StrAppend(&out, ", uncorrected ECC errors ", gpu.uncorrected_ecc());
    if (gpu.rows_pending() > 0) absl::StrAppend(&out, ", remapped rows need a GPU reset");
    absl::StrAppend(&out, "\n");
  }
  if (!evidence.gpus_unread().empty()) absl::StrAppend(&out, "GPUs: ", Printable(evidence.gpus_unread(), 300), "\n");
  for (const HardwareEvent& event : evidence.hardware()) {
    absl::StrAppend(&out, "Hardware: ", HardwareName(event),
                    absl::StrFormat(" %.0f s ago: ", static_cast<double>(event.age_ns()) / 1e9),
                    Printable(event.text(), 300), "\n");
  }
  if (!evidence.hardware_unread().empty())
    absl::StrAppend(&out, "Hardware log: ", Printable(evidence.hardware_unread(), 300), "\n");
  if (!evidence.stacks_refused().empty())
    absl::StrAppend(&out, "Stacks: ", Printable(evidence.stacks_refused(), 600), "\n");
  if (!evidence.python_refused().empty())
    absl::StrAppend(&out, "Python: ", Printable(evidence.python_refused(), 300), "\n");
  for (const ThreadStack& thread : evidence.threads()) AppendThread(thread, evidence, &out);
  return out;
}

}  // namespace lockstep
