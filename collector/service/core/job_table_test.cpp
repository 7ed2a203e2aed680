// Tests that the collector's core separates jobs with the same name, their generations, and jobs behind relays.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "analyzer/util/time_units.h"
#include "collector/testing/fleet.h"

namespace lockstep {
namespace {

using testing::Fleet;
using testing::FleetAgent;
using testing::Hung;

class CoreJobsTest : public testing::FleetTest {};

TEST_F(CoreJobsTest, TwoJobsWithTheSameNameAreDistinguished) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(10 * kSecond);
  // Another host has a job with the same name, user and rank numbers, but different communicators.
  FleetAgent other;
  other.peer = 999;
  other.host = "elsewhere";
  Hello hello;
  hello.set_host("elsewhere");
  hello.set_protocol(1);
  fleet.Say(&other, wire::Type::kHello, hello);
  Heartbeat heartbeat;
  *heartbeat.mutable_job() = fleet.identity();
  heartbeat.set_host("elsewhere");
  heartbeat.mutable_alive()->add_first(0);
  heartbeat.mutable_alive()->add_last(7);
  CommunicatorBeat* beat = heartbeat.add_moved();
  beat->set_id(0xabcdef);
  beat->set_size(8);
  beat->set_issued_max(5);
  fleet.Say(&other, wire::Type::kHeartbeat, heartbeat);
  fleet.Pass(kSecond);
  EXPECT_EQ(fleet.core->StatusOf("train").ranks(), 8u);
  EXPECT_EQ(fleet.core->StatusOf("train").agents(), 4u);
  EXPECT_EQ(fleet.core->StatusOf("train#2").agents(), 1u);
  // Another user's job is always a different job.
  heartbeat.mutable_job()->set_uid(2000);
  fleet.Say(&other, wire::Type::kHeartbeat, heartbeat);
  ClientRequest request;
  request.set_kind(ClientRequest::STATUS);
  fleet.Ask(1, wire::Role::kReader, request);
  EXPECT_EQ(fleet.replies.back().jobs_size(), 3);
  request.set_kind(ClientRequest::DUMP);
  request.set_job("nothing");
  fleet.Ask(1, wire::Role::kOperator, request);
  EXPECT_FALSE(fleet.replies.back().error().empty());
}

// Returns a relay's heartbeat for a generation of the job.
Heartbeat FromRelay(const Fleet& fleet, uint32_t restart, const Ranks& alive, const Ranks& ended, uint64_t issued) {
  Heartbeat beat;
  *beat.mutable_job() = fleet.identity();
  beat.mutable_job()->set_restart_count(restart);
  beat.set_hosts(2);
  alive.To(beat.mutable_alive());
  ended.To(beat.mutable_ended());
  CommunicatorBeat* comm = beat.add_moved();
  comm->set_id(0xa1 + restart);
  comm->set_size(8);
  comm->set_issued_min(issued);
  comm->set_issued_max(issued);
  comm->set_total_max(issued);
  Ranks members = alive;
  members.Unite(ended);
  members.To(comm->mutable_members());
  return beat;
}

FleetAgent ConnectedRelay(Fleet* fleet, int number) {
  FleetAgent relay;
  relay.host = absl::StrCat("relay", number);
  relay.peer = 501 + static_cast<uint64_t>(number);
  Hello hello;
  hello.set_role(Hello::RELAY);
  hello.set_host(relay.host);
  hello.set_instance(relay.peer);
  hello.set_protocol(1);
  fleet->Say(&relay, wire::Type::kHello, hello, wire::Role::kRelay);
  return relay;
}

// Each relay numbers the two jobs in its own way. A relay's report about one job must never be assigned to the other.
TEST_F(CoreJobsTest, TwoJobsWithTheSameNameBehindRelaysAreDistinguished) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  for (FleetAgent& agent : fleet.agents) agent.connected = false;
  fleet.Start();
  FleetAgent one = ConnectedRelay(&fleet, 0), two = ConnectedRelay(&fleet, 1);
  const auto beat = [&](FleetAgent* relay, uint32_t life, const Ranks& ranks, uint64_t comm, uint64_t issued) {
    Heartbeat heartbeat = FromRelay(fleet, 0, ranks, {}, issued);
    heartbeat.mutable_job()->set_life(life);
    heartbeat.mutable_moved(0)->set_id(comm);
    if (comm == 0xa) heartbeat.add_blind("node3: cannot look for new rings: /mnt/nfs has not responded for 120 s");
    fleet.Say(relay, wire::Type::kHeartbeat, heartbeat, wire::Role::kRelay);
  };
  const auto second = [&](uint64_t issued) {
    beat(&one, 0, Ranks::Between(0, 3), 0xa, issued);
    beat(&one, 1, Ranks::Between(0, 3), 0xb, issued);
    beat(&two, 0, Ranks::Between(4, 7), 0xb, issued);  // this relay numbers the jobs in the opposite order
    beat(&two, 1, Ranks::Between(4, 7), 0xa, issued);
    fleet.Pass(kSecond);
  };
  for (uint64_t i = 1; i < 10; ++i) second(i);
  EXPECT_EQ(fleet.core->StatusOf("train").ranks(), 8u);
  EXPECT_EQ(fleet.core->StatusOf("train#2").ranks(), 8u);
  EXPECT_TRUE(fleet.decisions.empty());
  EXPECT_FALSE(fleet.Heard("reported by"));
  // An agent's blind spot is reported once, for the job that may be affected.
  ASSERT_EQ(fleet.core->StatusOf("train").blind_size(), 1);
  EXPECT_EQ(fleet.core->StatusOf("train").blind(0),
            "node3: cannot look for new rings: /mnt/nfs has not responded for 120 s");
  EXPECT_EQ(fleet.core->StatusOf("train#2").blind_size(), 0);
  // One job is late, while the other moves.
  LateReport late;
  *late.mutable_job() = fleet.identity();
  late.set_communicator(0xb);
  late.set_in_flight_ns(6 * kSecond);
  late.set_limit_ns(5 * kSecond);
  late.mutable_waiting()->add_first(4);
  late.mutable_waiting()->add_last(7);
  fleet.Say(&two, wire::Type::kLate, late, wire::Role::kRelay);
  second(10);
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "moving");
  EXPECT_EQ(fleet.core->StatusOf("train#2").state(), "late");
  // A dump of "train" would be ambiguous.
  ClientRequest request;
  request.set_kind(ClientRequest::DUMP);
  request.set_job("train");
  fleet.Ask(1, wire::Role::kOperator, request);
  EXPECT_EQ(fleet.replies.back().error(), "which job? train#1, train#2");
  request.set_job("train#1");
  fleet.Ask(1, wire::Role::kOperator, request);
  EXPECT_TRUE(fleet.replies.back().error().empty()) << fleet.replies.back().error();
  // `lockstep top` prints this name, with step and restart count at the end.
  request.set_kind(ClientRequest::DETAIL);
  request.set_rank(3);
  for (const char* name : {"train#1//0", "train#2//0"}) {
    request.set_job(name);
    fleet.Ask(1, wire::Role::kReader, request);
    EXPECT_TRUE(fleet.replies.back().error().empty()) << name << fleet.replies.back().error();
  }
  request.set_job("train//0");
  fleet.Ask(1, wire::Role::kReader, request);
  EXPECT_EQ(fleet.replies.back().error(), "which job? train#1, train#2");
  request.clear_rank();
  // A request that names a communicator watches the job that has it.
  request.set_kind(ClientRequest::WATCH);
  request.set_job("train");
  request.set_request(5);
  request.add_communicators(0xb);
  fleet.Ask(2, wire::Role::kReader, request);
  fleet.replies.clear();
  second(11);
  size_t watched = 0;
  for (const ClientReply& reply : fleet.replies) {
    if (reply.request() != 5) continue;
    ++watched;
    ASSERT_EQ(reply.jobs_size(), 1);
    EXPECT_EQ(reply.jobs(0).job().job(), "train#2");
  }
  EXPECT_GE(watched, 1u);
}

