#include "analyzer/formats/fr/stream.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "analyzer/testing/fr_dumps.h"
#include "analyzer/testing/stream_check.h"
#include "analyzer/testing/traces.h"

namespace lockstep::fr {
namespace {

using fr_test::FrDump;
using fr_test::FrEntry;
using fr_test::FrFrame;
using fr_test::FrValue;
using fr_test::PickleWriter;

// A job that repeats a step `steps` times: collectives, batches, stacks, several types, an unknown backend.
FrDump Steps(int steps) {
  FrDump dump;
  const FrFrame loop = {"train", "/job/train.py", 812}, wrapper = {"wrapper", "/x/torch/distributed/c10d.py", 81};
  int64_t seq = 250, p2p = 65533;
  for (int i = 0; i < steps; i++, p2p++) {
    const int64_t now = 1'758'000'000'000'000'000 + i * 1'000'000;
    const std::string state = i + 1 < steps ? "completed" : "scheduled";
    dump.entries.push_back({.op = "nccl:all_reduce",
                            .seq = ++seq,
                            .state = state,
                            .p2p_seq = p2p,
                            .created_ns = now,
                            .completed_ns = i + 1 < steps ? now + 5 : 0,
                            .frames = {wrapper, {"step", "/job/model.py", 3}, loop}});
    dump.entries.push_back({.op = "nccl:_all_gather_base",
                            .seq = ++seq,
                            .input = {{2, 300, 70000}, {}},
                            .output = {{4'000'000'000, 4'000'000'000, 4}},
                            .input_dtypes = {"Float", "Half"},
                            .output_dtypes = {"Float", "Float"},
                            .state = state,
                            .retired = i % 2 == 0,
                            .started_ns = now + 2,
                            .frames = {wrapper, loop}});
    for (const char* op : {"nccl:send 0->1", "nccl:recv 0<-1", "nccl:coalesced"}) {
      dump.entries.push_back(
          {.op = op, .seq = seq, .pg = "7", .desc = "pp", .pg_id = 1, .is_p2p = true, .p2p_seq = p2p});
      if (dump.entries.back().op == "nccl:coalesced") {
        dump.entries.back().input = dump.entries.back().output = {};
        dump.entries.back().input_dtypes = dump.entries.back().output_dtypes = {};
      }
    }
    if (i % 5 == 4) dump.entries.push_back({.op = "odd-one:all_reduce", .seq = seq, .frames = {}});
  }
  return dump;
}

TEST(FrStream, ReadsWhatPyTorchAndPythonWrite) {
  for (int protocol : {2, 4}) {
    for (int steps : {0, 1, 2, 40}) {
      bool streamed = false;
      EXPECT_EQ(StreamDifference(ToPickle(Steps(steps), protocol), &streamed), "");
      EXPECT_TRUE(streamed) << protocol << " " << steps;
    }
  }
}

TEST(FrStream, AcceptsFieldsOfFutureVersions) {
  FrValue dump = ToValue(Steps(6));
  FrValue odd = FrValue::Dict();
  odd.Set("list", FrValue::List().Add(FrValue::Int(1)).Add(FrValue::Text("x"))).Set("empty", FrValue::Tuple());
  for (FrValue& entry : dump.Find("entries")->items)
    entry.Set("novelty", odd).Set("ratio", {.kind = FrValue::Kind::kDouble, .real = 0.5});
  for (int protocol : {2, 4}) {
    bool streamed = false;
    EXPECT_EQ(StreamDifference(PickleWriter(protocol).Write(dump), &streamed), "");
    EXPECT_TRUE(streamed);
  }
}

TEST(FrStream, TheLastValueOfAKeyCounts) {
  FrValue dump = ToValue(Steps(8));
  for (FrValue& entry : dump.Find("entries")->items)
    entry.Set("record_id", FrValue::Bool(true)).Set("op_id", FrValue::Int(3));
  bool streamed = false;
  EXPECT_EQ(StreamDifference(PickleWriter().Write(dump), &streamed), "");
  EXPECT_TRUE(streamed);
}

TEST(FrStream, LeavesOtherFormsToTheReaderOfValues) {
  FrValue dump = ToValue(Steps(3));
  dump.Find("entries")->items[2].Set("thread_id", FrValue::Tuple().Add(FrValue::Int(1)));
  bool streamed = true;
  EXPECT_EQ(StreamDifference(PickleWriter().Write(dump), &streamed), "");
  EXPECT_FALSE(streamed);
  EXPECT_EQ(fr_test::LoadBytes(PickleWriter().Write(dump)).ranks.at(0).ops.size(), 15u);

  // The entry is also stored in another place.
  dump = ToValue(Steps(3));
  dump.Find("entries")->items[1].shared = 1;
  FrValue again = dump.Find("entries")->items[1];
  dump.Set("later", again);
  EXPECT_EQ(StreamDifference(PickleWriter().Write(dump), &streamed), "");
  EXPECT_FALSE(streamed);
}

// A memo number gets another meaning halfway, so equal bytes no longer mean the same.
TEST(FrStream, NoticesThatAMemoNumberChangedItsMeaning) {
  std::string bytes = "\x80\x02}(X\x07";
  bytes += std::string("\0\0\0", 3) + "entries](";
  auto text = [](const std::string& value) {
    return std::string("X") + static_cast<char>(value.size()) + std::string(3, '\0') + value;
  };
  auto entry = [&](const std::string& name) {
    return "}(" + text("profiling_name") + name + text("pg_id") + "K" + std::string(1, '\0') +
           text("collective_seq_id") + "K\x05u";
  };
  bytes += entry(text("nccl:all_reduce") + "q\x01") + entry("h\x01") + entry("h\x01");
  bytes += entry(text("nccl:broadcast") + "q\x01") + entry("h\x01") + "eu.";
  bool streamed = false;
  EXPECT_EQ(StreamDifference(bytes, &streamed), "");
  EXPECT_TRUE(streamed);
}

// After any change to a valid file, everything that the fast reader still accepts keeps its meaning.
TEST(FrStream, AgreesWithTheReaderOfValues) {
  std::mt19937 random(7);
  auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  size_t taken = 0;
  for (int protocol : {2, 4}) {
    const std::string sound = ToPickle(Steps(5), protocol);
    for (int i = 0; i < 6000; i++) {
      std::string bytes = sound;
      for (size_t change = 0; change <= below(3); change++) {
        const size_t at = below(bytes.size()), size = 1 + below(12);
        switch (below(4)) {
          case 0:
            bytes[at] = static_cast<char>(random());
            break;
          case 1:
            bytes.erase(at, size);
            break;
          case 2:
            bytes.insert(at, sound.substr(below(sound.size()), size));
            break;
          default:
            bytes.insert(at, 1, "K(}]eau.hqjrN0 12\x94\x95\x88"[below(20)]);
            break;
        }
      }
      bool streamed = false;
      ASSERT_EQ(StreamDifference(bytes, &streamed), "") << protocol << " " << i;
      taken += streamed ? 1 : 0;
    }
  }
  EXPECT_GT(taken, 500u);
}

TEST(FrStream, ReadsRealDumps) {
  const std::filesystem::path traces = lockstep::testing::TracesFolder();
  if (!std::filesystem::exists(traces)) GTEST_SKIP() << "no " << traces;
  for (const auto& file : std::filesystem::recursive_directory_iterator(traces)) {
    if (file.path().filename().string().find("rank_") == std::string::npos &&
        file.path().filename().string().find("_dump_") == std::string::npos) {
      continue;
    }
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    bool streamed = false;
    EXPECT_EQ(StreamDifference(bytes, &streamed), "") << file.path();
    EXPECT_TRUE(streamed) << file.path();
  }
}

}  // namespace
}  // namespace lockstep::fr
