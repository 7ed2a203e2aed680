// Tests that a program is recorded in whichever way it finds NCCL's functions, and that lookups return the same as
// without the recorder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "recorder/ring/reader.h"
#include "tests/support/preload.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::CommSnapshot;
using ring::OpSnapshot;
using ring::OpStage;
using ring::Snapshot;
using support::Outcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string Quoted(const std::string& text) { return "'" + text + "'"; }

class WaysTest : public support::PreloadRuns {
 protected:
  Outcome Run(const std::string& program, const std::string& preload = LOCKSTEP_LIBRARY,
              const std::string& environment = "") const {
    return PreloadRuns::Run(program, preload, environment);
  }
  static std::string Program(const std::string& arguments) { return "'" LOCKSTEP_LOOKUP_PROGRAM "' " + arguments; }

  // Returns the counts of the AllReduces in the ring, in program order. Each must have been launched.
  static std::vector<uint64_t> Counts(const Snapshot& ring) {
    std::map<uint64_t, uint64_t> by_order;
    for (const OpSnapshot& op : ring.ops) {
      if (op.kind != CallKind::kAllReduce || op.thread == UINT32_MAX) continue;
      EXPECT_EQ(op.stage, OpStage::kLaunched);
      EXPECT_NE(op.caller_object, 0u);
      by_order[op.index] = op.count;
    }
    std::vector<uint64_t> counts;
    for (const auto& [index, count] : by_order) counts.push_back(count);
    return counts;
  }
  // Returns kind, stage and group of every record, in program order.
  static std::vector<std::vector<uint64_t>> Shape(const Snapshot& ring) {
    std::vector<std::vector<uint64_t>> shape;
    for (const OpSnapshot& op : ring.ops) {
      if (op.thread == UINT32_MAX) continue;
      shape.push_back({op.thread, op.index, static_cast<uint64_t>(op.kind), static_cast<uint64_t>(op.stage), op.group});
    }
    std::sort(shape.begin(), shape.end());
    return shape;
  }
  static std::string WithoutCuda(const std::string& text, bool keep) {
    std::string kept;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (keep || line.find(" cudaMalloc ") == std::string::npos) kept += line + "\n";
    }
    return kept;
  }
  // Expects the same output with and without the recorder. Returns the ring, which is then removed.
  Snapshot ExpectSameAndRecorded(const std::string& arguments, const std::string& others = "", bool before = false) {
    SCOPED_TRACE(arguments + (before ? " with the recorder behind " : " with the recorder before ") + others);
    const Outcome plain = Run(Program(arguments), others);
    std::string preload = LOCKSTEP_LIBRARY;
    if (!others.empty()) preload = before ? others + ":" + preload : preload + ":" + others;
    const Outcome recorded = Run(Program(arguments), preload);
    ExpectEqual(plain, recorded);
    EXPECT_EQ(recorded.err, plain.err);
    const std::vector<Snapshot> rings = Rings();
    std::filesystem::remove_all(rings_);
    EXPECT_THAT(rings, SizeIs(1));
    return rings.size() == 1 ? rings[0] : Snapshot();
  }
};

const std::string kFirst = Quoted(LOCKSTEP_TWIN_1), kSecond = Quoted(LOCKSTEP_TWIN_2);

TEST_F(WaysTest, FunctionsLookedUpByHandleAreRecorded) {
  EXPECT_THAT(Counts(ExpectSameAndRecorded("handle " + kFirst)), ElementsAre(10, 11));
}

TEST_F(WaysTest, FunctionsLookedUpInTheProgramTheDefaultScopeOrTheNextLibraryAreRecorded) {
  EXPECT_THAT(Counts(ExpectSameAndRecorded("self " + kFirst)), ElementsAre(20, 21));
  EXPECT_THAT(Counts(ExpectSameAndRecorded("default " + kFirst)), ElementsAre(30, 31));
  EXPECT_THAT(Counts(ExpectSameAndRecorded("next " + kFirst)), ElementsAre(40, 41));
}

TEST_F(WaysTest, FunctionsLookedUpBeforeTheLibraryIsOpenedAreRecorded) {
  const Snapshot ring = ExpectSameAndRecorded("default-first " + kFirst);
  EXPECT_THAT(Counts(ring), ElementsAre(50, 51));
  EXPECT_THAT(Run(Program("default-first " + kFirst)).out, HasSubstr("0 of the process"));
}

