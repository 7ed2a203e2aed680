#include "analyzer/formats/fr/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::fr {
namespace {

using ring::CallKind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(FrNames, EveryCollectiveOfPyTorchIsKnown) {
  struct Case {
    const char* name;
    CallKind kind;
  };
  for (const Case& one : std::vector<Case>{
           {"all_reduce", CallKind::kAllReduce},
           {"allreduce_coalesced", CallKind::kAllReduce},
           {"ALLREDUCE_coalesced", CallKind::kAllReduce},
           {"all_reduce_sparse", CallKind::kAllReduce},
           {"all_gather", CallKind::kAllGather},
           {"_all_gather_base", CallKind::kAllGather},
           {"_all_gather_oop", CallKind::kAllGather},
           {"all_gather_into_tensor", CallKind::kAllGather},
           {"all_gather_into_tensor_coalesced", CallKind::kAllGather},
           {"allgather_into_tensor_coalesced", CallKind::kAllGather},
           {"ALLGATHER_coalesced", CallKind::kAllGather},
           {"reduce_scatter", CallKind::kReduceScatter},
           {"_reduce_scatter_base", CallKind::kReduceScatter},
           {"reduce_scatter_tensor_coalesced", CallKind::kReduceScatter},
           {"REDUCE_SCATTER_coalesced", CallKind::kReduceScatter},
           {"all_to_all", CallKind::kAlltoAll},
           {"ALLTOALL_BASE", CallKind::kAlltoAll},
           {"ALLTOALL", CallKind::kAlltoAll},
           {"all_to_all_single", CallKind::kAlltoAll},
           {"broadcast", CallKind::kBroadcast},
           {"_broadcast_oop", CallKind::kBroadcast},
           {"reduce", CallKind::kReduce},
           {"_reduce_oop", CallKind::kReduce},
           {"gather", CallKind::kGather},
           {"scatter", CallKind::kScatter},
           {"barrier", CallKind::kBarrier},
           {"ALLREDUCE_BARRIER", CallKind::kBarrier},
           {"all_reduce_barrier", CallKind::kBarrier},
           {"monitored_barrier", CallKind::kBarrier},
           {"coalesced", CallKind::kCoalesced},
           {"reduce_then_dance", CallKind::kOtherCollective},
           {"windowed_put", CallKind::kOtherCollective},
       }) {
    for (const char* backend : {"nccl:", "gloo:", "xccl:", "ncclx:", "rccl:", "rcclx:", "mccl:", "hccl:", "nccl2:",
                                "NCCL:", "custom:", "custom_ring:", "ucc:", ""}) {
      std::string whole = std::string(backend) + one.name;
      OpName name = ParseOpName(whole);
      EXPECT_EQ(name.kind, one.kind) << backend << one.name;
      EXPECT_EQ(name.text, one.name);
      std::string text = one.name;
      bool end = text == "coalesced" || (text.ends_with("_coalesced") && text[0] >= 'A' && text[0] <= 'Z');
      EXPECT_EQ(name.batch_end, end) << text;
    }
    EXPECT_EQ(ParseOpName(std::string("unknown_backend:") + one.name).kind, CallKind::kNone);
  }
  for (const char* bad :
       {"", "nccl:", ":all_reduce", "ncc l:all_reduce", "foo2:all_reduce", "2:all_reduce", "nccl: "}) {
    EXPECT_EQ(ParseOpName(bad).kind, CallKind::kNone) << bad;
  }
}

TEST(FrNames, SendAndReceiveNameRanksOfTheGroup) {
  OpName send = ParseOpName("nccl:send 0->3");
  EXPECT_EQ(send.kind, CallKind::kSend);
  EXPECT_EQ(send.own, 0);
  EXPECT_EQ(send.peer, 3);
  EXPECT_EQ(send.text, "send 0->3");
  OpName recv = ParseOpName("gloo:recv 12<-7");
  EXPECT_EQ(recv.kind, CallKind::kRecv);
  EXPECT_EQ(recv.own, 12);
  EXPECT_EQ(recv.peer, 7);
  for (const char* vague : {"nccl:send", "nccl:send 0->", "nccl:send ->3", "nccl:send -1->3",
                            "nccl:send 0->99999999999", "nccl:send 0<-3", "nccl:send a->b"}) {
    EXPECT_EQ(ParseOpName(vague).kind, CallKind::kSend) << vague;
    EXPECT_EQ(ParseOpName(vague).peer, -1) << vague;
  }
  EXPECT_EQ(ParseOpName("gloo:recvAnySource").kind, CallKind::kRecv);
}

TEST(FrNames, RankListsAreParsed) {
  std::vector<int32_t> ranks;
  EXPECT_TRUE(ParseRankList("[0, 1, 15]", &ranks));
  EXPECT_THAT(ranks, ElementsAre(0, 1, 15));
  EXPECT_TRUE(ParseRankList(" [3,1]\n", &ranks));
  EXPECT_THAT(ranks, ElementsAre(3, 1));
  EXPECT_TRUE(ParseRankList("[]", &ranks));
  EXPECT_THAT(ranks, IsEmpty());
  for (const char* bad : {"", "[", "]", "[1", "1]", "[1,]", "[,1]", "[1,,2]", "[1 2]", "[-1]", "[1, 1]", "[2, 1, 2]",
                          "[99999999999]", "[1048576]", "[a]", "[1.5]", "(0, 1)"}) {
    EXPECT_FALSE(ParseRankList(bad, &ranks)) << bad;
  }
}

TEST(FrNames, LibraryVersionsAreParsed) {
  EXPECT_EQ(ParseLibraryVersion("2.27.3"), 22703);
  EXPECT_EQ(ParseLibraryVersion("2.10"), 21000);
  EXPECT_EQ(ParseLibraryVersion("2.21.5+cuda12"), 22105);
  for (const char* bad : {"", "Unknown", "2", "2.", "-1.2.3", "2.300.1"}) EXPECT_EQ(ParseLibraryVersion(bad), 0) << bad;
}

}  // namespace
}  // namespace lockstep::fr
