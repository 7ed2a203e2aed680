// Tests NCCL libraries older and newer than the recorder's headers, and RCCL. Every call is forwarded, missing
// functions are refused and noted, and known functions are recorded.
#include <map>
#include <string>

#include "recorder/testing/lives_runs.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::CommSnapshot;
using ring::OpSnapshot;
using ring::Snapshot;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

struct Version {
  const char* name;
  int code;
};

class VersionTest : public LivesRuns, public ::testing::WithParamInterface<Version> {};

TEST_P(VersionTest, EveryCallAnswersAsTheLibraryDoes) {
  const Version version = GetParam();
  const std::string nccl = std::string(LIVES_STANDIN "/nccl-") + version.name + "/libnccl.so.2";
  const std::string out = RunBoth("versions", "", nccl);
  EXPECT_THAT(out, HasSubstr("version " + std::to_string(version.code)));
  const Snapshot ring = Copied("used");
  EXPECT_EQ(ring.process.nccl_version, version.code);
  const CommSnapshot& world = ring.comms.at(0);
  EXPECT_EQ(world.size, 1);
  std::map<CallKind, int> launched;
  const int configs = version.code >= 23102 ? 1 : 0;  // collectives with a per-call configuration
  for (const OpSnapshot& op : ring.ops)
    launched[op.kind] += (op.comm == 0 || op.kind == CallKind::kCommSplit) && op.stage == ring::OpStage::kLaunched;
  EXPECT_EQ(launched[CallKind::kAllReduce], (version.code >= 21000 ? 2 : 1) + configs) << "averages exist since 2.10";
  EXPECT_EQ(launched[CallKind::kAllGather],
            (version.code >= 21000) + (version.code >= 22400) + (version.code > 23203) + configs);
  EXPECT_EQ(launched[CallKind::kBroadcast], 2 + configs);
  EXPECT_EQ(launched[CallKind::kSend], version.code >= 2700 ? 1 : 0);
  EXPECT_EQ(launched[CallKind::kAlltoAll], (version.code >= 22803) + configs);
  EXPECT_EQ(launched[CallKind::kScatter], (version.code >= 22803) + configs);
  EXPECT_EQ(ring.process.newest_nccl, 23203);
  const bool future = version.code > 23203;
  EXPECT_EQ(ring.process.unwrapped, future ? 1u : 0u);
  EXPECT_EQ(ring.process.unwrapped_names, future ? "ncclAllGatherEverything" : "");
  EXPECT_EQ(launched[CallKind::kSignal], version.code >= 22900 ? 1 : 0);
  EXPECT_EQ(launched[CallKind::kCommSplit], version.code >= 21800 ? 1 : 0);
  EXPECT_EQ(world.issued_seq, static_cast<uint64_t>(launched[CallKind::kAllReduce] + launched[CallKind::kAllGather] +
                                                    launched[CallKind::kBroadcast] + launched[CallKind::kReduce] +
                                                    launched[CallKind::kReduceScatter] + launched[CallKind::kAlltoAll] +
                                                    launched[CallKind::kGather] + launched[CallKind::kScatter]));
}

// The program was linked against a newer NCCL than it finds. Only the recorder has these functions.
TEST_P(VersionTest, MissingCallsReturnInvalidUsageAndAreNoted) {
  const Version version = GetParam();
  const support::Outcome outcome =
      Run("'" LIVES_LINKED_HOST "'", Recorded() + "LD_LIBRARY_PATH='" LIVES_STANDIN "/nccl-" +
                                         std::string(version.name) + ":" LIVES_STANDIN "/lib'");
  ASSERT_EQ(outcome.status, 0) << outcome.out;
  const auto says = [&](const char* what, int since) {
    const std::string refused = std::string(what) + " 5 errno 44\n";
    if (version.code < since) {
      EXPECT_THAT(outcome.out, HasSubstr(refused));
    }
  };
  says("split", 21800);
  says("shrink", 22700);
  says("grow", 22900);
  says("config", 21400);
  says("scalable", 22300);
  says("send", 2700);
  says("all to all", 22803);
  says("configured reduce", 23102);
  says("signal", 22900);
  says("memory", 21900);
  says("statistics", 22907);
  says("finalize", 21400);
  says("revoke", 22807);
  says("simulate", 22200);
  if (version.code < 22803) {
    EXPECT_THAT(outcome.out, HasSubstr("team 0 0 0, slots 0"));
  }
  const Snapshot ring = AtEnd();
  if (version.code < 22900) {
    EXPECT_THAT(ring.process.note, HasSubstr("missing in the loaded NCCL: "));
    EXPECT_THAT(ring.process.note, HasSubstr(version.code < 21800 ? "ncclCommSplit" : "ncclCommGrow"));
  } else {
    EXPECT_THAT(ring.process.note, Not(HasSubstr("ncclCommGrow")));
  }
  EXPECT_EQ(ring.comms.at(0).size, 1);
}

