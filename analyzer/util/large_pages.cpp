#include "analyzer/util/large_pages.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/util/parallel.h"
#include "analyzer/util/system.h"

namespace lockstep {

void UseLargePages(char** argv) {
  constexpr char kName[] = "GLIBC_TUNABLES";
  if (getenv(kName) != nullptr) return;
  const std::string program = OwnPath();
  if (program.empty()) return;
  // One arena for each CPU, because more arenas would keep memory that others have freed. Tables of at least a MiB
  // have their own mappings, which are returned when they are freed.
  const std::string tunables = absl::StrCat(
      "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1048576:glibc.malloc.trim_threshold=1073741824:glibc.malloc."
      "top_pad=33554432:glibc.malloc.arena_max=",
      WorkerCount(SIZE_MAX));
  setenv(kName, tunables.c_str(), 1);
  execv(program.c_str(), argv);
  unsetenv(kName);
}

}  // namespace lockstep
