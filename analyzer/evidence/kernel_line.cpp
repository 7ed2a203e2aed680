#include "analyzer/evidence/kernel_line.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "analyzer/evidence/pci_address.h"
#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

constexpr size_t kMostEventText = 300;

// Returns the first PCI address in the text: "0000:1b:00.0", "PCI:0000:1b:00".
std::string FirstAddress(absl::string_view text) {
  const auto part_of = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' || c == '.';
  };
  for (size_t i = 0; i < text.size();) {
    if (!part_of(text[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && part_of(text[end])) ++end;
    absl::string_view word = text.substr(i, end - i);
    while (!word.empty() && (word.back() == ':' || word.back() == '.')) word.remove_suffix(1);
    while (!word.empty() && word.front() == ':') word.remove_prefix(1);
    if (std::count(word.begin(), word.end(), ':') == 2 && word.find(':') >= 4) {
      if (std::string address = PciAddress(word); !address.empty()) return address;
    }
    i = end;
  }
  return "";
}

// Returns the number after `mark` in the text; 0 if there is none.
uint32_t NumberAfter(absl::string_view text, absl::string_view mark) {
  const size_t at = text.find(mark);
  if (at == text.npos) return 0;
  text.remove_prefix(at + mark.size());
  while (!text.empty() && (text[0] == ' ' || text[0] == '\'' || text[0] == '=')) text.remove_prefix(1);
  uint64_t number = 0;
  size_t i = 0;
  for (; i < text.size() && i < 10 && text[i] >= '0' && text[i] <= '9'; ++i)
    number = number * 10 + static_cast<uint64_t>(text[i] - '0');
  return number <= INT32_MAX ? static_cast<uint32_t>(number) : 0;
}

bool HoldsAny(absl::string_view text, std::initializer_list<absl::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [text](absl::string_view part) { return absl::StrContains(text, part); });
}

// Returns 79 for "NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, ..."; 0 if there is no number.
uint32_t XidOf(absl::string_view text) {
  const size_t close = text.find("): ");
  return close == text.npos ? 0 : NumberAfter(text.substr(close), "): ");
}

HardwareEvent::Kind KindOf(absl::string_view text) {
  if (absl::StrContains(text, "SXid (PCI")) return HardwareEvent::NVSWITCH;
  if (absl::StrContains(text, "NVRM: Xid (PCI")) return HardwareEvent::XID;
  if (absl::StartsWith(text, "NVRM: ") &&
      HoldsAny(text, {"fallen off the bus", "GPU is lost", "has stopped responding", "RmInitAdapter failed"}))
    return HardwareEvent::XID;
  if (HoldsAny(text, {"Out of memory: Killed", "Out of memory: Kill process",
                      "oom-kill:", "Memory cgroup out of memory", "invoked oom-killer"}))
    return HardwareEvent::OUT_OF_MEMORY;
  if (HoldsAny(text,
               {"AER: ", "PCIe Bus Error", "PCIe link lost", "pcieport", "surprise", "Data Link Layer Link Active"}) &&
      HoldsAny(text, {"AER", "Error", "error", "lost", "down", "Down", "surprise", "DPC"}))
    return HardwareEvent::PCIE;
  if (HoldsAny(text, {"[Hardware Error]", "Machine check", "mce: CPU", "Uncorrected error", "EDAC "}) &&
      HoldsAny(text, {"Error", "error", "Machine check", "CE ", "UE "}))
    return HardwareEvent::MACHINE_CHECK;
  if (HoldsAny(text, {"mlx5_core", "mlx5_", "mlx4_", "bnxt_", "efa ", "hfi1", "ib_core", "irdma"}) &&
      HoldsAny(text, {"error", "Error", "ERROR", "Link down", "link down", "Health", "health", "timeout", "failed",
                      "fatal", "reset", "recover", "dead", "Port module event", "High Temperature"}))
    return HardwareEvent::NETWORK;
  if (HoldsAny(text, {"blocked for more than", "soft lockup", "hard LOCKUP", "rcu_sched self-detected stall",
                      "detected stalls on CPUs"}))
    return HardwareEvent::HUNG_TASK;
  if (HoldsAny(text, {"I/O error", "EXT4-fs error", "XFS (", "nvme nvme", "not responding", "LustreError",
                      "Lustre: ", "BTRFS error"}) &&
      HoldsAny(text, {"rror", "timeout", "timed out", "not responding", "Corruption", "shutdown", "evicted", "lost",
                      "reset"}))
    return HardwareEvent::STORAGE;
  if (absl::StrContains(text, "amdgpu") &&
      HoldsAny(text, {"GPU reset", "timeout", "ras", "RAS", "poison", "page fault", "GPU hang", "error"}))
    return HardwareEvent::AMD_GPU;
  if (HoldsAny(text, {"]: segfault at", "general protection", "traps: "}) && absl::StrContains(text, "["))
    return HardwareEvent::CRASH;
  return HardwareEvent::HARDWARE_UNKNOWN;
}

}  // namespace

