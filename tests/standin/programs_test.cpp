// Tests programs like those that users write, and like NCCL's own examples.
#include <gtest/gtest.h>
#include <string.h>

#include "tests/standin/ranks.h"

namespace standin_test {
namespace {

constexpr size_t kCount = 40000;

TEST(Programs, OneProcessDrivesManyDevices) {
  const auto statuses = RunRanks(1, [](int) {
    int devices = 0;
    RANK_CUDA(cudaGetDeviceCount(&devices));
    RANK_CHECK(devices == 8);
    std::vector<ncclComm_t> comms(static_cast<size_t>(devices));
    RANK_NCCL(ncclCommInitAll(comms.data(), devices, nullptr));
    std::vector<cudaStream_t> streams;
    std::vector<float*> send;
    std::vector<float*> recv;
    for (int i = 0; i < devices; ++i) {
      cudaDeviceProp properties;
      RANK_CUDA(cudaGetDeviceProperties(&properties, i));
      RANK_CHECK(strcmp(properties.name, "CPU stand-in") == 0 && properties.totalGlobalMem > 0);
      RANK_CUDA(cudaSetDevice(i));
      cudaStream_t stream;
      RANK_CUDA(cudaStreamCreate(&stream));
      streams.push_back(stream);
      send.push_back(ToDevice(std::vector<float>(kCount, static_cast<float>(i))));
      float* made = nullptr;
      RANK_CUDA(cudaMalloc(reinterpret_cast<void**>(&made), kCount * sizeof(float)));
      RANK_CUDA(cudaMemset(made, 0, kCount * sizeof(float)));
      recv.push_back(made);
      int rank = -1;
      int count = 0;
      int device = -1;
      RANK_NCCL(ncclCommUserRank(comms[static_cast<size_t>(i)], &rank));
      RANK_NCCL(ncclCommCount(comms[static_cast<size_t>(i)], &count));
      RANK_NCCL(ncclCommCuDevice(comms[static_cast<size_t>(i)], &device));
      RANK_CHECK(rank == i && count == devices && device == i);
    }
    RANK_NCCL(ncclGroupStart());
    for (size_t i = 0; i < comms.size(); ++i) {
      RANK_NCCL(ncclAllReduce(send[i], recv[i], kCount, ncclFloat, ncclSum, comms[i], streams[i]));
    }
    RANK_NCCL(ncclGroupEnd());
    for (size_t i = 0; i < comms.size(); ++i) {
      RANK_CUDA(cudaSetDevice(static_cast<int>(i)));
      RANK_CUDA(cudaStreamSynchronize(streams[i]));
      RANK_CHECK(ToHost(recv[i], kCount) == std::vector<float>(kCount, 28.0f));
      RANK_CUDA(cudaFree(send[i]));
      RANK_CUDA(cudaFree(recv[i]));
      RANK_CUDA(cudaStreamDestroy(streams[i]));
    }
    for (ncclComm_t comm : comms) {
      RANK_NCCL(ncclCommFinalize(comm));
      RANK_NCCL(ncclCommDestroy(comm));
    }
  });
  EXPECT_EQ(statuses, AllWell(1));
}

TEST(Programs, OneProcessRunsARing) {
  const auto statuses = RunRanks(1, [](int) {
    constexpr size_t kDevices = 4;
    ncclComm_t comms[kDevices];
    cudaStream_t streams[kDevices];
    float* send[kDevices];
    float* recv[kDevices];
    RANK_NCCL(ncclCommInitAll(comms, kDevices, nullptr));
    for (size_t i = 0; i < kDevices; ++i) {
      RANK_CUDA(cudaSetDevice(static_cast<int>(i)));
      RANK_CUDA(cudaStreamCreate(&streams[i]));
      send[i] = ToDevice(std::vector<float>(kCount, static_cast<float>(i)));
      recv[i] = ToDevice(std::vector<float>(kCount, -1.0f));
    }
    RANK_NCCL(ncclGroupStart());
    for (size_t i = 0; i < kDevices; ++i) {
      RANK_NCCL(ncclSend(send[i], kCount, ncclFloat, static_cast<int>((i + 1) % kDevices), comms[i], streams[i]));
      RANK_NCCL(
          ncclRecv(recv[i], kCount, ncclFloat, static_cast<int>((i + kDevices - 1) % kDevices), comms[i], streams[i]));
    }
    RANK_NCCL(ncclGroupEnd());
    for (size_t i = 0; i < kDevices; ++i) {
      RANK_CUDA(cudaSetDevice(static_cast<int>(i)));
      RANK_CUDA(cudaStreamSynchronize(streams[i]));
      const auto from = static_cast<float>((i + kDevices - 1) % kDevices);
      RANK_CHECK(ToHost(recv[i], kCount) == std::vector<float>(kCount, from));
      RANK_NCCL(ncclCommDestroy(comms[i]));
    }
  });
  EXPECT_EQ(statuses, AllWell(1));
}

TEST(Programs, OneThreadDrivesEachDevice) {
  const auto statuses = RunRanks(1, [](int) {
    constexpr int kThreads = 4;
    ncclUniqueId id;
    RANK_NCCL(ncclGetUniqueId(&id));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kThreads; ++rank) {
      threads.emplace_back([&id, rank] {
        Rank me(id, kThreads, rank);
        float* data = ToDevice(std::vector<float>(kCount, 1.0f));
        RANK_NCCL(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, me.comm, me.stream));
        RANK_CUDA(cudaStreamSynchronize(me.stream));
        RANK_CHECK(ToHost(data, kCount) == std::vector<float>(kCount, 4.0f));
        RANK_NCCL(ncclCommFinalize(me.comm));
        RANK_NCCL(ncclCommDestroy(me.comm));
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
  });
  EXPECT_EQ(statuses, AllWell(1));
}

TEST(Programs, OneProcessDrivesEachDevice) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto statuses = RunRanks(8, [&](int rank) {
    Rank me(id, 8, rank);
    float* data = ToDevice(std::vector<float>(100, 1.0f));
    for (int i = 0; i < 200; ++i) {
      RANK_NCCL(ncclAllReduce(data, data, 100, ncclFloat, ncclAvg, me.comm, me.stream));
    }
    RANK_CUDA(cudaStreamSynchronize(me.stream));
    RANK_CHECK(ToHost(data, 100) == std::vector<float>(100, 1.0f));
    RANK_NCCL(ncclCommDestroy(me.comm));
  });
  EXPECT_EQ(statuses, AllWell(8));
}

TEST(Programs, RegisteredMemoryAndWindowsWork) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto statuses = RunRanks(4, [&](int rank) {
    Rank me(id, 4, rank);
    void* memory = nullptr;
    RANK_NCCL(ncclMemAlloc(&memory, kCount * sizeof(float)));
    void* registration = nullptr;
    RANK_NCCL(ncclCommRegister(me.comm, memory, kCount * sizeof(float), &registration));
    ncclWindow_t window = nullptr;
    RANK_NCCL(ncclCommWindowRegister(me.comm, memory, kCount * sizeof(float), &window, NCCL_WIN_COLL_SYMMETRIC));
    RANK_CHECK(window != nullptr);
    void* back = nullptr;
    RANK_NCCL(ncclWinGetUserPtr(me.comm, window, &back));
    RANK_CHECK(back == memory);
    const std::vector<float> values(kCount, static_cast<float>(rank));
    RANK_CUDA(cudaMemcpy(memory, values.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
    RANK_NCCL(ncclAllReduce(memory, memory, kCount, ncclFloat, ncclMax, me.comm, me.stream));
    RANK_CUDA(cudaStreamSynchronize(me.stream));
    RANK_CHECK(ToHost(static_cast<float*>(memory), kCount) == std::vector<float>(kCount, 3.0f));
    RANK_NCCL(ncclCommWindowDeregister(me.comm, window));
    RANK_NCCL(ncclCommDeregister(me.comm, registration));
    RANK_CHECK(ncclCommDeregister(me.comm, registration) == ncclInvalidUsage);
    RANK_NCCL(ncclMemFree(memory));
    RANK_CHECK(ncclCommWindowRegister(me.comm, reinterpret_cast<char*>(&window) + 1, 8, &window, 0) ==
               ncclInvalidArgument);
    RANK_NCCL(ncclCommDestroy(me.comm));
  });
  EXPECT_EQ(statuses, AllWell(4));
}

TEST(Programs, OneGroupRegistersAWindowOfManyDevices) {
  const auto statuses = RunRanks(1, [](int) {
    ncclComm_t comms[2];
    RANK_NCCL(ncclCommInitAll(comms, 2, nullptr));
    void* memory[2] = {};
    ncclWindow_t windows[2] = {};
    RANK_NCCL(ncclGroupStart());
    for (int i = 0; i < 2; ++i) {
      RANK_NCCL(ncclMemAlloc(&memory[i], 4096));
      RANK_NCCL(ncclCommWindowRegister(comms[i], memory[i], 4096, &windows[i], NCCL_WIN_COLL_SYMMETRIC));
      RANK_CHECK(windows[i] == nullptr);
    }
    RANK_NCCL(ncclGroupEnd());
    RANK_CHECK(windows[0] != nullptr && windows[1] != nullptr);
  });
  EXPECT_EQ(statuses, AllWell(1));
}

TEST(Programs, GroupedBatchesRunInBothDirections) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto statuses = RunRanks(4, [&](int rank) {
    Rank me(id, 4, rank);
    // Every rank sends two blocks to every rank, including itself. Each block fills many mailbox slots.
    std::vector<float*> out;
    std::vector<float*> in;
    RANK_NCCL(ncclGroupStart());
    for (int peer = 0; peer < 4; ++peer) {
      for (int part = 0; part < 2; ++part) {
        out.push_back(ToDevice(std::vector<float>(kCount, static_cast<float>(rank * 100 + peer * 10 + part))));
        in.push_back(ToDevice(std::vector<float>(kCount, -1.0f)));
        RANK_NCCL(ncclSend(out.back(), kCount, ncclFloat, peer, me.comm, me.stream));
        RANK_NCCL(ncclRecv(in.back(), kCount, ncclFloat, peer, me.comm, me.stream));
      }
    }
    RANK_NCCL(ncclGroupEnd());
    RANK_CUDA(cudaStreamSynchronize(me.stream));
    for (int peer = 0; peer < 4; ++peer) {
      for (int part = 0; part < 2; ++part) {
        const auto expected = static_cast<float>(peer * 100 + rank * 10 + part);
        RANK_CHECK(ToHost(in[static_cast<size_t>(peer * 2 + part)], kCount) == std::vector<float>(kCount, expected));
      }
    }
    RANK_CHECK(ncclSend(out[0], kCount, ncclFloat, rank, me.comm, me.stream) == ncclInvalidUsage);
    RANK_NCCL(ncclCommDestroy(me.comm));
  });
  EXPECT_EQ(statuses, AllWell(4));
}

}  // namespace
}  // namespace standin_test
