#include "gui/model/timeline/times.h"
#include "analyzer/util/time_units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>

#include "gui/model/safe_text.h"
#include "gui/model/timeline/lanes.h"
#include "gui/testing/facts.h"

namespace lockstep::gui {
namespace {

Bundle RandomBundle(unsigned seed, int ranks, int ops) {
  std::mt19937 random(seed);
  Bundle bundle;
  Communicator comm;
  comm.id = "1";
  comm.name = "dp";
  comm.size = ranks;
  for (int r = 0; r < ranks; ++r) comm.members.push_back(r);
  bundle.comms.push_back(comm);
  for (int r = 0; r < ranks; ++r) {
    Rank rank;
    rank.rank = r;
    rank.world_size = ranks;
    rank.host = "n" + std::to_string(r / 4);
    rank.captured_ns = 2000 * kMs;
    Membership m;
    m.comm = 0;
    m.member_rank = r;
    m.issued = ops;
    rank.memberships.push_back(m);
    rank.streams.resize(2);
    int64_t now = 100 * kMs;
    for (int i = 0; i < ops; ++i) {
      Op op;
      op.membership = 0;
      op.kind = ring::CallKind::kAllReduce;
      op.seq = i + 1;
      op.stream = random() % 2;
      now += 1000 * static_cast<int64_t>(random() % 9000);
      op.enter_ns = now;
      op.return_ns = now + 1000 * static_cast<int64_t>(random() % 2000);
      static constexpr OpState kStates[] = {OpState::kCompleted, OpState::kCompleted, OpState::kCompleted,
                                            OpState::kCompleted, OpState::kUnknown,   OpState::kStarted,
                                            OpState::kEnqueued,  OpState::kFailed};
      op.state = i + 3 < ops ? kStates[random() % 5] : kStates[random() % 8];
      if (op.state == OpState::kCompleted || op.state == OpState::kStarted) {
        op.started_ns = op.return_ns + 1000 * static_cast<int64_t>(random() % 5000);
        if (op.state == OpState::kCompleted)
          op.completed_ns = op.started_ns + 1000 * static_cast<int64_t>(random() % 5000);
      }
      rank.ops.push_back(op);
    }
    bundle.ranks.push_back(std::move(rank));
  }
  return bundle;
}

DocumentPtr Open(const Bundle& bundle) {
  ViewFacts facts;
  for (const Rank& rank : bundle.ranks) {
    RankFacts* out = facts.add_ranks();
    out->set_rank(rank.rank);
    out->set_clock_uncertainty_ns(-1);
    for (size_t s = 0; s < rank.streams.size(); ++s) out->add_streams(static_cast<uint32_t>(s));
  }
  return testing::OpenWith(bundle, std::move(facts));
}

// Draws every piece separately, as a reference.
std::vector<uint8_t> Oracle(const Timeline& t, int row, LaneFilter filter, double begin, double end, int width) {
  std::vector<uint8_t> out(static_cast<size_t>(width), 0);
  for (int64_t i = 0; i < t.document().OpCount(row); ++i) {
    const IndexOp op = t.document().OpAt(row, i);
    TimelinePiece pieces[3];
    const int n = t.PiecesOf(row, op, pieces);
    for (int k = 0; k < n; ++k) {
      if (!filter.Shows(pieces[k], op.stream)) continue;
      const double per = width / (end - begin);
      for (int x = 0; x < width; ++x) {
        const double a = begin + x / per, b = begin + (x + 1) / per;
        const auto p = static_cast<double>(pieces[k].begin), q = static_cast<double>(pieces[k].end);
        // A piece covers the pixel in which it starts, and every pixel that it reaches.
        if ((p >= a && p < b) || (p < b && q > a))
          out[static_cast<size_t>(x)] = std::max(out[static_cast<size_t>(x)], static_cast<uint8_t>(pieces[k].look));
      }
    }
  }
  return out;
}

TEST(TimelineTest, PixelsMatchASlowComputationFromAllPieces) {
  std::mt19937 random(5);
  const DocumentPtr document = Open(RandomBundle(1, 3, 500));
  const auto t = Timeline::Build(document);
  ASSERT_NE(t, nullptr);
  for (int round = 0; round < 60; ++round) {
    const int row = static_cast<int>(random() % 3), width = 1 + static_cast<int>(random() % 300);
    const double begin = static_cast<double>(random()) / 4294967296.0 * static_cast<double>(t->span_ns());
    const double end = begin + std::pow(10.0, 3 + static_cast<double>(random() % 7));
    LaneFilter filter;
    filter.part = static_cast<LaneFilter::Part>(random() % 3);
    filter.stream = static_cast<uint8_t>(random() % 2);
    std::vector<uint8_t> looks(static_cast<size_t>(width), 0);
    int64_t budget = 1'000'000;
    ASSERT_TRUE(t->Exact(row, filter, begin, end, width, &budget, looks.data()));
    const std::vector<uint8_t> wanted = Oracle(*t, row, filter, begin, end, width);
    int differ = 0;
    for (int x = 0; x < width; ++x) {
      if (looks[static_cast<size_t>(x)] == wanted[static_cast<size_t>(x)]) continue;
      // A block drawn as a whole may cover a gap between its pieces within one pixel, but nothing may be missing.
      EXPECT_GE(looks[static_cast<size_t>(x)], wanted[static_cast<size_t>(x)]) << x;
      ++differ;
    }
    EXPECT_LE(differ, 1 + width / 50) << "round " << round;
    std::vector<uint8_t> coarse(static_cast<size_t>(width), 0);
    const int32_t rows[] = {row};
    if (filter.part == LaneFilter::Part::kAll) {
      t->Coarse(rows, 1, begin, end, width, coarse.data());
      for (int x = 0; x < width; ++x)
        EXPECT_GE(coarse[static_cast<size_t>(x)], wanted[static_cast<size_t>(x)]) << "a coarse view must lose nothing";
    }
  }
}

TEST(TimelineTest, TheWorstOfManyRanksKeepsItsPixel) {
  Bundle bundle = RandomBundle(2, 64, 400);
  for (Rank& rank : bundle.ranks) {
    for (Op& op : rank.ops) op.state = OpState::kCompleted;
  }
  bundle.ranks[37].ops[200].state = OpState::kFailed;
  const auto t = Timeline::Build(Open(bundle));
  ASSERT_NE(t, nullptr);
  std::vector<int32_t> rows;
  for (int r = 0; r < 64; ++r) rows.push_back(r);
  for (const int width : {3, 100, 1600, 4000}) {
    std::vector<uint8_t> looks(static_cast<size_t>(width), 0);
    t->Coarse(rows.data(), rows.size(), 0, static_cast<double>(t->span_ns()), width, looks.data());
    EXPECT_NE(std::find(looks.begin(), looks.end(), static_cast<uint8_t>(TimelineLook::kFailed)), looks.end()) << width;
  }
}

TEST(TimelineTest, UnmeasuredTimesAreNotDrawnAsMeasured) {
  Bundle bundle = RandomBundle(3, 1, 4);
  Rank& rank = bundle.ranks[0];
  rank.ops[0].state = OpState::kCompleted;
  rank.ops[0].started_ns = 0;
  rank.ops[0].completed_ns = rank.ops[0].return_ns + kMs;
  rank.ops[1].state = OpState::kUnknown;
  rank.ops[1].started_ns = rank.ops[1].completed_ns = 0;
  rank.ops[2].state = OpState::kIncomplete;
  rank.ops[2].started_ns = rank.ops[2].completed_ns = 0;
  rank.ops[3].state = OpState::kEntered;
  rank.ops[3].return_ns = rank.ops[3].started_ns = rank.ops[3].completed_ns = 0;
  const DocumentPtr d = Open(bundle);
  const auto t = Timeline::Build(d);
  TimelinePiece p[3];
  ASSERT_EQ(t->PiecesOf(0, d->OpAt(0, 0), p), 2);
  EXPECT_EQ(p[1].look, TimelineLook::kUnmeasured);
  ASSERT_EQ(t->PiecesOf(0, d->OpAt(0, 1), p), 1);
  EXPECT_EQ(p[0].look, TimelineLook::kHost);
  ASSERT_EQ(t->PiecesOf(0, d->OpAt(0, 2), p), 2);
  EXPECT_EQ(p[1].look, TimelineLook::kInFlight);
  EXPECT_EQ(p[1].end, t->TakenAt(0));
  ASSERT_EQ(t->PiecesOf(0, d->OpAt(0, 3), p), 1);
  EXPECT_EQ(p[0].look, TimelineLook::kHostOpen);
  EXPECT_EQ(p[0].end, t->span_ns()) << "still open when the data was taken, which is the end here";
}

TEST(TimelineTest, FindsOperationsAndPieces) {
  const DocumentPtr d = Open(RandomBundle(4, 2, 300));
  const auto t = Timeline::Build(d);
  int64_t budget = 1000;
  EXPECT_EQ(d->FindOp(1, 0, 77, ring::CallKind::kNone, -1, &budget), 76);
  EXPECT_EQ(d->FindOp(1, 0, 7777, ring::CallKind::kNone, -1, &budget), -1);
  EXPECT_EQ(d->FindOp(1, 5, 77, ring::CallKind::kNone, -1, &budget), -1);
  EXPECT_EQ(d->FindCollective(1, 0, 77), 76);
  EXPECT_EQ(d->FindCollective(-1, 0, 77), -1);
  budget = 3;
  EXPECT_EQ(d->FindOp(1, 0, 1, ring::CallKind::kNone, -1, &budget), -2);
  const IndexOp op = d->OpAt(0, 150);
  const TimelineHit hit = t->HitAt(0, {}, static_cast<double>(t->At(0, op.enter_ns)) + 100, 50);
  EXPECT_EQ(hit.row, 0);
  EXPECT_EQ(t->HitAt(0, {}, static_cast<double>(t->span_ns()) * 10, 50).row, -1);
}

TEST(TimelineTest, EmptyAndHostileTimes) {
  Bundle bundle = RandomBundle(6, 3, 10);
  bundle.ranks[0].ops.clear();
  bundle.ranks[2].captured_ns = INT64_MAX;
  auto facts_of = [&](int64_t offset) {
    ViewFacts facts;
    for (int i = 0; i < 3; ++i) facts.add_ranks()->set_rank(i);
    facts.mutable_ranks(1)->set_clock_offset_ns(offset);
    return facts;
  };
  for (const int64_t offset : {int64_t{0}, INT64_MAX, INT64_MIN, int64_t{-1}}) {
    const DocumentPtr document = testing::OpenWith(bundle, facts_of(offset));
    ASSERT_NE(document, nullptr);
    const auto t = Timeline::Build(document);
    ASSERT_NE(t, nullptr);
    EXPECT_GE(t->span_ns(), 1);
    std::vector<uint8_t> looks(50, 0);
    const int32_t rows[] = {0, 1, 2};
    t->Coarse(rows, 3, -1e18, 1e19, 50, looks.data());
    int64_t budget = 1000;
    for (const int row : rows) EXPECT_TRUE(t->Exact(row, {}, -1e18, 1e19, 50, &budget, looks.data()));
  }
  Bundle none;
  auto document = Document::FromBundle(none);
  ASSERT_TRUE(document.ok());
  EXPECT_NE(Timeline::Build(*document), nullptr);
  std::atomic<bool> cancel = true;
  EXPECT_EQ(Timeline::Build(*document, &cancel), nullptr);
}

TEST(TimelineTest, LanesByHostRankAndStream) {
  const DocumentPtr d = Open(RandomBundle(7, 12, 5));
  Selection selection;
  TimelineLanes lanes = OrderLanes(*d, LaneDetail::kHosts, LaneChoice::kSelectionFirst, selection, nullptr);
  EXPECT_EQ(lanes.lanes.size(), 3u);
  EXPECT_EQ(lanes.relevant, 0);
  lanes = OrderLanes(*d, LaneDetail::kStreams, LaneChoice::kAll, selection, nullptr);
  EXPECT_EQ(lanes.lanes.size(), 36u);
  EXPECT_TRUE(lanes.lanes[0].begins_host);
  EXPECT_FALSE(lanes.lanes[1].begins_rank);
  selection.ranks = Ranks::Of(std::vector<int32_t>{9, 2});
  lanes = OrderLanes(*d, LaneDetail::kRanks, LaneChoice::kSelectionFirst, selection, nullptr);
  ASSERT_EQ(lanes.lanes.size(), 12u);
  EXPECT_EQ(lanes.relevant, 2);
  EXPECT_EQ(d->RankAt(lanes.RowOf(0)), 2);
  EXPECT_EQ(d->RankAt(lanes.RowOf(1)), 9);
  EXPECT_EQ(d->RankAt(lanes.RowOf(2)), 0);
  EXPECT_EQ(OrderLanes(*d, LaneDetail::kRanks, LaneChoice::kSelectionOnly, selection, nullptr).lanes.size(), 2u);
  selection.comm = 0;
  EXPECT_EQ(OrderLanes(*d, LaneDetail::kRanks, LaneChoice::kSelectionOnly, selection, nullptr).lanes.size(), 12u)
      << "peers must be found, too";
  const Ranks filtered = Ranks::Between(8, 10);
  EXPECT_EQ(OrderLanes(*d, LaneDetail::kRanks, LaneChoice::kAll, selection, &filtered).lanes.size(), 3u);
}

TEST(TimelineTest, LateWorkOnAnUnnamedStreamHasALane) {
  Bundle bundle = RandomBundle(8, 2, 300);
  bundle.ranks[1].ops[290].stream = kNoIndex;
  const TimelineLanes lanes = OrderLanes(*Open(bundle), LaneDetail::kStreams, LaneChoice::kAll, {}, nullptr);
  ASSERT_EQ(lanes.lanes.size(), 7u) << "calls and two streams each, and one more";
  EXPECT_EQ(lanes.RowOf(6), 1);
  EXPECT_EQ(lanes.lanes[6].filter.stream, kIndexNoStream);
}

TEST(TimelineTest, TicksAreRound) {
  for (const double span : {1e3, 5e5, 3e8, 2e9, 7e10, 4e12, 9e13}) {
    const auto ticks = TimelineTicks(span * 0.3, span * 1.3, 1000, 100);
    int labels = 0;
    double last = -1;
    for (const TimelineTick& tick : ticks) {
      EXPECT_GT(tick.at, last);
      last = tick.at;
      labels += !tick.label.isEmpty();
    }
    EXPECT_GE(labels, 2) << span;
    EXPECT_LE(labels, 12) << span;
  }
  for (const double at : {281e6, 612.3e9, 7.3e12}) {
    for (double span = 1e3; span < at; span *= 7) {
      QStringList labels;
      for (const TimelineTick& tick : TimelineTicks(at, at + span, 1000, 120)) {
        if (!tick.label.isEmpty()) labels << tick.label;
      }
      EXPECT_GE(labels.size(), 2);
      EXPECT_EQ(labels.removeDuplicates(), 0)
          << "neighboring pixels must differ at high zoom: " << labels.join(", ").toStdString();
    }
  }
  EXPECT_TRUE(TimelineTicks(5, 5, 100, 10).empty());
  EXPECT_EQ(AxisDuration(4.2e9), "4.20 s");
  EXPECT_EQ(AxisDuration(1e300), AxisDuration(9.3e18)) << "a range after the last operation";
}

}  // namespace
}  // namespace lockstep::gui
