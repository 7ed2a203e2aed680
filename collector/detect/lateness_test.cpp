#include "collector/detect/lateness.h"
#include "analyzer/util/time_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collector/detect/progress.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kLateComm = 9;

// Two ranks of one host on one communicator, with a simulated clock.
class LatenessTest : public ::testing::Test {
 protected:
  LatenessTest() {
    for (int slot = 0; slot < 2; ++slot) {
      DigestView view;
      view.slot = slot;
      DigestComm comm;
      comm.id = kLateComm;
      comm.size = 2;
      comm.active = true;
      view.comms.push_back(comm);
      views_.push_back(view);
    }
  }
  void Issue(DigestView* view) {
    ++view->comms[0].collectives;
    ++view->comms[0].total;
    view->comms[0].issued_ns = now_;
    ++view->progress_mark;
  }
  void Run(int steps, int64_t gap) {
    for (int i = 0; i < steps; ++i) {
      now_ += gap;
      for (DigestView& view : views_) Issue(&view);
      Look();
    }
  }
  std::vector<LateEvent> Look() { return lateness_.Observe(now_, views_); }
  std::vector<LateEvent> Pass(int64_t time) {
    std::vector<LateEvent> all;
    for (int64_t passed = 0; passed < time; passed += 100 * kMs) {
      now_ += 100 * kMs;
      for (LateEvent& event : Look()) all.push_back(event);
    }
    return all;
  }
  int64_t now_ = 1000 * kSecond;
  std::vector<DigestView> views_;
  Lateness lateness_;
};

TEST_F(LatenessTest, ARankAheadOfAMemberIsLateOnceAfterTheLimitAndThenOver) {
  Run(20, 100 * kMs);
  Issue(&views_[0]);
  Look();
  EXPECT_TRUE(Pass(4900 * kMs).empty());
  std::vector<LateEvent> events = Pass(10 * kSecond);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].comm, kLateComm);
  EXPECT_EQ(events[0].sequence, 21u);
  EXPECT_EQ(events[0].limit_ns, 5 * kSecond);
  EXPECT_EQ(events[0].p99_gap_ns, 100 * kMs);
  EXPECT_THAT(events[0].waiting, ElementsAre(0));
  EXPECT_THAT(events[0].missing, ElementsAre(1));
  EXPECT_EQ(lateness_.Current(now_).size(), 1u);
  Issue(&views_[1]);
  events = Pass(100 * kMs);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].over);
  EXPECT_NEAR(static_cast<double>(events[0].in_flight_ns) / 1e9, 15, 0.3);
  EXPECT_TRUE(lateness_.Current(now_).empty());
}

TEST_F(LatenessTest, ASlowWatcherLearnsNoGaps) {
  for (int look = 0; look < 50; ++look) {
    for (int i = 0; i < 100; ++i) {
      now_ += 30 * kMs;
      for (DigestView& view : views_) Issue(&view);
    }
    Look();
  }
  EXPECT_EQ(lateness_.LimitOf(kLateComm), 5 * kSecond);
}

TEST_F(LatenessTest, PausesBetweenBurstsAreLearned) {
  for (int step = 0; step < 50; ++step) {
    Pass(4 * kSecond);
    for (int i = 0; i < 100; ++i) {
      for (DigestView& view : views_) Issue(&view);
    }
  }
  EXPECT_GE(lateness_.LimitOf(kLateComm), 8 * 3900 * kMs);
}

TEST_F(LatenessTest, OneLongPauseDoesNotSetTheLimit) {
  Run(50, 100 * kMs);
  Run(1, 100 * kSecond);
  Run(50, 100 * kMs);
  EXPECT_EQ(lateness_.LimitOf(kLateComm), 5 * kSecond);
}

TEST_F(LatenessTest, AProcessWithTwoMembersIsLateInACall) {
  views_.resize(1);
  Run(20, 100 * kMs);
  views_[0].comms.push_back(views_[0].comms[0]);
  views_[0].comms[1].member = 1;
  views_[0].comms[1].total += 3;  // issues sends
  Look();
  views_[0].waits.push_back({ring::CallKind::kAllReduce, kLateComm, 20, UINT32_MAX, now_});
  const std::vector<LateEvent> events = Pass(6 * kSecond);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].comm, kLateComm);
  EXPECT_THAT(events[0].waiting, ElementsAre(0));
}

TEST_F(LatenessTest, AWaitForAStreamWithoutMarkersIsLateBesideAMarkedStream) {
  Run(20, 100 * kMs);
  views_[0].streams.push_back({0, 5, 5, 0, 0});
  views_[0].waits.push_back({ring::CallKind::kStreamSynchronize, 0, 0, 0, now_});
  EXPECT_TRUE(Pass(6 * kSecond).empty());
  views_[0].waits[0].stream = 1;
  EXPECT_EQ(Pass(6 * kSecond).size(), 1u);
}

