// Runs with interposer.cpp preloaded, and checks that the library's inner calls reach the preloaded functions. Exits
// with status 0 if all do.
#include <dlfcn.h>

#include "tests/standin/ranks.h"

namespace {

int Seen(const char* name) {
  auto* counter = static_cast<std::atomic<int>*>(dlsym(RTLD_DEFAULT, name));
  RANK_CHECK(counter != nullptr);
  return counter->exchange(0);
}

}  // namespace

int main() {
  ncclComm_t comm = nullptr;
  // Calls the strong name. The inner calls must be interposed nevertheless.
  RANK_NCCL(pncclCommInitAll(&comm, 1, nullptr));
  RANK_CHECK(Seen("standin_seen_unique_id") == 1);
  float* data = standin_test::ToDevice(std::vector<float>(4, 1.0f));
  Seen("standin_seen_async_error");
  RANK_NCCL(pncclBcast(data, 4, ncclFloat, 0, comm, nullptr));
  RANK_CHECK(Seen("standin_seen_broadcast") == 1);
  RANK_CHECK(Seen("standin_seen_async_error") == 1);
  RANK_NCCL(pncclAllReduce(data, data, 4, ncclFloat, ncclSum, comm, nullptr));
  RANK_CHECK(Seen("standin_seen_async_error") == 1);
  int count = 0;
  RANK_NCCL(pncclCommCount(comm, &count));
  RANK_CHECK(Seen("standin_seen_async_error") == 1);
  ncclWindow_t window = nullptr;
  RANK_NCCL(pncclCommWindowRegister(comm, data, 16, &window, 0));
  RANK_CHECK(Seen("standin_seen_register") == 1);
  RANK_NCCL(pncclCommWindowDeregister(comm, window));
  RANK_CHECK(Seen("standin_seen_deregister") == 1);
  RANK_NCCL(ncclCommDestroy(comm));
  return 0;
}
