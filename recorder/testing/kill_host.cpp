// A rank that works until it is killed: one thread with collectives and one with groups of sends and receives, each on
// its own communicator. The program acknowledges recorded calls on a pipe, from inside NCCL and again after the call
// returned. Each word on the pipe has the kind from bit 40 on (1 collective entered, 2 send or receive entered, 3
// collective returned, 4 group ended) and the operation's number in the lower bits.
#include <unistd.h>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "tests/support/nccl_calls.h"

namespace {

void* Stream(unsigned long value) { return reinterpret_cast<void*>(value); }

// Words are passed as NCCL's count, which has 43 bits in a packed record.
uint64_t Word(uint64_t kind, uint64_t number) { return kind << 40 | number; }

void Tell(int pipe, uint64_t word) {
  if (write(pipe, &word, sizeof(word)) != sizeof(word)) _exit(3);
}

void* MakeComm() {
  UniqueId id;
  void* comm = nullptr;
  ncclGetUniqueId(&id);
  if (ncclCommInitRank(&comm, 4, id, 0) != 0) _exit(4);
  return comm;
}

}  // namespace

int main() {
  const char* text = std::getenv("ACK_PIPE");
  if (text == nullptr) return 2;
  const int pipe = std::atoi(text);
  void* const first = MakeComm();
  void* const second = MakeComm();
  std::thread groups([=] {
    uint64_t number = 0;
    while (true) {
      ncclGroupStart();
      for (int peer = 0; peer < 4; ++peer) {
        ncclSend(nullptr, Word(2, ++number), 7, peer, second, Stream(0x5000));
        ncclRecv(nullptr, Word(2, ++number), 7, peer, second, Stream(0x5000));
      }
      ncclGroupEnd();
      Tell(pipe, Word(4, number));
    }
  });
  for (uint64_t number = 1;; ++number) {
    ncclAllReduce(nullptr, nullptr, Word(1, number), 7, 0, first, Stream(0x6000));
    Tell(pipe, Word(3, number));
  }
}