TEST_F(CoreJobsTest, RanksClaimedTwiceInOneJobAreReported) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(10 * kSecond);
  FleetAgent other = fleet.agents[0];
  other.peer = 999;
  other.host = "copy";
  Hello hello;
  hello.set_host("copy");
  hello.set_protocol(1);
  fleet.Say(&other, wire::Type::kHello, hello);
  Heartbeat heartbeat;
  *heartbeat.mutable_job() = fleet.identity();
  heartbeat.set_host("copy");
  heartbeat.mutable_alive()->add_first(0);
  heartbeat.mutable_alive()->add_last(1);
  const JobStatus status = fleet.core->StatusOf("train");
  CommunicatorBeat* beat = heartbeat.add_moved();
  beat->set_id(status.communicators(0).id());
  beat->set_size(status.communicators(0).size());
  fleet.Say(&other, wire::Type::kHeartbeat, heartbeat);
  EXPECT_TRUE(fleet.Heard("are reported by both node0 and copy")) << ::testing::PrintToString(fleet.said);
  EXPECT_EQ(fleet.core->StatusOf("train").agents(), 5u);
}

TEST_F(CoreJobsTest, RestartsAreSeparateGenerations) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(10 * kSecond);
  Heartbeat heartbeat;
  *heartbeat.mutable_job() = fleet.identity();
  heartbeat.mutable_job()->set_restart_count(1);
  heartbeat.set_host("node0");
  heartbeat.mutable_alive()->add_first(0);
  heartbeat.mutable_alive()->add_last(1);
  fleet.Say(&fleet.agents[0], wire::Type::kHeartbeat, heartbeat);
  EXPECT_EQ(fleet.core->StatusOf("train/0/1").ranks(), 2u);
  EXPECT_EQ(fleet.core->StatusOf("train").ranks(), 8u);
}

