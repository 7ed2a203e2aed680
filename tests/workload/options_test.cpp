#include "tests/workload/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace trainsim {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kShape = {"--tp", "2", "--pp", "2", "--dp", "2", "--ep", "2", "--steps", "50"};

std::vector<std::string> WithFault(const std::string& fault) {
  std::vector<std::string> args = kShape;
  args.insert(args.end(), {"--fault", fault});
  return args;
}

Options Parsed(const std::vector<std::string>& args) {
  Options options;
  bool help = true;
  std::string error;
  EXPECT_TRUE(Parse(args, &options, &help, &error)) << error;
  EXPECT_FALSE(help);
  return options;
}

std::string ErrorOf(const std::vector<std::string>& args) {
  Options options;
  bool help = false;
  std::string error;
  EXPECT_FALSE(Parse(args, &options, &help, &error));
  EXPECT_EQ(error.find('\n'), std::string::npos) << "one line: " << error;
  return error;
}

TEST(Options, ReadsShapeAndSizes) {
  Options options = Parsed({"--tp=2", "--pp", "4", "--dp", "3", "--steps", "7", "--micro-batches", "5", "--layers", "1",
                            "--elements", "1000", "--pace-ms", "2.5", "--seed", "9", "--sync", "event"});
  EXPECT_EQ(options.WorldSize(), 24);
  EXPECT_EQ(options.CommSize(CommKind::kPp), 4);
  EXPECT_EQ(options.steps, 7);
  EXPECT_EQ(options.micro_batches, 5);
  EXPECT_EQ(options.elements, 1008) << "a multiple of 4 x tp x dp";
  EXPECT_DOUBLE_EQ(options.pace_ms, 2.5);
  EXPECT_EQ(options.sync, SyncKind::kEvent);
  EXPECT_TRUE(options.faults.empty());
}

TEST(Options, ReadsPauses) {
  Options options = Parsed({"--dp", "8", "--checkpoint", "step=3,seconds=1.5,rank=2", "--checkpoint",
                            "step=9,seconds=1", "--evaluate", "step=4,seconds=2", "--slow-start", "3"});
  ASSERT_EQ(options.checkpoints.size(), 2u);
  EXPECT_EQ(options.checkpoints[0].rank, 2);
  EXPECT_EQ(options.checkpoints[1].rank, 0);
  ASSERT_EQ(options.evaluations.size(), 1u);
  EXPECT_DOUBLE_EQ(options.evaluations[0].seconds, 2);
  EXPECT_DOUBLE_EQ(options.slow_start_s, 3);
}

TEST(Options, FaultHasSensibleDefaults) {
  Options options = Parsed(WithFault("rank=5,step=20,kind=skip"));
  ASSERT_EQ(options.faults.size(), 1u);
  EXPECT_EQ(options.faults[0].rank, 5);
  EXPECT_EQ(options.faults[0].comm, CommKind::kTp);
  EXPECT_EQ(options.faults[0].op, OpKind::kAllReduce);
  EXPECT_EQ(Parsed(WithFault("rank=5,step=20,kind=wrong-root")).faults[0].op, OpKind::kBroadcast);
  EXPECT_EQ(Parsed(WithFault("rank=5,step=20,kind=skip,comm=pp")).faults[0].op, OpKind::kSend);
  EXPECT_EQ(Parsed(WithFault("rank=5,step=20,kind=extra,comm=pp")).faults[0].op, OpKind::kRecv);
  EXPECT_EQ(Parsed({"--dp", "4", "--fault", "rank=3,step=1,kind=kill"}).faults[0].comm, CommKind::kDp);
  EXPECT_EQ(Parsed({"--pp", "4", "--fault", "rank=3,step=1,kind=kill"}).faults[0].comm, CommKind::kPp);
  EXPECT_EQ(Parsed({"--pp", "4", "--fault", "rank=3,step=1,kind=wrong-op"}).faults[0].comm, CommKind::kWorld)
      << "pp issues sends and receives only";
}