TEST_F(LatenessTest, TheNumberOfASendIsNoNumberOfACollective) {
  Run(20, 100 * kMs);
  views_[0].waits.push_back({ring::CallKind::kSend, kLateComm, 7, UINT32_MAX, now_});
  const std::vector<LateEvent> events = Pass(6 * kSecond);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].sequence, 0u);
}

TEST_F(LatenessTest, AnIdleJobWaitsForNoRank) {
  Run(20, 100 * kMs);
  EXPECT_TRUE(Pass(600 * kSecond).empty());
  EXPECT_EQ(lateness_.LongestWait(now_, nullptr, nullptr), 0);
  EXPECT_EQ(lateness_.NextLimit(), INT64_MAX);
}

TEST_F(LatenessTest, OnlyTicketsThatDoNotAdvanceAreInFlight) {
  Run(20, 100 * kMs);
  for (DigestView& view : views_) view.streams.push_back({0, 40, 40, 0, 0});
  views_[0].waits.push_back({ring::CallKind::kStreamSynchronize, 0, 0, 0, now_});
  EXPECT_TRUE(Pass(60 * kSecond).empty()) << "the rank waits for its own computation";
  views_[0].streams[0] = {0, 41, 40, kLateComm, 21};
  const std::vector<LateEvent> events = Pass(6 * kSecond);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].sequence, 21u);
}

TEST_F(LatenessTest, RecalibratedClocksChangeNothing) {
  Run(20, 100 * kMs);
  const int64_t since = now_;
  views_[0].waits.push_back({ring::CallKind::kAllReduce, kLateComm, 21, UINT32_MAX, since});
  views_[0].activity_ns = since;
  Look();
  size_t events = 0;
  for (int i = 0; i < 200; ++i) {
    now_ += 100 * kMs;
    views_[0].waits[0].since_ns = since + i % 7 * kMs;
    views_[0].activity_ns = since + i % 5 * kMs;
    events += Look().size();
  }
  EXPECT_EQ(events, 1u) << "one late event, and no end";
  EXPECT_LE(lateness_.ActivityOf(0), since);
}

TEST_F(LatenessTest, TimeBeforeARebaseDoesNotCount) {
  Run(20, 100 * kMs);
  Issue(&views_[0]);
  Look();
  now_ += 3600 * kSecond;
  lateness_.Rebase(now_);
  EXPECT_TRUE(Look().empty());
  EXPECT_TRUE(Pass(4 * kSecond).empty());
  EXPECT_EQ(Pass(2 * kSecond).size(), 1u);
}

