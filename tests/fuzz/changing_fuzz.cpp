// Changes a file while the process reads it. The first byte selects the change, the second the number of reads before
// it, and the next two the offset in the file (in 65,536ths); the rest is the file. Change 0: the file is cut at the
// offset. 1: the file grows to twice its length. 2: bytes at the offset change. All reads of the process go through
// this code (linked with --wrap).
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "analyzer/engine/engine.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/report/report.h"
#include "tests/fuzz/accepted.h"

namespace {

struct Change {
  int fd = -1;
  int left = 0;  // reads that remain until the change
  int kind = 0;
  off_t at = 0, size = 0;
  ino_t inode = 0;
} change;

void BeforeRead(int fd) {
  struct stat info {};
  if (change.fd < 0 || change.left < 0 || fstat(fd, &info) != 0 || info.st_ino != change.inode || change.left-- > 0)
    return;
  if (change.kind == 2) {
    static constexpr char kOther[] = "\xff\x00\x80\x7f\xff\xff\xff\xff";
    (void)!pwrite(change.fd, kOther, sizeof kOther - 1, change.at);
  } else {
    (void)!ftruncate(change.fd, change.kind == 0 ? change.at : 2 * change.size);
  }
}

}  // namespace

extern "C" {
ssize_t __real_read(int fd, void* to, size_t size);
ssize_t __real_pread(int fd, void* to, size_t size, off_t at);
ssize_t __wrap_read(int fd, void* to, size_t size) {
  BeforeRead(fd);
  return __real_read(fd, to, size);
}
ssize_t __wrap_pread(int fd, void* to, size_t size, off_t at) {
  BeforeRead(fd);
  return __real_pread(fd, to, size, at);
}
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const int fd = memfd_create("rank_0", MFD_CLOEXEC);
  if (fd < 0) return 0;
  if (write(fd, data + 4, size - 4) != static_cast<ssize_t>(size - 4)) std::abort();
  struct stat info {};
  if (fstat(fd, &info) != 0) std::abort();
  change = {fd, data[1] % 32, data[0] % 3, 0, info.st_size, info.st_ino};
  change.at = info.st_size * (data[2] | data[3] << 8) / 65536;
  const auto bundle = lockstep::LoadPaths({"/proc/self/fd/" + std::to_string(fd)});
  change.fd = -1;
  close(fd);
  if (!bundle.ok()) {
    if (bundle.status().message().empty()) std::abort();
    return 0;
  }
  lockstep::fuzz_accepted += bundle->ranks.empty() ? 0 : 1;
  for (const lockstep::Rank& rank : bundle->ranks) {
    for (const lockstep::Membership& m : rank.memberships) {
      if (m.comm >= bundle->comms.size()) std::abort();
    }
  }
  const lockstep::Verdict verdict = lockstep::Analyze(*bundle);
  if (lockstep::VerdictText(verdict, *bundle).empty()) std::abort();
  return 0;
}