TEST(Options, SeveralFaultsAndWrongData) {
  std::vector<std::string> args = WithFault("rank=4,step=20,kind=skip");
  args.insert(args.end(), {"--fault", "rank=5,step=20,kind=extra,op=allgather,nth=3"});
  Options options = Parsed(args);
  ASSERT_EQ(options.faults.size(), 2u);
  EXPECT_EQ(options.faults[1].nth, 3);
  EXPECT_EQ(options.faults[1].op, OpKind::kAllGather);
  EXPECT_FALSE(Parsed(WithFault("rank=1,step=2,kind=kill")).ExpectsWrongData());
  for (const char* kind :
       {"skip", "extra", "wrong-count", "wrong-datatype", "wrong-reduction", "wrong-root", "wrong-op"}) {
    EXPECT_TRUE(Parsed(WithFault(std::string("rank=1,step=2,kind=") + kind)).ExpectsWrongData()) << kind;
  }
}

TEST(Options, RefusesFaultsThatMakeNoSense) {
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=20,kind=wrong-root,comm=pp")), HasSubstr("world, tp, dp, ep"));
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=20,kind=wrong-op,comm=pp")), HasSubstr("send, recv"));
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=20,kind=wrong-op,op=allgather")), HasSubstr("allowed: allreduce"));
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=20,kind=skip,comm=world,op=allgather")),
              HasSubstr("allreduce, broadcast"));
  EXPECT_THAT(ErrorOf(WithFault("rank=8,step=20,kind=skip")), HasSubstr("0 to 7"));
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=51,kind=skip")), HasSubstr("1 to 50"));
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=2,kind=slip")), HasSubstr("stall-host"));
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=2")), HasSubstr("kind="));
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=2,kind=skip,who=me")), HasSubstr("'who'"));
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=2,kind=skip,value=3")), HasSubstr("wrong-count"));
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=2,kind=wrong-root,value=2")), HasSubstr("0 to 1"));
  EXPECT_THAT(ErrorOf({"--tp", "8", "--fault", "rank=5,step=2,kind=skip,comm=dp"}), HasSubstr("world tp"));
}

TEST(Options, FaultsWithAPlaceOfTheirOwn) {
  EXPECT_EQ(Parsed(WithFault("rank=5,step=20,kind=swap-order")).faults[0].comm, CommKind::kDp);
  EXPECT_EQ(Parsed(WithFault("rank=5,step=20,kind=no-group")).faults[0].comm, CommKind::kPp);
  EXPECT_EQ(Parsed(WithFault("rank=5,step=1,kind=never-init")).faults[0].comm, CommKind::kWorld);
  EXPECT_EQ(Parsed(WithFault("rank=5,step=1,kind=wrong-color")).faults[0].comm, CommKind::kTp);
  EXPECT_TRUE(Parsed(WithFault("rank=5,step=1,kind=wrong-color")).ExpectsWrongData());
  EXPECT_FALSE(Parsed(WithFault("rank=5,step=20,kind=stall-loader")).ExpectsWrongData());
  EXPECT_EQ(Parsed({"--pp", "4", "--fault", "rank=1,step=1,kind=wrong-peer"}).faults[0].op, OpKind::kSend);
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=20,kind=wrong-peer")), HasSubstr("three stages"));
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=20,kind=swap-order,comm=tp")), HasSubstr("for it: dp"));
  EXPECT_THAT(ErrorOf(WithFault("rank=5,step=20,kind=no-group,nth=2")), HasSubstr("place of its own"));
  EXPECT_THAT(ErrorOf({"--tp", "4", "--fault", "rank=1,step=1,kind=swap-order"}), HasSubstr("single rank"));
}

TEST(Options, SlowRanks) {
  const Options options =
      Parsed({"--tp", "2", "--dp", "2", "--straggle", "rank=3,ms=2.5", "--jitter", "4", "--recreate", "7"});
  EXPECT_EQ(options.straggler.rank, 3);
  EXPECT_DOUBLE_EQ(options.straggler.milliseconds, 2.5);
  EXPECT_DOUBLE_EQ(options.jitter_ms, 4);
  EXPECT_EQ(options.recreate_step, 7);
  EXPECT_THAT(ErrorOf({"--tp", "2", "--straggle", "rank=2,ms=1"}), HasSubstr("0 to 1"));
  EXPECT_THAT(ErrorOf({"--tp", "2", "--straggle", "rank=1"}), HasSubstr("rank=R,ms=MS"));
  EXPECT_THAT(ErrorOf({"--tp", "2", "--recreate", "3"}), HasSubstr("data group"));
}