INSTANTIATE_TEST_SUITE_P(Nccl, VersionTest,
                         ::testing::Values(Version{"2.4", 2408}, Version{"2.7", 2708}, Version{"2.10", 21003},
                                           Version{"2.14", 21403}, Version{"2.18", 21805}, Version{"2.23", 22304},
                                           Version{"2.27", 22707}, Version{"2.29", 22907}, Version{"2.30", 23007},
                                           Version{"future", 23300}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& c : name) c = c == '.' ? '_' : c;
                           return name;
                         });

class OtherLibraryTest : public LivesRuns {};

TEST_F(OtherLibraryTest, NamesAndNumbersOfANewerNcclAreKept) {
  RunBoth("future", "", LIVES_STANDIN "/nccl-future/libnccl.so.2");
  const Snapshot ring = Copied("future");
  EXPECT_EQ(ring.process.nccl_version, 23300);
  ASSERT_THAT(ring.comms, SizeIs(2));
  for (const CommSnapshot& comm : ring.comms)
    EXPECT_EQ(comm.issued_seq, 3u) << "the calls inside an unknown function are not recorded";
  int types = 0, reductions = 0;
  for (const OpSnapshot& op : ring.ops) {
    types += op.kind == CallKind::kAllGather && op.datatype == 12;
    reductions += op.kind == CallKind::kAllReduce && op.reduction == 5;
  }
  EXPECT_EQ(types, 2);
  EXPECT_EQ(reductions, 2);
}

// The real NCCL runs until its first look for a device.
TEST_F(OtherLibraryTest, NvidiasNcclWithoutADeviceFailsAsItDoesUnrecorded) {
  const std::string nccl = "/usr/local/cuda/lib/libnccl.so.2";
  if (!std::filesystem::exists(nccl)) GTEST_SKIP() << "no " << nccl;
  if (std::filesystem::exists("/dev/nvidiactl"))
    GTEST_SKIP() << "there may be a device, and initialization would wait for peers";
  const std::string out = RunBoth("no-device", "", nccl, nccl);
  EXPECT_THAT(out, HasSubstr("id 0"));
  EXPECT_THAT(out, Not(HasSubstr("init 0")));
  const Snapshot ring = AtEnd();
  EXPECT_GE(ring.process.nccl_version, 20000);
  ASSERT_THAT(ring.comms, SizeIs(1));
  EXPECT_EQ(ring.comms[0].state, ring::CommState::kInitFailed);
  EXPECT_EQ(ring.comms[0].size, 3);
  EXPECT_EQ(ring.comms[0].member_rank, 2);
  EXPECT_NE(ring.comms[0].id, 0u);
  const OpSnapshot& init = ring.ops.at(0);
  EXPECT_EQ(init.kind, CallKind::kCommInitRank);
  EXPECT_EQ(init.stage, ring::OpStage::kFailed);
  EXPECT_THAT(out, HasSubstr("init " + std::to_string(init.result)));
}

TEST_F(OtherLibraryTest, RcclAndHipAreRecordedUnderTheirNames) {
  RunBoth("rocm", "LOCKSTEP_GPU=full", LIVES_STANDIN "/rocm/librccl.so.1", LIVES_STANDIN "/rocm/libamdhip64.so.6",
          "hip");
  const Snapshot ring = Copied("rocm");
  EXPECT_EQ(ring.process.nccl_version, 22707);
  EXPECT_NE(ring.process.gpu_uuid, "");
  ASSERT_THAT(ring.comms, SizeIs(2));
  std::map<CallKind, int> calls;
  for (const OpSnapshot& op : ring.ops) ++calls[op.kind];
  EXPECT_EQ(calls[CallKind::kAllReduce], 16) << "including two with a bias";
  EXPECT_EQ(calls[CallKind::kAlltoAll], 2);
  EXPECT_EQ(calls[CallKind::kOtherCollective], 6) << "both with counts for every pair, and one by a named algorithm";
  EXPECT_EQ(ring.process.unwrapped, 0u) << ring.process.unwrapped_names;
  EXPECT_EQ(calls[CallKind::kSend], 0) << "RCCL's inner calls must not be recorded";
  for (const CommSnapshot& comm : ring.comms) {
    EXPECT_EQ(comm.issued_seq, 12u);
    EXPECT_EQ(comm.device, comm.member_rank);
  }
  // HIP's stream writes mark both devices, although one thread drives them.
  int marked = 0, depends = 0, on_own_stream = 0;
  for (const ring::StreamSnapshot& stream : ring.streams) {
    if (stream.issued > 0) {
      EXPECT_TRUE(stream.marked);
      EXPECT_EQ(stream.completed, stream.issued);
      EXPECT_EQ(stream.first_error, 0);
      ++marked;
    }
    for (const auto& wait : stream.depends_on) on_own_stream += ring.streams.at(wait.stream).handle == 2;
    depends += static_cast<int>(stream.depends_on.size());
  }
  EXPECT_EQ(marked, 3);
  EXPECT_EQ(depends, 2) << "hipEventRecord and hipEventRecord_spt";
  EXPECT_EQ(on_own_stream, 1) << "hipEventRecord_spt";
  EXPECT_GT(ring.threads.at(0).last_call_ns, 0);
}

}  // namespace
}  // namespace lockstep
