// An NCCL that writes each operation to a pipe when the operation is entered. At that time, its record is already
// published. The count, which the program chooses, identifies an operation.
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/stub_nccl.h"

static int g_pipe = -1;

static int Told(unsigned long count) {
  if (g_pipe < 0) {
    const char* text = getenv("ACK_PIPE");
    g_pipe = text != nullptr ? atoi(text) : 2;
  }
  return write(g_pipe, &count, sizeof(count)) == sizeof(count) ? 0 : 3;
}

API int ncclAllReduce(const void*, void*, unsigned long count, int, int, Comm*, void*) { return Told(count); }
API int ncclSend(const void*, unsigned long count, int, int, Comm*, void*) { return Told(count); }
API int ncclRecv(void*, unsigned long count, int, int, Comm*, void*) { return Told(count); }
