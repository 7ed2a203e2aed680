#include "collector/detect/decision_log.h"
#include "tests/support/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "nlohmann/json.hpp"

namespace lockstep {
namespace {

class DecisionLogTest : public support::FolderTest {
 protected:
  const std::string path_ = folder_ + "/decisions.jsonl";
};

TEST_F(DecisionLogTest, ALineHasEveryFigureOfItsDecision) {
  Decision decision;
  decision.level = Level::kHung;
  decision.comm = 0xabc;
  decision.comm_name = "dp_\xff\n";
  decision.sequence = 912;
  decision.age_ns = 10'250'000'000;
  decision.limit_ns = 10'000'000'000;
  decision.p99_gap_ns = 31'000'000;
  decision.gaps = 256;
  decision.root_kind = HOST_STALL;
  decision.roots = {1736};
  decision.samples = 5;
  decision.idle_ns = 5'000'000'000;
  decision.cpu_ns = 1'000'000;
  decision.io_bytes = 0;
  decision.sample_gap_ns = 1'050'000'000;
  decision.waiting = Ranks::Of({0, 1, 2, 9});
  decision.missing = Ranks::Of({1736});
  decision.rule = "host stall";
  decision.reason = "the root is blocked";
  const std::string line = DecisionJson(decision, "train/0/2", 1'770'000'000'123'000'000);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["time"], "2026-02-02T02:40:00.123Z");
  EXPECT_EQ(json["decision"], "hung");
  EXPECT_EQ(json["job"], "train/0/2");
  EXPECT_EQ(json["age_s"], 10.25);
  EXPECT_EQ(json["limit_s"], 10.0);
  EXPECT_EQ(json["p99_gap_s"], 0.031);
  EXPECT_EQ(json["gaps"], 256);
  EXPECT_EQ(json["communicator"]["id"], "0000000000000abc");
  EXPECT_EQ(json["sequence"], 912);
  EXPECT_EQ(json["root"], "HOST_STALL");
  EXPECT_EQ(json["root_ranks"], "1736");
  EXPECT_EQ(json["samples"]["taken"], 5);
  EXPECT_EQ(json["samples"]["idle_s"], 5.0);
  EXPECT_EQ(json["waiting_ranks"], "0-2, 9");
  EXPECT_EQ(json["rule"], "host stall");
}

}  // namespace
}  // namespace lockstep