TEST(LatenessMemoryTest, CommunicatorsThatNoLongerExistAreForgotten) {
  Lateness lateness;
  int64_t now = 100 * kSecond;
  DigestView view;
  for (uint64_t id = 1; id <= 10'000; ++id) {
    view.comms = {{}};
    view.comms[0].id = id;
    view.comms[0].active = true;
    view.comms[0].collectives = view.comms[0].total = id;
    lateness.Observe(now += kSecond / 10, {view});
  }
  EXPECT_EQ(lateness.MeterOf(1), nullptr);
  EXPECT_NE(lateness.MeterOf(10'000), nullptr);
}

CommBeat BeatOf(uint64_t min, uint64_t max, std::vector<int32_t> members, std::vector<int32_t> low = {}) {
  CommBeat beat;
  beat.comm = kLateComm;
  beat.size = 8;
  beat.issued_min = min;
  beat.issued_max = beat.total_max = max;
  beat.members = Ranks::Of(std::move(members));
  beat.at_min = Ranks::Of(std::move(low));
  return beat;
}

TEST(MergedProgressTest, RanksThatAreBehindAreKnownAcrossHosts) {
  MergedProgress merged;
  int64_t now = 100 * kSecond;
  merged.Apply(1, now, BeatOf(10, 10, {0, 1, 2, 3}));
  merged.Apply(2, now, BeatOf(9, 10, {4, 5, 6, 7}, {6}));
  merged.Tick(now);
  EXPECT_EQ(merged.Missing(kLateComm).Text(), "6");
  EXPECT_EQ(merged.Find(kLateComm)->known, 8u);
  EXPECT_EQ(merged.Find(kLateComm)->behind_since_ns, now);
  now += 2 * kSecond;
  merged.Apply(2, now, BeatOf(10, 10, {4, 5, 6, 7}));
  merged.Tick(now);
  EXPECT_TRUE(merged.Missing(kLateComm).empty());
  size_t behind = 0;
  merged.ForEachBehind([&](const MergedComm&) { ++behind; });
  EXPECT_EQ(behind, 0u);
}

TEST(MergedProgressTest, AgesAreComparedInsteadOfClocks) {
  MergedProgress merged;
  CommBeat beat = BeatOf(10, 10, {0});
  beat.issue_age_ns = 4 * kSecond;
  merged.Apply(1, 100 * kSecond, beat);
  merged.Apply(2, 100 * kSecond, BeatOf(9, 9, {1}));
  merged.Tick(100 * kSecond);
  EXPECT_EQ(merged.Find(kLateComm)->behind_since_ns, 96 * kSecond);
}

TEST(MergedProgressTest, DataOfAForgottenChildDoesNotHoldUpOthers) {
  MergedProgress merged;
  merged.Apply(1, kSecond, BeatOf(10, 10, {0}));
  merged.Apply(2, kSecond, BeatOf(3, 3, {1}));
  merged.Tick(kSecond);
  EXPECT_EQ(merged.Missing(kLateComm).Text(), "1");
  merged.Forget(2);
  merged.Tick(3 * kSecond);
  EXPECT_TRUE(merged.Missing(kLateComm).empty());
  EXPECT_EQ(merged.Find(kLateComm)->known, 1u);
  CommBeat gone;
  gone.comm = kLateComm;
  gone.gone = true;
  merged.Apply(1, 4 * kSecond, gone);
  merged.Tick(5 * kSecond);
  EXPECT_EQ(merged.Find(kLateComm), nullptr);
  merged.Forget(77);
}

// A relay that dies or returns does not count as movement, so it neither shortens nor ends a hang.
TEST(MergedProgressTest, AnotherRouteToTheSameRanksIsNotMovement) {
  MergedProgress relay(true), root;
  const auto beat = [](std::vector<int32_t> ranks, int64_t age) {
    CommBeat made = BeatOf(10, 10, std::move(ranks));
    made.issue_age_ns = made.moved_age_ns = age;
    return made;
  };
  relay.Apply(1, 20 * kSecond, beat({0, 1}, 10 * kSecond));
  relay.Apply(2, 20 * kSecond, beat({2, 3}, 10 * kSecond));
  for (const CommBeat& up : relay.TakeMoved(20 * kSecond)) root.Apply(7, 20 * kSecond, up);
  EXPECT_EQ(root.Find(kLateComm)->moved_ns, 10 * kSecond);
  // The agent first reports directly, and later through the relay again.
  relay.Forget(2);
  for (const CommBeat& up : relay.TakeMoved(21 * kSecond)) root.Apply(7, 21 * kSecond, up);
  root.Apply(8, 22 * kSecond, beat({2, 3}, 12 * kSecond));
  root.Forget(8);
  relay.Apply(3, 30 * kSecond, beat({2, 3}, 20 * kSecond));
  for (const CommBeat& up : relay.TakeMoved(31 * kSecond)) root.Apply(7, 31 * kSecond, up);
  root.Tick(31 * kSecond);
  EXPECT_EQ(root.Find(kLateComm)->moved_ns, 10 * kSecond);
  // Sends and receives count as movement even if no collective is issued.
  CommBeat sends = beat({2, 3}, kSecond);
  sends.issue_age_ns = 30 * kSecond;
  sends.total_max = 99;
  relay.Apply(3, 40 * kSecond, sends);
  for (const CommBeat& up : relay.TakeMoved(41 * kSecond)) root.Apply(7, 41 * kSecond, up);
  EXPECT_EQ(root.Find(kLateComm)->moved_ns, 39 * kSecond);
}

TEST(MergedProgressTest, ARelayMergesItsChildrensReports) {
  MergedProgress relay(true), root;
  for (uint32_t child = 0; child < 40; ++child) {
    relay.Apply(child, kSecond, BeatOf(child == 17 ? 9 : 10, 10, {static_cast<int32_t>(child)}));
  }
  for (const CommBeat& beat : relay.TakeMoved(kSecond)) root.Apply(1, kSecond, beat);
  root.Tick(kSecond);
  EXPECT_EQ(root.Missing(kLateComm).Text(), "17");
  EXPECT_EQ(root.Members(kLateComm).Text(), "0-39");
  EXPECT_TRUE(relay.TakeMoved(2 * kSecond).empty()) << "nothing moved";
  EXPECT_EQ(relay.TakeMoved(2 * kSecond, true).size(), 1u);
  for (uint32_t child = 0; child < 40; ++child) relay.Forget(child);
  for (const CommBeat& beat : relay.TakeMoved(3 * kSecond)) root.Apply(1, 3 * kSecond, beat);
  root.Tick(5 * kSecond);
  EXPECT_EQ(root.size(), 0u);
}

ring::Snapshot RingWith(std::vector<std::pair<uint64_t, ring::CommState>> comms, uint64_t issued) {
  ring::Snapshot ring;
  for (const auto& [id, state] : comms) {
    ring::CommSnapshot comm;
    comm.id = id;
    comm.state = state;
    comm.size = 2;
    comm.issued_seq = issued;
    ring.comms.push_back(comm);
  }
  return ring;
}

// One process is two members of a communicator. Later, one of the two members destroys it.
TEST(HostProgressTest, AProcessWithTwoMembersIsAsFarAsTheLowest) {
  ring::Snapshot digest;
  digest.comms.resize(2);
  for (int32_t member = 0; member < 2; ++member) {
    ring::CommSnapshot& comm = digest.comms[static_cast<size_t>(member)];
    comm.id = kLateComm;
    comm.size = 2;
    comm.member_rank = member;
    comm.state = ring::CommState::kReady;
    comm.issued_seq = member == 0 ? 20 : 21;
    comm.issued_ns = 300 * kMs;
  }
  digest.comms[0].peers.emplace_back().last_send_ns = 900 * kMs;
  HostProgress host;
  const Lateness lateness;
  host.Observe({{0, &digest}});
  std::vector<CommBeat> beats = host.Take(kSecond, lateness);
  ASSERT_EQ(beats.size(), 1u);
  EXPECT_EQ(beats[0].issued_min, 20u);
  EXPECT_EQ(beats[0].issue_age_ns, 700 * kMs) << "a send reaches no number of a collective";
  EXPECT_EQ(beats[0].moved_age_ns, 100 * kMs);
  host.Observe({{0, &digest}});
  EXPECT_TRUE(host.Take(2 * kSecond, lateness).empty()) << "no operation was issued";
  digest.comms[1].state = ring::CommState::kDestroyed;
  digest.comms[0].issued_seq = 22;
  host.Observe({{0, &digest}});
  beats = host.Take(3 * kSecond, lateness);
  ASSERT_EQ(beats.size(), 1u);
  EXPECT_FALSE(beats[0].gone);
  EXPECT_EQ(beats[0].issued_min, 22u);
}

TEST(HostProgressTest, ADestroyedCommunicatorIsReportedAndForgotten) {
  using ring::CommState;
  HostProgress host;
  MergedProgress merged;
  const Lateness lateness(5 * kSecond);
  int64_t now = 100 * kSecond;
  const auto look = [&](const ring::Snapshot& a, const ring::Snapshot& b) {
    host.Observe({{0, &a}, {1, &b}});
    const std::vector<CommBeat> beats = host.Take(now, lateness);
    for (const CommBeat& beat : beats) merged.Apply(1, now, beat);
    now += 2 * kSecond;
    merged.Tick(now);
    return beats.size();
  };
  const ring::Snapshot ahead = RingWith({{kLateComm, CommState::kReady}, {5, CommState::kReady}}, 42);
  const ring::Snapshot behind = RingWith({{kLateComm, CommState::kReady}, {5, CommState::kReady}}, 41);
  look(ahead, behind);
  EXPECT_EQ(merged.Missing(kLateComm).Text(), "1");
  // One member aborted and the other did not. No rank waits, and the other is still a member.
  const ring::Snapshot aborted = RingWith({{kLateComm, CommState::kAborted}, {5, CommState::kReady}}, 42);
  look(aborted, behind);
  EXPECT_TRUE(merged.Missing(kLateComm).empty());
  EXPECT_EQ(merged.Members(kLateComm).Text(), "1");
  const ring::Snapshot both = RingWith({{kLateComm, CommState::kDestroyed}, {5, CommState::kReady}}, 42);
  look(aborted, both);
  EXPECT_EQ(merged.Find(kLateComm), nullptr);
  ASSERT_NE(merged.Find(5), nullptr);
  EXPECT_EQ(merged.Members(5).Text(), "0, 1");
  EXPECT_EQ(look(aborted, both), 0u) << "must be reported once";
  // The table entry is reused before the end of its communicator was observed. An unreadable ring proves nothing.
  const ring::Snapshot reused = RingWith({{6, CommState::kReady}}, 1);
  for (int i = 0; i < 10; ++i) look(reused, reused);
  EXPECT_NE(merged.Find(5), nullptr);
  for (int i = 0; i < 200; ++i) host.Observe({});
  look(reused, reused);
  EXPECT_NE(merged.Find(6), nullptr) << "the end was not seen, so the communicator is still there";
  for (int i = 0; i < 100; ++i) look(reused, reused);
  EXPECT_EQ(merged.Find(5), nullptr);
  EXPECT_EQ(merged.Members(6).Text(), "0, 1");
  EXPECT_EQ(merged.size(), 1u);
}

}  // namespace
}  // namespace lockstep
