#include "collector/evidence/stacks/source_hash.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sodium.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {
namespace {

constexpr size_t kMostSource = size_t{4} << 20;

// Links in the path stay below the root. Linux before 5.6 cannot ensure this, so there the file is opened only if
// `root` is this process's own root.
UniqueFd OpenBelow(int root, const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  open_how how{};
  how.flags = kFlags;
  how.resolve = RESOLVE_IN_ROOT;
  const long fd = syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
  if (fd >= 0 || errno != ENOSYS) return UniqueFd(static_cast<int>(fd));
  struct stat theirs {
  }, ours{};
  const bool same = fstat(root, &theirs) == 0 && stat("/", &ours) == 0 && theirs.st_dev == ours.st_dev &&
                    theirs.st_ino == ours.st_ino;
  return UniqueFd(same ? open(path.c_str(), kFlags) : -1);
}

}  // namespace

int OpenRootOf(pid_t pid) {
  return open(absl::StrCat("/proc/", pid, "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

std::string SourceHash(pid_t pid, int root, const std::string& path) {
  if (root < 0 || path.empty() || path[0] != '/') return "";
  const std::optional<ProcStat> process = ReadProcStat(pid);
  const UniqueFd fd = OpenBelow(root, path);
  struct stat info {};
  if (!process || !fd.ok() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return "";
  if (info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec > process->StartedRealNs()) return "";
  const absl::StatusOr<std::string> text = ReadWholeFile(fd.get(), path, kMostSource);
  if (!text.ok()) return "";
  unsigned char hash[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(hash, reinterpret_cast<const unsigned char*>(text->data()), text->size());
  return absl::StrCat("sha256:",
                      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(hash), sizeof hash)));
}

}  // namespace lockstep
