// Tests a job's state in `lockstep top`, from a collector that watches the job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/model/rank_set.h"
#include "analyzer/testing/job.h"
#include "analyzer/util/time_units.h"
#include "collector/testing/fleet.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::Fleet;
using testing::FleetAgent;
using ::testing::HasSubstr;
using testing::HostFault;
using ::testing::StartsWith;

class CoreTopTest : public support::FolderTest {
 protected:
  void SetUp() override {
    testing::Job job(2, 2, 2, 4);
    job.ranks[5].host_fault = HostFault::kStall;
    job.ranks[5].host_fault_at = job.Find(5, "dp", 2);
    bundle_ = job.Run();
    for (size_t i = 0; i < bundle_.comms.size(); ++i)
      bundle_.comms[i].id = absl::StrCat(absl::Hex(0xc0 + i, absl::kZeroPad16));  // IDs have the same form as in rings
  }
  Bundle bundle_;
};

TEST_F(CoreTopTest, AHangIsShownWithHardwareVictimsAndLateArrivals) {
  Fleet fleet(bundle_, 2, folder_);
  for (FleetAgent& agent : fleet.agents) {
    if (agent.host == "node2") {
      HardwareEvent* event = agent.found.add_hardware();
      event->set_kind(HardwareEvent::XID);
      event->set_code(79);
      event->set_gpu(2);
      event->set_age_ns(30 * kSecond);
      event->set_text("NVRM: Xid 79, GPU has fallen off the bus.");
    } else {
      agent.found.set_hardware_unread("/dev/kmsg: Operation not permitted");
    }
  }
  fleet.Start();
  fleet.Pass(60 * kSecond);
  const JobStatus quiet = fleet.core->StatusOf("train");
  EXPECT_EQ(quiet.late_arrivals_size(), 0);
  EXPECT_EQ(quiet.hardware_size(), 0);
  for (const CommunicatorStatus& line : quiet.communicators()) {
    EXPECT_EQ(line.standing(), "") << line.name();
    EXPECT_EQ(line.in(), static_cast<uint32_t>(line.size())) << line.name();
  }
  ASSERT_EQ(quiet.stages_size(), 2) << "tp fastest, then dp, then pp";
  EXPECT_EQ(Ranks::From(quiet.stages(0).ranks())->Text(), "0-3");
  EXPECT_EQ(quiet.stages(1).stage(), 1);
  EXPECT_EQ(Ranks::From(quiet.stages(1).ranks())->Text(), "4-7");

  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(180 * kSecond, [&] { return !fleet.printed.empty() && !fleet.core->busy(); }));
  fleet.Pass(kSecond);
  const JobStatus status = fleet.core->StatusOf("train");
  ASSERT_EQ(status.state(), "hung");
  EXPECT_THAT(status.hardware(), ::testing::ElementsAre(AllOf(HasSubstr(" s ago: node2: Xid 79 on GPU 1: NVRM"))));
  EXPECT_THAT(status.blind(),
              Contains(AllOf(StartsWith("hardware errors not read on node"), HasSubstr("Operation not permitted"))));
  ASSERT_GT(status.late_arrivals_size(), 0);
  EXPECT_THAT(status.late_arrivals(0),
              AllOf(HasSubstr(" s ago: "), HasSubstr(" #"), HasSubstr("rank"), HasSubstr("(limit 5.0 s)")));
  EXPECT_TRUE(fleet.Heard("late: ")) << absl::StrJoin(fleet.said, "\n");
  // The first line is the root, which other lines name as their cause.
  ASSERT_GT(status.communicators_size(), 1);
  EXPECT_EQ(status.communicators(0).standing(), "root");
  const std::string root = status.communicators(0).name();
  ASSERT_FALSE(root.empty());
  size_t victims = 0;
  for (const CommunicatorStatus& line : status.communicators()) {
    if (line.standing().empty() || line.standing() == "root") continue;
    ++victims;
    EXPECT_EQ(line.standing(), "victim of " + root);
    EXPECT_THAT(line.doing(), ::testing::MatchesRegex("[A-Z][A-Za-z]+( #[0-9,]+)?"));
  }
  EXPECT_GT(victims, 0u);

  fleet.Pass(700 * kSecond);
  const JobStatus later = fleet.core->StatusOf("train");
  EXPECT_EQ(later.late_arrivals_size(), 0) << "only the last ten minutes count: " << later.late_arrivals(0);
  EXPECT_EQ(later.hardware_size(), 1) << "hardware stays while the incident is the last one";
}

// Members that no sender has reported are neither victims nor culprits: they are listed as unknown, and judged only
// after a while.
TEST_F(CoreTopTest, MembersWithoutAnAgentAreNotRecorded) {
  Fleet fleet(bundle_, 2, folder_);
  fleet.agents[3].connected = false;
  fleet.Start();
  fleet.Pass(5 * kSecond);
  const JobStatus status = fleet.core->StatusOf("train");
  size_t unknown = 0;
  for (const CommunicatorStatus& line : status.communicators()) {
    const bool part = line.in() < static_cast<uint32_t>(line.size());
    EXPECT_EQ(line.standing(), part ? "not recorded" : "") << line.name();
    unknown += part;
  }
  EXPECT_GT(unknown, 0u);
}

TEST_F(CoreTopTest, AJobIsNotJudgedBeforeItsAgentsHaveReported) {
  Fleet fleet(bundle_, 2, folder_);
  fleet.stop_ns = fleet.now + 3 * kSecond / 2;
  for (size_t i = 1; i < fleet.agents.size(); ++i) fleet.agents[i].connected = false;
  fleet.Start();
  fleet.Pass(9 * kSecond);
  EXPECT_GT(fleet.core->counters().late, 0u);
  EXPECT_EQ(fleet.core->counters().rounds, 0u) << "one of four agents is not enough";
  EXPECT_TRUE(fleet.decisions.empty() || fleet.decisions.back().level != Level::kHung);
  for (FleetAgent& agent : fleet.agents) {
    if (agent.connected) continue;
    agent.connected = true;
    Hello hello;
    hello.set_role(Hello::AGENT);
    hello.set_host(agent.host);
    hello.set_boot_id("boot-" + agent.host);
    hello.set_instance(agent.peer);
    hello.set_protocol(1);
    hello.set_min_protocol(1);
    fleet.Say(&agent, wire::Type::kHello, hello);
  }
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty(); }));
  EXPECT_THAT(fleet.printed[0], HasSubstr("rank 5"));
}

TEST_F(CoreTopTest, AJobIsJudgedEvenIfItsOtherAgentsNeverReport) {
  Fleet fleet(bundle_, 2, folder_);
  fleet.agents[3].connected = false;
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  EXPECT_TRUE(fleet.PassUntil(60 * kSecond, [&] { return fleet.core->counters().rounds > 0; }));
}

}  // namespace
}  // namespace lockstep
