// One process with two ranks: two threads create their members of one communicator at the same time.
#include <thread>

#include "tests/support/nccl_calls.h"

int main() {
  UniqueId id;
  ncclGetUniqueId(&id);
  const auto rank = [&id](int number) {
    void* comm = nullptr;
    ncclCommInitRank(&comm, 2, id, number);
    for (int i = 0; i < 3; ++i) ncclAllReduce(nullptr, nullptr, 8, 7, 0, comm, nullptr);
  };
  std::thread other([&rank] { rank(1); });
  rank(0);
  other.join();
  return 0;
}
