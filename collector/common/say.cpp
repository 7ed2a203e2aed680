#include "collector/common/say.h"

#include <fcntl.h>
#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

constexpr size_t kMostColumns = 10'000;  // maximum length of a line

}  // namespace

std::string CleanLines(absl::string_view text) {
  std::string clean;
  if (text.empty()) return clean;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    absl::StrAppend(&clean, Printable({line.data(), line.size()}, kMostColumns), "\n");
  }
  return clean;
}

void SayBlock(absl::string_view text) { WriteAll(STDERR_FILENO, CleanLines(text), "standard error").IgnoreError(); }

void Say(absl::string_view text) {
  SayBlock(absl::StrCat("lockstep: ", Printable({text.data(), text.size()}, kMostColumns)));
}

void SilenceLibraries() { google::protobuf::SetLogHandler(nullptr); }

void OccupyClosedStandardFiles() {
  // open() assigns the lowest free number.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", O_RDWR | O_CLOEXEC);
  }
}

}  // namespace lockstep
