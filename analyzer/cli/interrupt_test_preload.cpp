// A preloaded library for tests. It delays opening a file in the folder LOCKSTEP_SLOW_FOLDER for reading by
// LOCKSTEP_SLOW_READ_MS, and each write to a file there by LOCKSTEP_SLOW_WRITE_MS. Tests can then interrupt fast work.
#include <dlfcn.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool Inside(const char* path) {
  const char* folder = getenv("LOCKSTEP_SLOW_FOLDER");
  return folder != nullptr && strncmp(path, folder, strlen(folder)) == 0;
}

void Wait(const char* variable) {
  const char* text = getenv(variable);
  const long milliseconds = text == nullptr ? 0 : atol(text);
  timespec left = {milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0) {
  }
}

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

using Open = int (*)(const char*, int, ...);

int OpenSlowly(const char* name, const char* path, int flags, mode_t mode) {
  if ((flags & (O_ACCMODE | O_DIRECTORY)) == O_RDONLY && Inside(path)) Wait("LOCKSTEP_SLOW_READ_MS");
  return Real<Open>(name)(path, flags, mode);
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return OpenSlowly("open", path, flags, mode);
}

__attribute__((visibility("default"))) int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return OpenSlowly("open64", path, flags, mode);
}

__attribute__((visibility("default"))) ssize_t write(int fd, const void* data, size_t bytes) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = fd > STDERR_FILENO ? readlink(link, path, sizeof path - 1) : 0;
  if (length > 0) {
    path[length] = '\0';
    if (Inside(path)) Wait("LOCKSTEP_SLOW_WRITE_MS");
  }
  return Real<ssize_t (*)(int, const void*, size_t)>("write")(fd, data, bytes);
}

}  // extern "C"
