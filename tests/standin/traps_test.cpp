// Tests surprising behavior of the real library that callers and interposers must handle.
#include <gtest/gtest.h>
#include <string.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "tests/standin/ranks.h"

namespace standin_test {
namespace {

ncclResult_t AsyncState(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  RANK_NCCL(ncclCommGetAsyncError(comm, &state));
  return state;
}

TEST(Symbols, InnerCallsReachAPreloadedLibrary) {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    setenv("LD_PRELOAD", STANDIN_INTERPOSER, 1);
    execl(STANDIN_INTERPOSED_PROGRAM, STANDIN_INTERPOSED_PROGRAM, nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

TEST(Groups, NothingRunsBeforeTheOutermostEnd) {
  const auto statuses = RunRanks(1, [](int) {
    ncclComm_t comm = nullptr;
    RANK_NCCL(ncclCommInitAll(&comm, 1, nullptr));
    cudaStream_t stream = nullptr;
    RANK_CUDA(cudaStreamCreate(&stream));
    float* from = ToDevice(std::vector<float>(8, 7.0f));
    float* to = ToDevice(std::vector<float>(8, 0.0f));
    RANK_NCCL(ncclGroupStart());
    RANK_NCCL(ncclGroupStart());
    RANK_NCCL(ncclAllReduce(from, to, 8, ncclFloat, ncclSum, comm, stream));
    RANK_NCCL(ncclGroupEnd());
    RANK_CUDA(cudaStreamSynchronize(stream));
    RANK_CHECK(ToHost(to, 8) == std::vector<float>(8, 0.0f));
    RANK_NCCL(ncclGroupEnd());
    RANK_CUDA(cudaStreamSynchronize(stream));
    RANK_CHECK(ToHost(to, 8) == std::vector<float>(8, 7.0f));
    RANK_CHECK(ncclGroupEnd() == ncclInvalidUsage);
  });
  EXPECT_EQ(statuses, AllWell(1));
}

TEST(Groups, AnErrorIsRepeatedAtTheEndAndDropsEverything) {
  const auto statuses = RunRanks(1, [](int) {
    ncclComm_t comm = nullptr;
    RANK_NCCL(ncclCommInitAll(&comm, 1, nullptr));
    cudaStream_t stream = nullptr;
    RANK_CUDA(cudaStreamCreate(&stream));
    float* from = ToDevice(std::vector<float>(8, 7.0f));
    float* to = ToDevice(std::vector<float>(8, 0.0f));
    RANK_NCCL(ncclGroupStart());
    RANK_NCCL(ncclAllReduce(from, to, 8, ncclFloat, ncclSum, comm, stream));
    RANK_CHECK(ncclBroadcast(from, to, 8, ncclFloat, 5, comm, stream) == ncclInvalidArgument);
    RANK_CHECK(ncclGroupEnd() == ncclInvalidArgument);
    RANK_CUDA(cudaStreamSynchronize(stream));
    RANK_CHECK(ToHost(to, 8) == std::vector<float>(8, 0.0f));
    // The thread's state is clean after the error.
    RANK_NCCL(ncclAllReduce(from, to, 8, ncclFloat, ncclSum, comm, stream));
    RANK_CUDA(cudaStreamSynchronize(stream));
    RANK_CHECK(ToHost(to, 8) == std::vector<float>(8, 7.0f));
    RANK_NCCL(ncclGroupStart());
    RANK_NCCL(ncclAllReduce(to, from, 8, ncclFloat, ncclSum, comm, stream));
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    RANK_NCCL(ncclGroupSimulateEnd(&info));
    RANK_CHECK(info.estimatedTime > 0);
  });
  EXPECT_EQ(statuses, AllWell(1));
}

TEST(Groups, EveryStreamWaitsForTheFusedLaunch) {
  const auto statuses = RunRanks(1, [](int) {
    ncclComm_t comm = nullptr;
    RANK_NCCL(ncclCommInitAll(&comm, 1, nullptr));
    cudaStream_t streams[2];
    static std::atomic<bool> open{false};
    for (auto& stream : streams) {
      RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    float* data = ToDevice(std::vector<float>(8, 7.0f));
    const auto gate = [](void*) { Eventually([] { return open.load(); }); };
    RANK_CUDA(cudaLaunchHostFunc(streams[1], gate, nullptr));
    RANK_NCCL(ncclGroupStart());
    RANK_NCCL(ncclAllReduce(data, data, 8, ncclFloat, ncclSum, comm, streams[0]));
    RANK_NCCL(ncclAllReduce(data, data, 8, ncclFloat, ncclSum, comm, streams[1]));
    RANK_NCCL(ncclGroupEnd());
    RANK_CHECK(!Eventually([&] { return cudaStreamQuery(streams[0]) == cudaSuccess; }, std::chrono::milliseconds(100)));
    open = true;
    RANK_CUDA(cudaStreamSynchronize(streams[0]));
    RANK_CUDA(cudaStreamSynchronize(streams[1]));
  });
  EXPECT_EQ(statuses, AllWell(1));
}

TEST(Arguments, AreCheckedAsInNccl) {
  const auto statuses = RunRanks(1, [](int) {
    ncclComm_t comm = nullptr;
    RANK_NCCL(ncclCommInitAll(&comm, 1, nullptr));
    float data[4] = {};
    RANK_CHECK(ncclAllReduce(data, data, 4, ncclNumTypes, ncclSum, comm, nullptr) == ncclInvalidArgument);
    RANK_CHECK(ncclAllReduce(data, data, 4, static_cast<ncclDataType_t>(-1), ncclSum, comm, nullptr) ==
               ncclInvalidArgument);
    RANK_CHECK(ncclAllReduce(data, data, 4, ncclFloat, ncclNumOps, comm, nullptr) == ncclInvalidArgument);
    RANK_CHECK(ncclReduce(data, data, 4, ncclFloat, ncclSum, 1, comm, nullptr) == ncclInvalidArgument);
    RANK_CHECK(ncclSend(data, 4, ncclFloat, -1, comm, nullptr) == ncclInvalidArgument);
    RANK_CHECK(ncclAllReduce(data, data, 4, ncclFloat, ncclSum, nullptr, nullptr) == ncclInvalidArgument);
    RANK_NCCL(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, comm, nullptr));
    RANK_NCCL(ncclCommDestroy(nullptr));
    RANK_NCCL(ncclCommAbort(nullptr));
    RANK_NCCL(ncclCommFinalize(nullptr));
    RANK_NCCL(ncclCommDestroy(comm));
    int count = 0;
    RANK_CHECK(ncclCommCount(comm, &count) == ncclInvalidArgument);
    ncclUniqueId id;
    RANK_NCCL(ncclGetUniqueId(&id));
    RANK_CHECK(ncclCommInitRank(&comm, 2, id, 2) == ncclInvalidArgument);
    RANK_CHECK(ncclCommInitRank(nullptr, 2, id, 0) == ncclInvalidArgument);
  });
  EXPECT_EQ(statuses, AllWell(1));
}

TEST(Config, ShortStructuresOfOldCallersAreReadOnlyToTheirEnd) {
  const auto statuses = RunRanks(1, [](int) {
    // Places the structure of 2.14 (20 bytes, padded to 24) at the very end of a page.
    const long page = sysconf(_SC_PAGESIZE);
    auto* memory = static_cast<char*>(
        mmap(nullptr, static_cast<size_t>(2 * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    RANK_CHECK(mprotect(memory + page, static_cast<size_t>(page), PROT_NONE) == 0);
    const size_t size = 24;
    const unsigned magic = NCCL_API_MAGIC;
    const unsigned version = 21400;
    const int blocking = 1;
    char* config = memory + page - size;
    memcpy(config, &size, sizeof size);
    memcpy(config + 8, &magic, sizeof magic);
    memcpy(config + 12, &version, sizeof version);
    memcpy(config + 16, &blocking, sizeof blocking);
    ncclUniqueId id;
    RANK_NCCL(ncclGetUniqueId(&id));
    ncclComm_t comm = nullptr;
    RANK_NCCL(ncclCommInitRankConfig(&comm, 1, id, 0, reinterpret_cast<ncclConfig_t*>(config)));
    RANK_NCCL(ncclCommDestroy(comm));
    memset(config + 8, 0, sizeof magic);
    RANK_NCCL(ncclGetUniqueId(&id));
    RANK_CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, reinterpret_cast<ncclConfig_t*>(config)) == ncclInvalidArgument);
  });
  EXPECT_EQ(statuses, AllWell(1));
}

TEST(Split, HandlesAreSetLateAndKeysOrderRanks) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto statuses = RunRanks(4, [&](int rank) {
    Rank me(id, 4, rank);
    auto* const garbage = reinterpret_cast<ncclComm_t>(&id);
    // The keys reverse the order; rank 3 does not take part.
    ncclComm_t child = garbage;
    RANK_NCCL(ncclGroupStart());
    RANK_NCCL(ncclCommSplit(me.comm, rank == 3 ? NCCL_SPLIT_NOCOLOR : 7, -rank, &child, nullptr));
    RANK_CHECK(child == nullptr);
    RANK_NCCL(ncclGroupEnd());
    RANK_CHECK((child == nullptr) == (rank == 3));
    if (child) {
      int own = -1;
      int count = 0;
      RANK_NCCL(ncclCommUserRank(child, &own));
      RANK_NCCL(ncclCommCount(child, &count));
      RANK_CHECK(own == 2 - rank && count == 3);
      float* data = ToDevice(std::vector<float>(3, 1.0f));
      RANK_NCCL(ncclAllReduce(data, data, 3, ncclFloat, ncclSum, child, me.stream));
      RANK_CUDA(cudaStreamSynchronize(me.stream));
      RANK_CHECK(ToHost(data, 3) == std::vector<float>(3, 3.0f));
    }
    // Equal keys keep the parent's order.
    ncclComm_t same = nullptr;
    RANK_NCCL(ncclCommSplit(me.comm, 0, 5, &same, nullptr));
    int own = -1;
    RANK_NCCL(ncclCommUserRank(same, &own));
    RANK_CHECK(own == rank);
    // The other ranks shrink the communicator without rank 1.
    if (rank != 1) {
      int excluded[] = {1};
      ncclComm_t smaller = garbage;
      RANK_NCCL(ncclCommShrink(same, excluded, 1, &smaller, nullptr, NCCL_SHRINK_ABORT));
      int count = 0;
      RANK_NCCL(ncclCommCount(smaller, &count));
      RANK_NCCL(ncclCommUserRank(smaller, &own));
      RANK_CHECK(count == 3 && own == (rank == 0 ? 0 : rank - 1));
    }
  });
  EXPECT_EQ(statuses, AllWell(4));
}

TEST(Grow, OldRanksKeepTheirNumbersWhenACommunicatorGrows) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  Board* board = NewBoard();
  ASSERT_NE(board, nullptr);
  auto* shared = static_cast<ncclUniqueId*>(
      mmap(nullptr, sizeof(ncclUniqueId), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto statuses = RunRanks(3, [&](int rank) {
    ncclComm_t grown = nullptr;
    if (rank == 2) {
      RANK_CHECK(Eventually([&] { return board->counts[0].load() == 1; }));
      RANK_NCCL(ncclCommGrow(nullptr, 3, shared, 2, &grown, nullptr));
    } else {
      Rank me(id, 2, rank);
      if (rank == 0) {
        RANK_NCCL(ncclCommGetUniqueId(me.comm, shared));
        board->counts[0].fetch_add(1);
      }
      RANK_NCCL(ncclCommGrow(me.comm, 3, rank == 0 ? shared : nullptr, -1, &grown, nullptr));
    }
    int own = -1;
    int count = 0;
    RANK_NCCL(ncclCommUserRank(grown, &own));
    RANK_NCCL(ncclCommCount(grown, &count));
    RANK_CHECK(own == rank && count == 3);
    board->Meet(1, 3);
  });
  EXPECT_EQ(statuses, AllWell(3));
}

TEST(NonBlocking, CommunicatorsAreUsableOnlyOnceReady) {
  ASSERT_EQ(setenv("STANDIN_ASYNC_DELAY_US", "50000", 1), 0);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto statuses = RunRanks(2, [&](int rank) {
    RANK_CUDA(cudaSetDevice(rank));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    RANK_CHECK(ncclCommInitRankConfig(&comm, 2, id, rank, &config) == ncclInProgress);
    RANK_CHECK(comm != nullptr);
    int count = 0;
    RANK_CHECK(AsyncState(comm) == ncclInProgress);
    RANK_CHECK(ncclCommCount(comm, &count) == ncclInvalidArgument);
    RANK_CHECK(Eventually([&] { return AsyncState(comm) == ncclSuccess; }));
    RANK_NCCL(ncclCommCount(comm, &count));
    RANK_CHECK(count == 2);
    float* data = ToDevice(std::vector<float>(8, 1.0f));
    cudaStream_t stream = nullptr;
    RANK_CUDA(cudaStreamCreate(&stream));
    RANK_CHECK(ncclAllReduce(data, data, 8, ncclFloat, ncclSum, comm, stream) == ncclInProgress);
    // The operation is still being queued. The stream is empty, and another call is refused.
    RANK_CHECK(cudaStreamQuery(stream) == cudaSuccess);
    RANK_CHECK(ncclAllReduce(data, data, 8, ncclFloat, ncclSum, comm, stream) == ncclInvalidArgument);
    RANK_CHECK(Eventually([&] { return AsyncState(comm) == ncclSuccess; }));
    RANK_CUDA(cudaStreamSynchronize(stream));
    RANK_CHECK(ToHost(data, 8) == std::vector<float>(8, 2.0f));
    // Another thread stores the child's handle before the parent reports success.
    std::atomic<ncclComm_t> child{comm};
    RANK_CHECK(ncclCommSplit(comm, 0, 0, reinterpret_cast<ncclComm_t*>(&child), nullptr) == ncclInProgress);
    RANK_CHECK(child.load() == nullptr);
    RANK_CHECK(Eventually([&] { return AsyncState(comm) == ncclSuccess; }));
    RANK_CHECK(child.load() != nullptr);
    ncclComm_t blocking = nullptr;
    RANK_NCCL(ncclCommInitAll(&blocking, 1, &rank));
    RANK_NCCL(ncclGroupStart());
    RANK_NCCL(ncclAllReduce(data, data, 8, ncclFloat, ncclSum, comm, stream));
    RANK_CHECK(ncclAllReduce(data, data, 8, ncclFloat, ncclSum, blocking, stream) == ncclInvalidArgument);
    RANK_CHECK(ncclGroupEnd() == ncclInvalidArgument);
    const ncclResult_t ended = ncclCommFinalize(comm);
    RANK_CHECK(ended == ncclInProgress || ended == ncclSuccess);
    RANK_CHECK(Eventually([&] { return AsyncState(comm) == ncclSuccess; }));
    RANK_NCCL(ncclCommDestroy(comm));
  });
  unsetenv("STANDIN_ASYNC_DELAY_US");
  EXPECT_EQ(statuses, AllWell(2));
}

TEST(Initialization, WaitsForAllRanksAndCanBeAborted) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto statuses = RunRanks(1, [&](int) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    RANK_CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
    RANK_CHECK(!Eventually([&] { return AsyncState(comm) != ncclInProgress; }, std::chrono::milliseconds(200)));
    RANK_NCCL(ncclCommAbort(comm));
  });
  EXPECT_EQ(statuses, AllWell(1));
}

TEST(Revoke, EndsOperationsAndForbidsNewOnes) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto statuses = RunRanks(2, [&](int rank) {
    Rank me(id, 2, rank);
    float* data = ToDevice(std::vector<float>(8, 1.0f));
    if (rank == 0) {
      RANK_NCCL(ncclAllReduce(data, data, 8, ncclFloat, ncclSum, me.comm, me.stream));
    }
    RANK_NCCL(ncclCommRevoke(me.comm, NCCL_REVOKE_DEFAULT));
    RANK_CUDA(cudaStreamSynchronize(me.stream));
    RANK_CHECK(ncclAllReduce(data, data, 8, ncclFloat, ncclSum, me.comm, me.stream) == ncclInvalidUsage);
    RANK_CHECK(ncclCommFinalize(me.comm) == ncclInvalidUsage);
    ncclComm_t child = nullptr;
    RANK_NCCL(ncclCommSplit(me.comm, 0, 0, &child, nullptr));
    RANK_CHECK(child != nullptr);
    RANK_NCCL(ncclCommDestroy(me.comm));
  });
  EXPECT_EQ(statuses, AllWell(2));
}

std::vector<std::string> SharedMemoryFiles() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", error)) {
    const std::string name = entry.path().filename();
    if (name.find("standin") != std::string::npos) {
      names.push_back(name);
    }
  }
  return names;
}

