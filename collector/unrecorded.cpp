#include "collector/unrecorded.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lockstep {

void Unrecorded::Look(const std::vector<pid_t>& processes) {
  constexpr size_t kMostProcesses = 4096;
  for (pid_t pid : processes) {
    const std::optional<Mapped> mapped = ReadMapped(pid, library_);
    if (!mapped || seen_.size() >= kMostProcesses) continue;
    Seen& seen = seen_[pid];
    seen.mapped.lockstep |= mapped->lockstep;
    seen.mapped.nccl |= mapped->nccl;
    seen.mapped.dynamic |= mapped->dynamic;
    const std::optional<std::string> preload = ReadEnvironment(pid, "LD_PRELOAD");
    const std::optional<std::string> hook = ReadEnvironment(pid, "LOCKSTEP_HOOK");
    if (hook) seen.hook = *hook;
    seen.preload_kept = preload && preload->find(library_) != std::string::npos;
  }
}

std::string Unrecorded::Reason(bool switched_off) const {
  if (switched_off) return "LOCKSTEP=0 is set";
  size_t hook_off = 0, symbols = 0, loaded = 0, without = 0, fixed = 0, dropped = 0, nccl = 0;
  for (const auto& [pid, seen] : seen_) {
    nccl += seen.mapped.nccl ? 1 : 0;
    hook_off += seen.mapped.lockstep && absl::EqualsIgnoreCase(seen.hook, "off") ? 1 : 0;
    symbols += seen.mapped.lockstep && seen.mapped.nccl && absl::EqualsIgnoreCase(seen.hook, "symbols") ? 1 : 0;
    if (seen.mapped.lockstep) {
      ++loaded;
      continue;
    }
    ++without;
    if (!seen.mapped.dynamic) ++fixed;
    if (seen.mapped.dynamic && !seen.preload_kept) ++dropped;
  }
  if (hook_off > 0) return "LOCKSTEP_HOOK=off is set";
  if (symbols > 0) {
    return absl::StrCat("NCCL was loaded in ", symbols, symbols == 1 ? " process" : " processes",
                        ", but LOCKSTEP_HOOK=symbols sees linked calls only: where a program opens NCCL by hand (ctypes, vLLM, "
                        "JAX, nccl4py) set LOCKSTEP_HOOK=dlsym");
  }
  if (nccl > 0 && loaded > 0) return "NCCL was loaded, but no communicator was made or no ring could be";
  if (without > 0 && loaded == 0) {
    const char* why = fixed > 0     ? "the program is linked statically"
                      : dropped > 0 ? "LD_PRELOAD was dropped on the way to it"
                                    : "LD_PRELOAD was not honoured (a setuid program?)";
    return absl::StrCat("the recorder was not loaded in ", without, without == 1 ? " process: " : " processes: ", why);
  }
  if (loaded > 0) {
    return absl::StrCat("no NCCL library was loaded in ", loaded, loaded == 1 ? " process" : " processes",
                        " (no NCCL call, or NCCL is linked statically)");
  }
  return "no NCCL call was made (or NCCL is linked statically)";
}

}  // namespace lockstep