TEST(Options, RefusesNonsense) {
  EXPECT_THAT(ErrorOf({"--tq", "2"}), HasSubstr("--tq"));
  EXPECT_THAT(ErrorOf({"--tp"}), HasSubstr("lacks its value"));
  EXPECT_THAT(ErrorOf({"--tp", "2x"}), HasSubstr("whole number"));
  EXPECT_THAT(ErrorOf({"--tp", "0"}), HasSubstr("from 1"));
  EXPECT_THAT(ErrorOf({"--dp", "4", "--ep", "3"}), HasSubstr("does not divide"));
  EXPECT_THAT(ErrorOf({"--tp", "65536", "--dp", "65536"}), HasSubstr("more than"));
  EXPECT_THAT(ErrorOf({"--pace-ms", "nan"}), HasSubstr("number"));
  EXPECT_THAT(ErrorOf({"--checkpoint", "step=3"}), HasSubstr("seconds"));
  EXPECT_THAT(ErrorOf({"--evaluate", "step=3,seconds=1,rank=0"}), HasSubstr("'rank'"));
  EXPECT_THAT(ErrorOf({"--fault", ""}), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(ErrorOf({"--fault", "rank=0,rank=1"}), HasSubstr("twice"));
}

TEST(Options, HelpNamesEveryKindAndOption) {
  Options options;
  bool help = false;
  std::string error;
  ASSERT_TRUE(Parse({"--tp", "2", "--help", "--nonsense"}, &options, &help, &error));
  EXPECT_TRUE(help);
  const std::string text = HelpText();
  for (int i = 0; i <= static_cast<int>(FaultKind::kException); ++i) {
    EXPECT_THAT(text, HasSubstr(Name(static_cast<FaultKind>(i))));
  }
  for (const char* option :
       {"--tp", "--ep", "--steps", "--micro-batches", "--layers", "--elements", "--pace-ms", "--seed", "--slow-start",
        "--checkpoint", "--evaluate", "--fault", "--sync", "--print-every"}) {
    EXPECT_THAT(text, HasSubstr(option));
  }
}

class EnvironmentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "8", 1);
    setenv("LOCAL_RANK", "1", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "29500", 1);
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    options_ = Parsed(kShape);
  }

  std::string Refusal() {
    Environment environment;
    std::string error;
    EXPECT_FALSE(ReadEnvironment(options_, &environment, &error));
    return error;
  }

  Options options_;
};

TEST_F(EnvironmentTest, IsRead) {
  Environment environment;
  std::string error;
  ASSERT_TRUE(ReadEnvironment(options_, &environment, &error)) << error;
  EXPECT_EQ(environment.rank, 3);
  EXPECT_EQ(environment.world, 8);
  EXPECT_EQ(environment.local_rank, 1);
  EXPECT_EQ(environment.master_addr, "127.0.0.1");
  EXPECT_EQ(environment.master_port, 29500);
}

TEST_F(EnvironmentTest, LeavesTorchrunItsPort) {
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  Environment environment;
  std::string error;
  ASSERT_TRUE(ReadEnvironment(options_, &environment, &error)) << error;
  EXPECT_EQ(environment.master_port, 29501);
}

TEST_F(EnvironmentTest, TakesOpenMpisNamesWhereTheUsualOnesAreNotSet) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) unsetenv(name);
  setenv("OMPI_COMM_WORLD_RANK", "6", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "2", 1);
  Environment environment;
  std::string error;
  const bool read = ReadEnvironment(options_, &environment, &error);
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"})
    unsetenv(name);
  ASSERT_TRUE(read) << error;
  EXPECT_EQ(environment.rank, 6);
  EXPECT_EQ(environment.world, 8);
  EXPECT_EQ(environment.local_rank, 2);
}

TEST_F(EnvironmentTest, MustFitTheShape) {
  setenv("WORLD_SIZE", "4", 1);
  EXPECT_THAT(Refusal(), HasSubstr("needs 8 ranks"));
  setenv("WORLD_SIZE", "8", 1);
  setenv("RANK", "8", 1);
  EXPECT_THAT(Refusal(), HasSubstr("RANK=8"));
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) unsetenv(name);
  EXPECT_THAT(Refusal(), HasSubstr("RANK is not set"));
}

}  // namespace
}  // namespace trainsim
