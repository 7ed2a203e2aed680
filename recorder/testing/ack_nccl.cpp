// An NCCL that writes to a pipe, once it is entered, which operation it was given: the record of that operation is
// published by then. Its operations are told by their count, which the host sets to what it wants to be told back.
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

API int ncclAllReduce(const void*, void*, unsigned long count, int, int, Comm*, void*) {
  return Told(count);
}
API int ncclSend(const void*, unsigned long count, int, int, Comm*, void*) {
  return Told(count);
}
API int ncclRecv(void*, unsigned long count, int, int, Comm*, void*) {
  return Told(count);
}