TEST_F(WaysTest, CallsBySecondNamesAreRecorded) {
  EXPECT_THAT(Counts(ExpectSameAndRecorded("second-names " + kFirst)), ElementsAre(60, 61));
}

TEST_F(WaysTest, CallsOfAnExtensionModuleWithItsOwnNcclAreRecorded) {
  EXPECT_THAT(Counts(ExpectSameAndRecorded("plugin " + Quoted(LOCKSTEP_PLUGIN))), ElementsAre(1));
  EXPECT_THAT(Counts(ExpectSameAndRecorded("plugin-default " + Quoted(LOCKSTEP_PLUGIN))), ElementsAre(80));
}

TEST_F(WaysTest, ALibraryClosedAndOpenedAgainIsRecorded) {
  EXPECT_THAT(Counts(ExpectSameAndRecorded("reopen " + kFirst)), ElementsAre(70, 71, 71, 72, 72, 73));
}

TEST_F(WaysTest, ALibraryThatReplacesNcclUnderAnotherNameIsRecorded) {
  EXPECT_THAT(Counts(ExpectSameAndRecorded("handle " + Quoted(LOCKSTEP_OTHER))), ElementsAre(10, 11));
  for (const bool before : {true, false}) {
    EXPECT_THAT(Counts(ExpectSameAndRecorded("default " + kSecond, LOCKSTEP_OTHER, before)), ElementsAre(30, 31));
  }
}

TEST_F(WaysTest, TwoLibrariesEachGetTheirOwnCalls) {
  const Snapshot ring = ExpectSameAndRecorded("two " + kFirst + " " + kSecond);
  EXPECT_THAT(Counts(ring), ElementsAre(100, 200, 100, 200, 100, 200, 210, 211, 110, 111));
  ASSERT_THAT(ring.comms, SizeIs(2));
  for (const CommSnapshot& comm : ring.comms) {
    EXPECT_EQ(comm.issued_seq, 5u);
    EXPECT_EQ(comm.state, ring::CommState::kDestroyed);
    EXPECT_EQ(comm.device, 0) << "the device must come from its own library";
  }
}

TEST_F(WaysTest, LookupsAnswerAsWithoutTheRecorder) {
  const std::string probe = Program("probe " + kFirst + " " + kSecond + " " + Quoted(LOCKSTEP_PLUGIN));
  std::vector<std::string> beside = {"",
                                     LOCKSTEP_TOOL_1,
                                     LOCKSTEP_TOOL_2,
                                     LOCKSTEP_TOOL_3,
                                     LOCKSTEP_SHIM,
                                     LOCKSTEP_TOOL_3 ":" LOCKSTEP_TOOL_1,
                                     LOCKSTEP_TOOL_3 ":" LOCKSTEP_SHIM};
  for (const std::string& others : beside) {
    const Outcome plain = Run(probe, others);
    ASSERT_EQ(plain.status, 0) << others << plain.err;
    ASSERT_THAT(plain.out, HasSubstr("undefined symbol: ncclCommSplit"));
    std::vector<std::string> orders = {LOCKSTEP_LIBRARY ":" + others};
    if (!others.empty()) orders.push_back(others + ":" LOCKSTEP_LIBRARY);
    const size_t middle = others.find(':');
    if (middle != std::string::npos)
      orders.push_back(others.substr(0, middle) + ":" LOCKSTEP_LIBRARY + others.substr(middle));
    for (const std::string& order : orders) {
      for (const char* hook : {"dlsym", "symbols", "off"}) {
        const Outcome recorded = Run(probe, order, std::string("LOCKSTEP_HOOK=") + hook);
        EXPECT_EQ(recorded.status, 0) << order << recorded.err;
        // CUDA's runtime functions have no version here. Only the hook keeps lookups from finding them if no runtime
        // is loaded.
        const bool hooked = std::string(hook) == "dlsym";
        EXPECT_EQ(WithoutCuda(recorded.out, hooked), WithoutCuda(plain.out, hooked)) << order << " " << hook;
      }
    }
  }
  EXPECT_THAT(Rings(), IsEmpty());
}