TEST(Death, AKilledRankLeavesNoFileAndItsPeersWait) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  Board* board = NewBoard();
  ASSERT_NE(board, nullptr);
  const auto statuses = RunRanks(3, [&](int rank) {
    Rank me(id, 3, rank);
    float* data = ToDevice(std::vector<float>(8, 1.0f));
    board->Meet(0, 3);
    if (rank == 2) {
      kill(getpid(), SIGKILL);
    }
    RANK_NCCL(ncclAllReduce(data, data, 8, ncclFloat, ncclSum, me.comm, me.stream));
    RANK_CHECK(!Eventually([&] { return cudaStreamQuery(me.stream) == cudaSuccess; }, std::chrono::milliseconds(300)));
    RANK_CHECK(AsyncState(me.comm) == ncclSuccess);
    kill(getpid(), SIGKILL);
  });
  EXPECT_EQ(statuses, (std::vector<int>{SIGKILL, SIGKILL, SIGKILL}));
  EXPECT_EQ(SharedMemoryFiles(), std::vector<std::string>{});
}

TEST(Death, AKilledRankIsARemoteErrorIfEnabled) {
  ASSERT_EQ(setenv("STANDIN_REMOTE_ERROR", "1", 1), 0);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  Board* board = NewBoard();
  ASSERT_NE(board, nullptr);
  const auto statuses = RunRanks(2, [&](int rank) {
    Rank me(id, 2, rank);
    float* data = ToDevice(std::vector<float>(8, 1.0f));
    board->Meet(0, 2);
    if (rank == 1) {
      kill(getpid(), SIGKILL);
    }
    RANK_NCCL(ncclAllReduce(data, data, 8, ncclFloat, ncclSum, me.comm, me.stream));
    RANK_CHECK(Eventually([&] { return AsyncState(me.comm) == ncclRemoteError; }));
    RANK_CHECK(cudaStreamQuery(me.stream) == cudaErrorNotReady);
    RANK_NCCL(ncclCommAbort(me.comm));
    RANK_CUDA(cudaStreamSynchronize(me.stream));
  });
  unsetenv("STANDIN_REMOTE_ERROR");
  EXPECT_EQ(statuses, (std::vector<int>{0, SIGKILL}));
}

