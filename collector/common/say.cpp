#include "collector/common/say.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

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
  std::string line = "lockstep: ";
  line.append(text.data(), text.size());
  line.push_back('\n');
  SayBlock(line);
}

void OccupyClosedStandardFiles() {
  // The lowest free number is the next one.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", O_RDWR | O_CLOEXEC);
  }
}

std::string DurationText(long long ns) {
  char text[64];
  const double seconds = static_cast<double>(ns) / 1e9;
  if (seconds < 1) {
    snprintf(text, sizeof text, "%.0f ms", seconds * 1e3);
  } else if (seconds < 60) {
    snprintf(text, sizeof text, "%.1f s", seconds);
  } else if (seconds < 3600) {
    snprintf(text, sizeof text, "%d min %d s", static_cast<int>(seconds / 60), static_cast<int>(seconds) % 60);
  } else {
    snprintf(text, sizeof text, "%lld h %lld min", ns / 3'600'000'000'000, ns / 60'000'000'000 % 60);
  }
  return text;
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