std::optional<HardwareEvent> ParseHardwareLine(absl::string_view text) {
  text = text.substr(0, 4096);
  const HardwareEvent::Kind kind = KindOf(text);
  if (kind == HardwareEvent::HARDWARE_UNKNOWN) return std::nullopt;
  HardwareEvent event;
  event.set_kind(kind);
  if (kind == HardwareEvent::XID || kind == HardwareEvent::NVSWITCH) {
    event.set_code(XidOf(text));
    event.set_pid(static_cast<int32_t>(NumberAfter(text, "pid=")));
  }
  if (kind == HardwareEvent::OUT_OF_MEMORY) {
    event.set_pid(static_cast<int32_t>(std::max(
        {NumberAfter(text, "Killed process "), NumberAfter(text, "Kill process "), NumberAfter(text, ",pid=")})));
  }
  if (kind == HardwareEvent::CRASH || kind == HardwareEvent::HUNG_TASK) {
    // "python3[4711]: segfault at", "INFO: task python3:4711 blocked for more than"
    const bool crash = kind == HardwareEvent::CRASH;
    const size_t mark = crash ? text.find('[') : text.substr(0, text.find(" blocked for more")).rfind(':');
    if (mark != text.npos) event.set_pid(static_cast<int32_t>(NumberAfter(text.substr(mark), text.substr(mark, 1))));
  }
  if (kind != HardwareEvent::OUT_OF_MEMORY && kind != HardwareEvent::CRASH && kind != HardwareEvent::HUNG_TASK)
    event.set_pci(FirstAddress(text));
  event.set_text(PrintableAscii({text.data(), text.size()}, kMostEventText));
  return event;
}

absl::string_view WithoutKernelTime(absl::string_view line) {
  constexpr size_t kMost = 32;
  while (absl::ConsumePrefix(&line, " ")) {
  }
  const size_t close = line.substr(0, kMost).find("] ");
  if (close == line.npos || line[0] != '[') return line;
  const absl::string_view time = line.substr(1, close - 1);
  const bool since_boot = !time.empty() && time.find_first_not_of(" +.0123456789") == time.npos;
  if (!since_boot && std::count(time.begin(), time.end(), ':') != 2) return line;
  return line.substr(close + 2);
}

std::optional<KernelLine> ParseKernelLine(absl::string_view line) {
  constexpr absl::string_view kMark = " kernel:";
  constexpr size_t kMostBefore = 128;
  KernelLine out;
  const size_t mark = line.substr(0, kMostBefore).find(kMark);
  absl::string_view text = line;
  if (mark != line.npos) {
    const absl::string_view before = line.substr(0, mark);
    const absl::string_view host = before.substr(before.rfind(' ') + 1);
    out.host = PrintableAscii({host.data(), host.size()}, kMostBefore);
    text = line.substr(mark + kMark.size());
  }
  text = WithoutKernelTime(text);
  // People also copy a message without its prefix.
  const bool bare = mark == line.npos && text.size() == line.size();
  constexpr absl::string_view kUnmistakable[] = {"NVRM: Xid (PCI", "Out of memory: Kill", "Memory cgroup out of memory",
                                                 "oom-kill:"};
  if (bare && std::none_of(std::begin(kUnmistakable), std::end(kUnmistakable),
                           [&](absl::string_view begin) { return absl::StartsWith(text, begin); }))
    return std::nullopt;
  std::optional<HardwareEvent> event = ParseHardwareLine(text);
  if (!event) return std::nullopt;
  out.event = *std::move(event);
  return out;
}

}  // namespace lockstep
