#include "collector/common/say.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

constexpr size_t kMostColumns = 10'000;  // of a line

}  // namespace

void SayBlock(absl::string_view text) {
  WriteAll(STDERR_FILENO, {text.data(), text.size()}, "standard error").IgnoreError();
}

void Say(absl::string_view text) {
  SayBlock(absl::StrCat("lockstep: ", Printable({text.data(), text.size()}, kMostColumns), "\n"));
}

void OccupyClosedStandardFiles() {
  // The lowest free number is the next one.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", O_RDWR | O_CLOEXEC);
  }
}

}  // namespace lockstep