TEST(SharedMemory, AShortageIsASystemErrorAndNeverASignal) {
  const auto statuses = RunRanks(1, [](int) {
    signal(SIGXFSZ, SIG_IGN);
    ncclUniqueId id;
    RANK_NCCL(ncclGetUniqueId(&id));
    // There is space for the id's page but not for a communicator.
    const rlimit little{8192, 8192};
    RANK_CHECK(setrlimit(RLIMIT_FSIZE, &little) == 0);
    ncclComm_t comm = nullptr;
    RANK_CHECK(ncclCommInitRank(&comm, 1, id, 0) == ncclSystemError);
    RANK_CHECK(comm == nullptr);
    RANK_CHECK(ncclCommInitAll(&comm, 1, nullptr) == ncclSystemError);
    const rlimit none{0, 0};
    RANK_CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
    RANK_CHECK(ncclGetUniqueId(&id) == ncclSystemError);
  });
  EXPECT_EQ(statuses, AllWell(1));
}

TEST(SharedMemory, ATransportWithoutSpaceFailsOnEveryRank) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto statuses = RunRanks(3, [&](int rank) {
    setenv("NCCL_P2P_DISABLE", "1", 1);
    if (rank == 1) {
      signal(SIGXFSZ, SIG_IGN);
      // There is space for the communicator, but not for one of its receive buffers.
      const rlimit little{9637888 - 1, 9637888 - 1};
      RANK_CHECK(setrlimit(RLIMIT_FSIZE, &little) == 0);
    }
    ncclComm_t comm = nullptr;
    RANK_CHECK(ncclCommInitRank(&comm, 3, id, rank) == (rank == 1 ? ncclSystemError : ncclRemoteError));
  });
  EXPECT_EQ(statuses, AllWell(3));
}

}  // namespace
}  // namespace standin_test