// Relays that report only the next generation are not silent about the previous one: none of its ranks is late.
TEST_F(CoreJobsTest, AGenerationThatRelaysNoLongerReportIsNotSilent) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  for (FleetAgent& agent : fleet.agents) agent.connected = false;
  fleet.Start();
  FleetAgent one = ConnectedRelay(&fleet, 0), two = ConnectedRelay(&fleet, 1);
  const Ranks low = Ranks::Between(0, 3), high = Ranks::Between(4, 7);
  // The reports arrive seconds apart, so one is always behind the other.
  fleet.Say(&one, wire::Type::kHeartbeat, FromRelay(fleet, 0, low, {}, 40), wire::Role::kRelay);
  fleet.Say(&two, wire::Type::kHeartbeat, FromRelay(fleet, 0, high, {}, 47), wire::Role::kRelay);
  for (int second = 0; second < 60; ++second) {
    fleet.Say(&one, wire::Type::kHeartbeat, FromRelay(fleet, 1, low, {}, 10 + second), wire::Role::kRelay);
    fleet.Say(&two, wire::Type::kHeartbeat, FromRelay(fleet, 1, high, {}, 10 + second), wire::Role::kRelay);
    if (second == 1) {
      Heartbeat over = FromRelay(fleet, 0, {}, {}, 0);
      over.set_over(true);
      fleet.Say(&one, wire::Type::kHeartbeat, over, wire::Role::kRelay);  // the other relay's report is lost
    }
    fleet.Pass(kSecond);
  }
  EXPECT_TRUE(fleet.decisions.empty()) << fleet.decisions[0].reason;
  EXPECT_FALSE(fleet.Heard("silent"));
  EXPECT_TRUE(fleet.Heard("no agent reports this job any more"));
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "ended");
  EXPECT_EQ(fleet.core->StatusOf("train/0/1").state(), "moving");
  EXPECT_EQ(fleet.core->counters().rounds, 0u);
}

