// The recorder's system interface. It needs no symbols newer than glibc 2.17 and does not touch errno.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep::recorder {

#define LOCKSTEP_LIKELY(x) __builtin_expect(!!(x), 1)
#define LOCKSTEP_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define LOCKSTEP_COLD __attribute__((noinline, cold))

// Restores errno in the destructor, because the program must not see errors from the recorder's slow paths.
class ErrnoKeeper {
 public:
  ErrnoKeeper() noexcept : saved_(errno) {}
  ~ErrnoKeeper() { errno = saved_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int saved_;
};

// Raw system calls, which return the kernel's result or -errno. The symbol versions of libc's own stat and fstat are
// too new.
template <typename... Args>
inline long Sys(long number, Args... args) noexcept {
  ErrnoKeeper keep;
  const long result = syscall(number, args...);
  return result == -1 ? -errno : result;
}

// Reads the beginning of a file and appends a zero. Returns the number of bytes before the zero, or -errno.
inline long ReadStart(const char* path, char* to, size_t size) noexcept {
  const long fd = Sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) return fd;
  const long got = Sys(SYS_read, fd, to, size - 1);
  Sys(SYS_close, fd);
  to[got > 0 ? got : 0] = 0;
  return got;
}

inline int32_t ThreadId() noexcept { return static_cast<int32_t>(Sys(SYS_gettid)); }
inline int32_t ProcessId() noexcept { return static_cast<int32_t>(Sys(SYS_getpid)); }

template <typename T>
inline T Load(const T* p) noexcept {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
template <typename T>
inline T LoadAcquire(const T* p) noexcept {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
template <typename T, typename V>
inline void Store(T* p, V v) noexcept {
  __atomic_store_n(p, static_cast<T>(v), __ATOMIC_RELAXED);
}
template <typename T, typename V>
inline void StoreRelease(T* p, V v) noexcept {
  __atomic_store_n(p, static_cast<T>(v), __ATOMIC_RELEASE);
}
template <typename T>
inline bool Swap(T* p, T expected, T desired) noexcept {
  return __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}
template <typename T, typename V>
inline T Add(T* p, V v) noexcept {
  return __atomic_fetch_add(p, static_cast<T>(v), __ATOMIC_RELAXED);
}
// Raises the variable to `value` if it is lower. Threads may store their values in any order.
template <typename T>
inline void Raise(T* p, T value) noexcept {
  T there = Load(p);
  while (there < value && !__atomic_compare_exchange_n(p, &there, value, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
  }
}
// Orders the earlier stores before the later ones. Readers rely on it between their preads.
inline void FenceRelease() noexcept { __atomic_thread_fence(__ATOMIC_RELEASE); }

// Blocks all signals of the calling thread while a handler that forks or jumps out must not interrupt the work. Costs
// two system calls, so only for cold paths.
class SignalsHeld {
 public:
  SignalsHeld() noexcept { held_ = Sys(SYS_rt_sigprocmask, 0L /* SIG_BLOCK */, &kAll, &before_, sizeof(before_)) == 0; }
  ~SignalsHeld() {
    if (held_) Sys(SYS_rt_sigprocmask, 2L /* SIG_SETMASK */, &before_, nullptr, sizeof(before_));
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  static constexpr uint64_t kAll = ~uint64_t{0};
  uint64_t before_ = 0;
  bool held_ = false;
};

// Copies at most size - 1 bytes and appends a zero.
inline void CopyText(char* to, size_t size, const char* from) noexcept {
  size_t n = 0;
  while (from != nullptr && n + 1 < size && from[n] != 0) {
    to[n] = from[n];
    ++n;
  }
  to[n] = 0;
}

inline uint64_t Mix(uint64_t x) noexcept {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  return x ^ (x >> 32);
}

}  // namespace lockstep::recorder
