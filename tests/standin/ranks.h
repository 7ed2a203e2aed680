// Runs ranks as real processes for the stand-in's tests. The test program itself calls only ncclGetUniqueId, so that a
// fork never copies a running stream.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <new>
#include <thread>
#include <vector>

namespace standin_test {

constexpr auto kLimit = std::chrono::seconds(60);

// For ranks: a failed expectation prints its place, and the process exits with status 1.
#define RANK_CHECK(condition)                                                                         \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      fprintf(stderr, "%s:%d: pid %d: check failed: %s\n", __FILE__, __LINE__, getpid(), #condition); \
      _exit(1);                                                                                       \
    }                                                                                                 \
  } while (0)
#define RANK_NCCL(call)                                                                                              \
  do {                                                                                                               \
    const ncclResult_t rank_result = (call);                                                                         \
    if (rank_result != ncclSuccess) {                                                                                \
      fprintf(stderr, "%s:%d: %s gave %d: %s\n", __FILE__, __LINE__, #call, rank_result, ncclGetLastError(nullptr)); \
      _exit(1);                                                                                                      \
    }                                                                                                                \
  } while (0)
#define RANK_CUDA(call)                                                               \
  do {                                                                                \
    const cudaError_t rank_result = (call);                                           \
    if (rank_result != cudaSuccess) {                                                 \
      fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, rank_result); \
      _exit(1);                                                                       \
    }                                                                                 \
  } while (0)

// Polls `done` for at most `limit`. Returns whether it became true.
template <class F>
bool Eventually(F done, std::chrono::milliseconds limit = kLimit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Counters in memory that all ranks share.
struct Board {
  std::atomic<int> counts[16];
  // Returns when `all` ranks have called this function.
  void Meet(int which, int all) {
    counts[which].fetch_add(1);
    RANK_CHECK(Eventually([&] { return counts[which].load() >= all; }));
  }
};

inline Board* NewBoard() {
  void* page = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? nullptr : new (page) Board{};
}

// Runs body(rank) in `count` processes and returns their wait statuses (0 means success). Kills a process that runs
// longer than kLimit.
inline std::vector<int> RunRanks(int count, const std::function<void(int)>& body) {
  std::vector<pid_t> pids;
  fflush(nullptr);
  for (int rank = 0; rank < count; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      body(rank);
      _exit(0);
    }
    pids.push_back(pid);
  }
  std::vector<int> statuses(pids.size(), -1);
  size_t left = pids.size();
  const auto reap = [&] {
    for (size_t i = 0; i < pids.size(); ++i) {
      if (statuses[i] == -1 && waitpid(pids[i], &statuses[i], WNOHANG) == pids[i]) {
        --left;
      }
    }
    return left == 0;
  };
  if (!Eventually(reap)) {
    for (size_t i = 0; i < pids.size(); ++i) {
      if (statuses[i] == -1) {
        fprintf(stderr, "rank %zu timed out and was killed\n", i);
        kill(pids[i], SIGKILL);
        waitpid(pids[i], &statuses[i], 0);
      }
    }
  }
  return statuses;
}

inline std::vector<int> AllWell(int count) { return std::vector<int>(static_cast<size_t>(count), 0); }

template <class F>
void InOwnProcess(F body) {
  EXPECT_EQ(RunRanks(1, [&](int) { body(); }), AllWell(1));
}

template <class T>
T* ToDevice(const std::vector<T>& values) {
  T* pointer = nullptr;
  RANK_CUDA(cudaMalloc(&pointer, values.size() * sizeof(T)));
  RANK_CUDA(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return pointer;
}

template <class T>
std::vector<T> ToHost(const T* pointer, size_t count) {
  std::vector<T> values(count);
  RANK_CUDA(cudaMemcpy(values.data(), pointer, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

struct Rank {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;

  Rank(const ncclUniqueId& id, int count, int rank) {
    RANK_CUDA(cudaSetDevice(rank % 8));
    RANK_CUDA(cudaStreamCreate(&stream));
    RANK_NCCL(ncclCommInitRank(&comm, count, id, rank));
  }
};

}  // namespace standin_test