// Urgent messages overtake the heartbeat that introduces a job to a new collector.
TEST_F(CoreJobsTest, ALateReportBeforeTheFirstHeartbeatIsUsed) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  for (FleetAgent& agent : fleet.agents) agent.connected = false;
  fleet.Start();
  FleetAgent relay = ConnectedRelay(&fleet, 0);
  LateReport late;
  *late.mutable_job() = fleet.identity();
  late.set_communicator(0xa1);
  late.set_in_flight_ns(6 * kSecond);
  late.set_limit_ns(5 * kSecond);
  late.mutable_waiting()->add_first(0);
  late.mutable_waiting()->add_last(2);
  fleet.Say(&relay, wire::Type::kLate, late, wire::Role::kRelay);
  fleet.Pass(kSecond);
  fleet.Say(&relay, wire::Type::kHeartbeat, FromRelay(fleet, 0, Ranks::Between(0, 7), {}, 40), wire::Role::kRelay);
  fleet.Pass(kSecond / 2);
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "late");
}

// A relay that lost the connection to an agent reports it as silent for a while. If the agent now reports directly, no
// report is missing.
TEST_F(CoreJobsTest, AnAgentThatReportsDirectlyIsNotSilentBehindARelay) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.agents[3].connected = false;
  fleet.Start();
  FleetAgent relay = ConnectedRelay(&fleet, 0);
  const auto second = [&](const std::vector<std::string>& silent) {
    Heartbeat beat = FromRelay(fleet, 0, Ranks::Between(6, 7), {}, 40);
    for (const std::string& host : silent) beat.add_silent_host(host);
    beat.set_silent_hosts(static_cast<uint32_t>(silent.size()));
    fleet.Say(&relay, wire::Type::kHeartbeat, beat, wire::Role::kRelay);
    fleet.Pass(kSecond);
  };
  second({"node0"});
  for (int i = 0; i < 5; ++i) second({"node0"});
  EXPECT_EQ(fleet.core->StatusOf("train").agents_silent(), 0u);
  EXPECT_EQ(fleet.core->StatusOf("train").blind_size(), 0);
  second({"node0", "node3"});
  EXPECT_EQ(fleet.core->StatusOf("train").agents_silent(), 1u);
  ASSERT_EQ(fleet.core->StatusOf("train").blind_size(), 1);
  EXPECT_EQ(fleet.core->StatusOf("train").blind(0), "agent of node3 silent");
}

TEST_F(CoreJobsTest, AGenerationThatEndedBeforeIsNotJudged) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  for (FleetAgent& agent : fleet.agents) agent.connected = false;
  fleet.Start();
  FleetAgent one = ConnectedRelay(&fleet, 0), two = ConnectedRelay(&fleet, 1);
  const Ranks low = Ranks::Between(0, 3), high = Ranks::Between(4, 7);
  ProcessEnded end;
  *end.mutable_job() = fleet.identity();
  end.mutable_state()->set_life(ProcessState::KILLED);
  end.mutable_state()->set_signal(9);
  for (int second = 0; second < 60; ++second) {
    fleet.Say(&one, wire::Type::kHeartbeat, FromRelay(fleet, 0, {}, low, 40), wire::Role::kRelay);
    fleet.Say(&two, wire::Type::kHeartbeat, FromRelay(fleet, 0, {}, high, 47), wire::Role::kRelay);
    fleet.Say(&one, wire::Type::kHeartbeat, FromRelay(fleet, 1, low, {}, 10 + second), wire::Role::kRelay);
    fleet.Say(&two, wire::Type::kHeartbeat, FromRelay(fleet, 1, high, {}, 10 + second), wire::Role::kRelay);
    end.set_rank(second % 8);
    fleet.Say(&one, wire::Type::kEnded, end, wire::Role::kRelay);
    fleet.Pass(kSecond);
  }
  EXPECT_TRUE(fleet.decisions.empty()) << fleet.decisions[0].reason;
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "ended");
  EXPECT_EQ(fleet.core->StatusOf("train/0/1").state(), "moving");
}

}  // namespace
}  // namespace lockstep