TEST_F(WaysTest, OtherToolsBeforeOrAfterTheRecorderDoNotDisturbIt) {
  for (const char* tool : {LOCKSTEP_TOOL_1, LOCKSTEP_TOOL_2, LOCKSTEP_TOOL_3, LOCKSTEP_TOOL_6, LOCKSTEP_SHIM}) {
    for (const bool before : {true, false}) {
      EXPECT_THAT(Counts(ExpectSameAndRecorded("handle " + kFirst, tool, before)), ElementsAre(10, 11));
      EXPECT_THAT(Counts(ExpectSameAndRecorded("default " + kFirst, tool, before)), ElementsAre(30, 31));
    }
  }
  // Shims forward a call by NCCL's second names, or to a library that they opened. Each call is recorded once.
  const std::string linked = "'" LOCKSTEP_HOST_PROGRAM "' kinds",
                    environment = "LOCKSTEP_TEST_NCCL=" LOCKSTEP_STANDIN_NCCL;
  const Outcome plain = Run(linked);
  ASSERT_EQ(plain.status, 0) << plain.out << plain.err;
  const std::vector<Snapshot> alone = Rings();
  ASSERT_THAT(alone, SizeIs(1));
  std::filesystem::remove_all(rings_);
  for (const char* tool : {LOCKSTEP_TOOL_4, LOCKSTEP_TOOL_5}) {
    for (const std::string& order :
         {std::string(tool) + ":" LOCKSTEP_LIBRARY, std::string(LOCKSTEP_LIBRARY ":") + tool}) {
      SCOPED_TRACE(order);
      const Outcome recorded = Run(linked, order, environment);
      EXPECT_EQ(recorded.status, 0) << recorded.out << recorded.err;
      EXPECT_EQ(recorded.out, plain.out);
      const std::vector<Snapshot> rings = Rings();
      std::filesystem::remove_all(rings_);
      ASSERT_THAT(rings, SizeIs(1));
      EXPECT_EQ(Shape(rings[0]), Shape(alone[0]));
      for (size_t i = 0; i < rings[0].comms.size(); ++i) {
        EXPECT_EQ(rings[0].comms[i].signature_hash, alone[0].comms[i].signature_hash);
        EXPECT_EQ(rings[0].comms[i].issued_seq, alone[0].comms[i].issued_seq);
      }
      for (const ring::ThreadSnapshot& thread : rings[0].threads) EXPECT_EQ(thread.group_depth, 0u);
    }
  }
}

TEST_F(WaysTest, AnAllocatorAndASanitizerDoNotDisturbTheRecorder) {
  for (const char* name : {"libjemalloc.so.2", "libasan.so.8"}) {
    const std::string option = "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0";
    if (Run("true", name, option).status != 0 || !Run("true", name, option).err.empty())
      continue;  // this tool is not installed
    setenv("ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0", 1);
    for (const bool before : {true, false}) {
      EXPECT_THAT(Counts(ExpectSameAndRecorded("handle " + kFirst, name, before)), ElementsAre(10, 11));
      EXPECT_THAT(Counts(ExpectSameAndRecorded("default-first " + kFirst, name, before)), ElementsAre(50, 51));
    }
  }
}

TEST_F(WaysTest, TheRealLibraryIsUsedAsFarAsPossible) {
  const std::string real = LOCKSTEP_REAL_NCCL;
  if (real.empty()) GTEST_SKIP() << "no real libnccl.so.2 on this machine";
  if (Run(Program("handle " + Quoted(real)), "").status != 0)
    GTEST_SKIP() << "the real libnccl.so.2 cannot be opened here";
  // The real library is not closed and reopened, because its threads might continue without their code.
  for (const char* way : {"handle", "self", "default", "next", "default-first", "second-names"}) {
    const Snapshot ring = ExpectSameAndRecorded(way + (" " + Quoted(real)));
    EXPECT_GT(ring.process.nccl_version, 20000) << way;
    EXPECT_FALSE(ring.comms.empty()) << way << ": also if the communicator could not be created";
  }
  const Snapshot ring = ExpectSameAndRecorded("two " + Quoted(real) + " " + kSecond);
  EXPECT_THAT(ring.comms, SizeIs(2));
  const std::string probe = Program("probe " + Quoted(real) + " " + kSecond + " " + Quoted(LOCKSTEP_PLUGIN));
  EXPECT_EQ(Run(probe).out, Run(probe, "").out);
}

TEST_F(WaysTest, ManyThreadsMayLookUpOpenAndClose) {
  const Outcome outcome = Run(Program("race " + kFirst + " " + kSecond));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "0\n");
}

