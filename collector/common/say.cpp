#include "collector/common/say.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "analyzer/util/printable.h"

namespace lockstep {

void SayBlock(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
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

std::string CountText(unsigned long long value) {
  const std::string plain = std::to_string(value);
  std::string digits;
  for (size_t i = 0; i < plain.size(); ++i) {
    if (i != 0 && (plain.size() - i) % 3 == 0) digits.push_back(',');
    digits.push_back(plain[i]);
  }
  return digits;
}

}  // namespace lockstep
