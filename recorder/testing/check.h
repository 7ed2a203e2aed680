// For programs that tests run: ends the program at the first call that fails, and names the call on standard output.
#pragma once

#include <unistd.h>

#include <cstdio>

inline void Check(long result, const char* what, int line) {
  if (result == 0) return;
  std::printf("line %d: %s gave %ld\n", line, what, result);
  std::fflush(stdout);
  _exit(1);
}
#define CHECK(call) Check(static_cast<long>(call), #call, __LINE__)
