#include "collector/host/unrecorded.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {

namespace {

// Returns class and machine of an ELF file; empty if the file is unreadable or not ELF.
std::string Machine(const std::string& path) {
  char header[20] = {};
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.ok()) return "";
  const ssize_t got = read(fd.get(), header, sizeof(header));
  if (got != sizeof(header) || memcmp(header, ELFMAG, SELFMAG) != 0) return "";
  return std::string(1, header[EI_CLASS]) + std::string(header + 18, 2);
}

// Returns the process's AT_SECURE. If it is set, the loader ignores paths in LD_PRELOAD.
bool IsPrivileged(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/auxv"), std::ios::binary);
  unsigned long pair[2];
  while (file.read(reinterpret_cast<char*>(pair), sizeof(pair)) && pair[0] != AT_NULL) {
    if (pair[0] == AT_SECURE) return pair[1] != 0;
  }
  return false;
}

}  // namespace

void Unrecorded::Look(const std::vector<pid_t>& processes) {
  constexpr size_t kMostProcesses = 4096;
  for (pid_t pid : processes) {
    const std::optional<Mapped> mapped = ReadMapped(pid, library_);
    if (!mapped || seen_.size() >= kMostProcesses) continue;
    Seen& seen = seen_[pid];
    seen.mapped.lockstep |= mapped->lockstep;
    seen.mapped.nccl |= mapped->nccl;
    seen.mapped.dynamic |= mapped->dynamic;
    seen.mapped.gpu |= mapped->gpu;
    if (mapped->nccl || mapped->torch) seen.library_since = std::min(seen.library_since, MonotonicNs());
    const std::optional<std::string> preload = ReadEnvironment(pid, "LD_PRELOAD");
    const std::optional<std::string> hook = ReadEnvironment(pid, "LOCKSTEP_HOOK");
    if (hook) seen.hook = *hook;
    const std::string machine = Machine(absl::StrCat("/proc/", pid, "/exe")), own = Machine(library_);
    seen.other_machine = !machine.empty() && !own.empty() && machine != own;
    seen.privileged = IsPrivileged(pid);
    seen.preload_kept = preload && preload->find(library_) != std::string::npos;
  }
}

std::string Unrecorded::Reason(const std::string& switched_off) const {
  if (!switched_off.empty()) return switched_off;
  size_t other_machine = 0, privileged = 0, hook_off = 0, symbols = 0, loaded = 0, without = 0, fixed = 0, dropped = 0,
         nccl = 0;
  for (const auto& [pid, seen] : seen_) {
    nccl += seen.mapped.nccl ? 1 : 0;
    hook_off += seen.mapped.lockstep && absl::EqualsIgnoreCase(seen.hook, "off") ? 1 : 0;
    symbols += seen.mapped.lockstep && seen.mapped.nccl && absl::EqualsIgnoreCase(seen.hook, "symbols") ? 1 : 0;
    if (seen.mapped.lockstep) {
      ++loaded;
      continue;
    }
    ++without;
    other_machine += seen.other_machine ? 1 : 0;
    privileged += seen.privileged ? 1 : 0;
    if (!seen.mapped.dynamic) ++fixed;
    if (seen.mapped.dynamic && !seen.preload_kept) ++dropped;
  }
  if (hook_off > 0) return "LOCKSTEP_HOOK=off is set";
  if (symbols > 0) {
    return absl::StrCat("NCCL was loaded in ", symbols, symbols == 1 ? " process" : " processes",
                        ", but LOCKSTEP_HOOK=symbols records only linked calls: if the program opens NCCL with dlopen "
                        "(ctypes, vLLM, JAX, nccl4py), set LOCKSTEP_HOOK=dlsym");
  }
  if (nccl > 0 && loaded > 0) return "NCCL was loaded, but no communicator was created, or a ring could not be created";
  if (without > 0 && loaded == 0) {
    const char* why = other_machine > 0 ? "the program and liblockstep.so have different architectures: set "
                                          "LOCKSTEP_LIBRARY to the library for the program's architecture"
                      : fixed > 0       ? "the program is linked statically"
                      : privileged > 0
                          ? "it is a set-user-ID program or has capabilities, so the loader ignores LD_PRELOAD"
                      : dropped > 0 ? "something on the way to the process removed LD_PRELOAD"
                                    : "LD_PRELOAD was ignored";
    return absl::StrCat("the recorder was not loaded in ", without, without == 1 ? " process: " : " processes: ", why);
  }
  if (loaded > 0) {
    return absl::StrCat("no NCCL library was loaded in ", loaded, loaded == 1 ? " process" : " processes",
                        " (no NCCL call, or NCCL is linked statically)");
  }
  if (seen_.empty())
    return "the job's processes exited before Lockstep could examine them, so it is unknown whether they loaded the "
           "recorder or NCCL";
  return "no NCCL call was made (or NCCL is linked statically)";
}

bool Unrecorded::RecorderIsLoaded(const std::vector<pid_t>& living) const {
  return std::any_of(living.begin(), living.end(), [this](pid_t pid) {
    const auto seen = seen_.find(pid);
    return seen != seen_.end() && seen->second.mapped.lockstep;
  });
}

int64_t Unrecorded::WithoutGpuSince(const std::vector<pid_t>& living) const {
  int64_t since = INT64_MAX;
  for (pid_t pid : living) {
    const auto seen = seen_.find(pid);
    if (seen == seen_.end() || !seen->second.mapped.lockstep) continue;
    if (seen->second.mapped.gpu) return INT64_MAX;
    since = std::min(since, seen->second.library_since);
  }
  return since;
}

}  // namespace lockstep
