#include "collector/host/environment.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/system.h"
#include "analyzer/util/unique_fd.h"
#include "collector/host/memory_cgroup.h"

extern char** environ;

namespace lockstep {
namespace {

Environment::iterator Find(Environment* environment, const std::string& name) {
  return std::find_if(environment->begin(), environment->end(), [&name](const std::string& entry) {
    return entry.size() > name.size() && entry[name.size()] == '=' && entry.compare(0, name.size(), name) == 0;
  });
}

}  // namespace

Environment CurrentEnvironment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return environment;
}

bool HasVariable(const Environment& environment, const std::string& name) {
  return Find(const_cast<Environment*>(&environment), name) != environment.end();
}

std::string GetVariable(const Environment& environment, const std::string& name) {
  const auto found = Find(const_cast<Environment*>(&environment), name);
  return found == environment.end() ? "" : found->substr(name.size() + 1);
}

void SetVariable(Environment* environment, const std::string& name, const std::string& value) {
  const auto found = Find(environment, name);
  if (found == environment->end()) {
    environment->push_back(absl::StrCat(name, "=", value));
  } else {
    *found = absl::StrCat(name, "=", value);
  }
}

bool ProfilerIsInstalled(const Environment& environment) {
  std::vector<std::string> folders =
      absl::StrSplit(GetVariable(environment, "LD_LIBRARY_PATH"), absl::ByAnyChar(":;"), absl::SkipEmpty());
  for (const char* folder : {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu",
                             "/usr/lib/aarch64-linux-gnu", "/usr/local/cuda/lib64"}) {
    folders.push_back(folder);
  }
  for (const std::string& folder : folders) {
    if (access((folder + "/libnccl-profiler.so").c_str(), R_OK) == 0) return true;
  }
  return false;
}

void PrependPreload(Environment* environment, const std::string& library) {
  const std::string others = GetVariable(*environment, "LD_PRELOAD");
  SetVariable(environment, "LD_PRELOAD", others.empty() ? library : absl::StrCat(library, ":", others));
}

absl::StatusOr<std::string> FindLibrary(const Environment& environment) {
  std::string path = GetVariable(environment, "LOCKSTEP_LIBRARY");
  if (path.empty()) {
    if (OwnFolder().empty()) return absl::NotFoundError("cannot find this program's path: set LOCKSTEP_LIBRARY");
    path = OwnFolder() + "../lib/liblockstep.so";
  }
  char real[PATH_MAX];
  if (realpath(path.c_str(), real) == nullptr || access(real, R_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot read the recorder ", path, ": ", strerror(errno),
                                            "; set LOCKSTEP_LIBRARY to liblockstep.so"));
  }
  const std::string found = real;
  if (found.find_first_of(" :\t\n") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("the recorder's path '", found,
                                                   "' contains a space or a colon, which LD_PRELOAD cannot contain: "
                                                   "copy liblockstep.so elsewhere and set LOCKSTEP_LIBRARY"));
  }
  return found;
}

void SetRank(Environment* environment, int rank, int world_size, int port) {
  SetVariable(environment, "RANK", absl::StrCat(rank));
  SetVariable(environment, "WORLD_SIZE", absl::StrCat(world_size));
  SetVariable(environment, "LOCAL_RANK", absl::StrCat(rank));
  SetVariable(environment, "LOCAL_WORLD_SIZE", absl::StrCat(world_size));
  SetVariable(environment, "MASTER_ADDR", "127.0.0.1");
  SetVariable(environment, "MASTER_PORT", absl::StrCat(port));
}

absl::StatusOr<int> FreePort() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool found = fd.ok() && bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const int error = errno;
  if (!found) return absl::UnavailableError(absl::StrCat("found no free port for MASTER_PORT: ", strerror(error)));
  return ntohs(address.sin_port);
}

int RingKibFor(int ranks, uint64_t free_bytes) {
  constexpr int kDefaultKib = 4096, kLargestKib = 65536, kUsualRanks = 16;
  const uint64_t each = free_bytes / 32 / static_cast<uint64_t>(ranks > 0 ? ranks : kUsualRanks) / 1024;
  int kib = kLargestKib;
  while (kib > kDefaultKib && static_cast<uint64_t>(kib) > each) kib /= 2;
  return kib > kDefaultKib ? kib : 0;
}

int RingKib(int ranks, const std::string& folder) {
  struct statfs info {};
  if (statfs(folder.c_str(), &info) != 0) return 0;
  uint64_t room = static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize);
  const uint64_t memory =
      static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  room = std::min(room, memory);
  // Rings count against the job's own limit. Its current use is partly page cache, so only the limit counts.
  const int64_t limit = FindMemoryCgroup("/proc/self").limit;
  if (limit >= 0) room = std::min(room, static_cast<uint64_t>(limit));
  return RingKibFor(ranks, room);
}

RackAndSwitch PlaceOf(const Environment& environment) {
  RackAndSwitch place{FileNameFrom(GetVariable(environment, "LOCKSTEP_RACK"), 64),
                      FileNameFrom(GetVariable(environment, "LOCKSTEP_SWITCH"), 64)};
  const std::string address = GetVariable(environment, "SLURM_TOPOLOGY_ADDR"),
                    pattern = GetVariable(environment, "SLURM_TOPOLOGY_ADDR_PATTERN");
  if (place.leaf_switch.empty() && pattern.ends_with("switch.node")) {
    const size_t node = address.rfind('.');
    if (node != std::string::npos && node > 0) {
      const size_t begin = address.rfind('.', node - 1);
      place.leaf_switch = FileNameFrom(address.substr(begin == std::string::npos ? 0 : begin + 1,
                                                      node - (begin == std::string::npos ? 0 : begin + 1)),
                                       64);
    }
  }
  return place;
}

std::string JobName(const Environment& environment, const std::string& command) {
  for (const char* name : {"LOCKSTEP_JOB", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"}) {
    const std::string value = GetVariable(environment, name);
    if (!value.empty()) return FileNameFrom(value, 64);
  }
  return absl::StrCat(FileNameFrom(command.substr(command.rfind('/') + 1), 64), "-", getpid());
}

}  // namespace lockstep
