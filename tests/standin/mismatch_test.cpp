// Tests each row of the table in README.md: which ranks hang and which complete if one rank passes a wrong argument.
#include <gtest/gtest.h>

#include <string>

#include "tests/standin/ranks.h"

namespace standin_test {
namespace {

constexpr int kRanks = 4;
constexpr int kOdd = 2;                    // the rank with the wrong argument
constexpr size_t kSmall = 256;             // floats: one chunk
constexpr size_t kLarge = 3 * 8192 + 100;  // floats: four chunks of 32 KiB

struct Row {
  const char* name;
  // One letter per rank: H hangs, C completes.
  const char* expected;
  // Enqueues the operation; `odd` is true on the rank with the wrong argument.
  std::function<ncclResult_t(bool odd, int rank, float* send, float* recv, ncclComm_t comm, cudaStream_t stream)> call;
};

std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

class Mismatch : public testing::TestWithParam<Row> {};

TEST_P(Mismatch, HangsOrCompletesAsDocumented) {
  const Row& row = GetParam();
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  Board* board = NewBoard();
  ASSERT_NE(board, nullptr);
  const std::string expected = row.expected;
  int completing = 0;
  for (const char letter : expected) {
    completing += letter == 'C' ? 1 : 0;
  }
  const auto statuses = RunRanks(kRanks, [&](int rank) {
    Rank me(id, kRanks, rank);
    float* send = ToDevice(std::vector<float>(kRanks * 2 * kLarge, 1.0f));
    float* recv = ToDevice(std::vector<float>(kRanks * 2 * kLarge, 0.0f));
    RANK_NCCL(row.call(rank == kOdd, rank, send, recv, me.comm, me.stream));
    board->Meet(0, kRanks);
    const bool completes = expected[static_cast<size_t>(rank)] == 'C';
    if (completes) {
      RANK_CHECK(Eventually([&] { return cudaStreamQuery(me.stream) == cudaSuccess; }));
      board->counts[1].fetch_add(1);
    }
    RANK_CHECK(Eventually([&] { return board->counts[1].load() == completing; }));
    if (!completes) {
      RANK_CHECK(
          !Eventually([&] { return cudaStreamQuery(me.stream) != cudaErrorNotReady; }, std::chrono::milliseconds(300)));
    }
    board->Meet(2, kRanks);
    // Aborting ends the hanging operations.
    RANK_NCCL(ncclCommAbort(me.comm));
    RANK_CUDA(cudaStreamSynchronize(me.stream));
  });
  EXPECT_EQ(statuses, AllWell(kRanks));
}

#define CALL [](bool odd, [[maybe_unused]] int rank, float* send, float* recv, ncclComm_t comm, cudaStream_t stream)

const Row kRows[] = {{"nothing_wrong", "CCCC", CALL{(void)odd;
return ncclAllReduce(send, recv, kLarge, ncclFloat, ncclSum, comm, stream);
}  // namespace
}  // namespace standin_test
, {"count_same_chunks_AllReduce", "CCCC",
   CALL{return ncclAllReduce(send, recv, odd ? kSmall / 2 : kSmall, ncclFloat, ncclSum, comm, stream);
}
}
, {"count_fewer_chunks_AllReduce", "HHCH",
   CALL{return ncclAllReduce(send, recv, odd ? kSmall : kLarge, ncclFloat, ncclSum, comm, stream);
}
}
, {"count_more_chunks_AllReduce", "CCHC",
   CALL{return ncclAllReduce(send, recv, odd ? kLarge : kSmall, ncclFloat, ncclSum, comm, stream);
}
}
, {"count_fewer_chunks_AllGather", "HHCH",
   CALL{return ncclAllGather(send, recv, odd ? kSmall : kLarge, ncclFloat, comm, stream);
}
}
, {"count_more_chunks_ReduceScatter", "CCHC",
   CALL{return ncclReduceScatter(send, recv, odd ? kLarge : kSmall, ncclFloat, ncclSum, comm, stream);
}
}
, {"count_more_chunks_AlltoAll", "CCHC",
   CALL{return ncclAlltoAll(send, recv, odd ? kLarge : kSmall, ncclFloat, comm, stream);
}
}
,
    // The root cannot reuse the slot that the short receiver never empties, so the other receivers do not get the last
    // chunk.
    {"count_fewer_chunks_Broadcast_receiver", "HHCH",
     CALL{return ncclBroadcast(send, recv, odd ? kSmall : kLarge, ncclFloat, 0, comm, stream);
}
}
, {"count_more_chunks_Broadcast_receiver", "CCHC",
   CALL{return ncclBroadcast(send, recv, odd ? kLarge : kSmall, ncclFloat, 0, comm, stream);
}
}
, {"count_fewer_chunks_Broadcast_root", "HHCH",
   CALL{return ncclBroadcast(send, recv, odd ? kSmall : kLarge, ncclFloat, kOdd, comm, stream);
}
}
, {"datatype_same_chunks", "CCCC",
   CALL{return ncclAllReduce(send, recv, kSmall, odd ? ncclFloat16 : ncclFloat, ncclSum, comm, stream);
}
}
, {"datatype_wider_more_chunks", "CCHC",
   CALL{return ncclAllReduce(send, recv, 8192, odd ? ncclDouble : ncclFloat, ncclSum, comm, stream);
}
}
, {"datatype_narrower_fewer_chunks", "HHCH",
   CALL{return ncclAllReduce(send, recv, 16384, odd ? ncclFloat16 : ncclFloat, ncclSum, comm, stream);
}
}
, {"reduction", "CCCC", CALL{return ncclAllReduce(send, recv, kLarge, ncclFloat, odd ? ncclMax : ncclSum, comm, stream);
}
}
, {"root_Broadcast_other", "HCHC", CALL{return ncclBroadcast(send, recv, kSmall, ncclFloat, odd ? 1 : 0, comm, stream);
}
}
, {"root_Broadcast_self", "HCHC",
   CALL{return ncclBroadcast(send, recv, kSmall, ncclFloat, odd ? kOdd : 0, comm, stream);
}
}
, {"root_Reduce_other", "HCHH",
   CALL{return ncclReduce(send, recv, kSmall, ncclFloat, ncclSum, odd ? 1 : 0, comm, stream);
}
}
, {"root_Reduce_self", "HCHH",
   CALL{return ncclReduce(send, recv, kSmall, ncclFloat, ncclSum, odd ? kOdd : 0, comm, stream);
}
}
, {"root_Gather_other", "HCHH", CALL{return ncclGather(send, recv, kSmall, ncclFloat, odd ? 1 : 0, comm, stream);
}
}
, {"root_Scatter_other", "HCHC", CALL{return ncclScatter(send, recv, kSmall, ncclFloat, odd ? 1 : 0, comm, stream);
}
}
, {"op_AllGather_for_AllReduce", "HHHH",
   CALL{return odd ? ncclAllGather(send, recv, kSmall, ncclFloat, comm, stream)
                   : ncclAllReduce(send, recv, kSmall, ncclFloat, ncclSum, comm, stream);
}
}
, {"op_ReduceScatter_for_AllGather", "HHHH",
   CALL{return odd ? ncclReduceScatter(send, recv, kSmall, ncclFloat, ncclSum, comm, stream)
                   : ncclAllGather(send, recv, kSmall, ncclFloat, comm, stream);
}
}
, {"op_Broadcast_for_AllReduce", "HHHH",
   CALL{return odd ? ncclBroadcast(send, recv, kSmall, ncclFloat, 0, comm, stream)
                   : ncclAllReduce(send, recv, kSmall, ncclFloat, ncclSum, comm, stream);
}
}
, {"op_Reduce_for_Broadcast", "HCHC",
   CALL{return odd ? ncclReduce(send, recv, kSmall, ncclFloat, ncclSum, 0, comm, stream)
                   : ncclBroadcast(send, recv, kSmall, ncclFloat, 0, comm, stream);
}
}
, {"skipped", "HHCH",
   CALL{return odd ? ncclSuccess : ncclAllReduce(send, recv, kSmall, ncclFloat, ncclSum, comm, stream);
}
}
, {"extra", "CCHC", CALL{const ncclResult_t first = ncclAllReduce(send, recv, kSmall, ncclFloat, ncclSum, comm, stream);
return odd && first == ncclSuccess ? ncclAllReduce(send, recv, kSmall, ncclFloat, ncclSum, comm, stream) : first;
}
}
, {"Send_small_without_Recv", "CCCC", CALL{(void)recv;
return odd ? ncclSend(send, kSmall, ncclFloat, 0, comm, stream) : ncclSuccess;
}
}
, {"Send_large_without_Recv", "CCHC", CALL{(void)recv;
return odd ? ncclSend(send, kLarge, ncclFloat, 0, comm, stream) : ncclSuccess;
}
}
, {"Recv_without_Send", "CCHC", CALL{(void)send;
return odd ? ncclRecv(recv, kSmall, ncclFloat, 0, comm, stream) : ncclSuccess;
}
}
, {"Send_fewer_chunks_than_Recv", "HCCC",
   CALL{return odd         ? ncclSend(send, kSmall, ncclFloat, 0, comm, stream)
               : rank == 0 ? ncclRecv(recv, kLarge, ncclFloat, kOdd, comm, stream)
                           : ncclSuccess;
}
}
, {"Send_more_chunks_than_Recv", "CCHC",
   CALL{return odd         ? ncclSend(send, kLarge, ncclFloat, 0, comm, stream)
               : rank == 0 ? ncclRecv(recv, kSmall, ncclFloat, kOdd, comm, stream)
                           : ncclSuccess;
}
}
, {"Send_other_count_same_chunks", "CCCC",
   CALL{return odd         ? ncclSend(send, kSmall, ncclFloat, 0, comm, stream)
               : rank == 0 ? ncclRecv(recv, kSmall * 2, ncclFloat, kOdd, comm, stream)
                           : ncclSuccess;
}
}
, {"Send_against_Send_ungrouped", "HCHC", CALL{if (rank != 0 && rank != kOdd){return ncclSuccess;
}
const int peer = odd ? 0 : kOdd;
const ncclResult_t sent = ncclSend(send, kLarge, ncclFloat, peer, comm, stream);
return sent == ncclSuccess ? ncclRecv(recv, kLarge, ncclFloat, peer, comm, stream) : sent;
}
}
, {"Send_and_Recv_grouped", "CCCC", CALL{if (rank != 0 && rank != kOdd){return ncclSuccess;
}
const int peer = odd ? 0 : kOdd;
ncclGroupStart();
ncclSend(send, kLarge, ncclFloat, peer, comm, stream);
ncclRecv(recv, kLarge, ncclFloat, peer, comm, stream);
return ncclGroupEnd();
}
}
,
}
;

INSTANTIATE_TEST_SUITE_P(Table, Mismatch, testing::ValuesIn(kRows),
                         [](const testing::TestParamInfo<Row>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace standin_test