// Four ranks of a Python program make 8 collectives on the world, and a send and a receive in a group. Each half of the
// ranks makes one collective of its own.
class PythonTest : public WaysTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(PythonTest, CollectivesThroughCtypesAreRecorded) {
  const std::string python = LOCKSTEP_PYTHON;
  if (python.empty()) GTEST_SKIP() << "no Python here";
  const bool threads = GetParam() == std::string("threads");
  const std::string job =
      Quoted(python) + " '" LOCKSTEP_PYTHON_JOB "' '" LOCKSTEP_STANDIN_NCCL "' '" LOCKSTEP_STANDIN_CUDART "' ";
  const Outcome outcome = Run(job + GetParam());
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  std::vector<uint32_t> callers;
  std::istringstream words(outcome.out);
  for (std::string word; words >> word;) {
    uint32_t caller = 0;
    if (word == "caller" && words >> caller) callers.push_back(caller);
  }
  ASSERT_FALSE(callers.empty()) << outcome.out;

  const std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(threads ? 1 : 4));
  std::map<int32_t, std::vector<CallKind>> by_rank;  // operations on world, in program order
  for (const Snapshot& ring : rings) {
    ASSERT_THAT(ring.comms, SizeIs(threads ? 8 : 2));
    EXPECT_EQ(ring.records_lost, 0u);
    std::vector<OpSnapshot> ops;
    for (const OpSnapshot& op : ring.ops) {
      if (op.thread != UINT32_MAX) ops.push_back(op);
    }
    std::sort(ops.begin(), ops.end(), [](const OpSnapshot& a, const OpSnapshot& b) { return a.index < b.index; });
    for (const OpSnapshot& op : ops) {
      if (op.kind != CallKind::kSend && op.kind != CallKind::kRecv) {  // calls in a group have the group's call site
        EXPECT_THAT(callers, ::testing::Contains(op.caller_object));
        EXPECT_NE(op.caller, 0u);
      }
      if (op.comm == UINT32_MAX || ring.comms.at(op.comm).size != 4) continue;
      EXPECT_NE(op.stage, OpStage::kFailed);
      by_rank[ring.comms.at(op.comm).member_rank].push_back(op.kind);
    }
    for (const CommSnapshot& comm : ring.comms) {
      EXPECT_EQ(comm.issued_seq, comm.size == 4 ? 8u : 1u);
      EXPECT_EQ(comm.launched_seq, comm.issued_seq);
      EXPECT_EQ(comm.state, ring::CommState::kDestroyed);
    }
  }
  ASSERT_THAT(by_rank, SizeIs(4));
  for (const auto& [rank, kinds] : by_rank) {
    const CallKind all = CallKind::kAllReduce;
    EXPECT_THAT(kinds, ElementsAre(CallKind::kCommInitRank, all, all, all, all, all, CallKind::kAllGather,
                                   CallKind::kReduceScatter, CallKind::kBroadcast, CallKind::kSend, CallKind::kRecv,
                                   CallKind::kCommDestroy))
        << rank;
  }
  std::filesystem::remove_all(rings_);
  EXPECT_EQ(Run(job + GetParam(), LOCKSTEP_LIBRARY, "LOCKSTEP_HOOK=symbols").status, 0);
  EXPECT_THAT(Rings(), IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(Ways, PythonTest, ::testing::Values("threads", "processes"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(WaysTest, WithHookedSymbolsLookupsStayUnchanged) {
  const Outcome plain = Run(Program("handle " + kFirst), "");
  for (const char* hook : {"symbols", "off"}) {
    EXPECT_EQ(Run(Program("handle " + kFirst), LOCKSTEP_LIBRARY, std::string("LOCKSTEP_HOOK=") + hook).out, plain.out);
    EXPECT_THAT(Rings(), IsEmpty()) << hook;
  }
  const std::string linked = "'" LOCKSTEP_HOST_PROGRAM "' results";
  EXPECT_EQ(Run(linked, LOCKSTEP_LIBRARY, "LOCKSTEP_HOOK=off").status, 0);
  EXPECT_THAT(Rings(), IsEmpty()) << "with the hook off, calls are only forwarded";
  EXPECT_EQ(Run(linked, LOCKSTEP_LIBRARY, "LOCKSTEP_HOOK=symbols").status, 0);
  EXPECT_THAT(Rings(), SizeIs(1));
}

}  // namespace
}  // namespace lockstep
