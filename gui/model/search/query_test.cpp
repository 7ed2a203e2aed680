#include "gui/model/search/query.h"

#include <gtest/gtest.h>

#include <atomic>
#include <iterator>
#include <set>

#include "analyzer/testing/job.h"
#include "gui/testing/samples.h"
#include "recorder/ring/calls.h"

namespace lockstep::gui {
namespace {

std::string Error(const QString& text) {
  auto query = ParseQuery(text);
  return query.ok() ? "" : std::string(query.status().message());
}

TEST(QueryTest, Parses) {
  auto query = ParseQuery("rank:0-3,7 -host:n21* seq>=8800 \"data parallel\" comm:\"tp 1\" lag<-1 State:MISSING 17043");
  ASSERT_TRUE(query.ok()) << query.status();
  ASSERT_EQ(query->size(), 8u);
  EXPECT_EQ((*query)[0].numbers.Text(), "0-3, 7");
  EXPECT_TRUE((*query)[1].excludes);
  EXPECT_EQ((*query)[1].key, QueryTerm::Key::kHost);
  EXPECT_EQ((*query)[2].compare, QueryTerm::Compare::kAtLeast);
  EXPECT_EQ((*query)[2].number, 8800);
  EXPECT_EQ((*query)[3].text, "data parallel");
  EXPECT_EQ((*query)[3].key, QueryTerm::Key::kAny);
  EXPECT_EQ((*query)[4].text, "tp 1");
  EXPECT_EQ((*query)[5].number, -1);
  EXPECT_EQ((*query)[6].text, "missing");
  EXPECT_EQ((*query)[7].key, QueryTerm::Key::kAny);
  EXPECT_TRUE(ParseQuery("   ")->empty());
  EXPECT_TRUE(ParseQuery("- \"\"")->empty());
}

TEST(QueryTest, ErrorsNameTheWordAndWhatIsAllowed) {
  EXPECT_EQ(Error("rank:x"), "rank:x: give numbers, as in rank:7 or rank:0-63,128");
  EXPECT_EQ(Error("rank:3-1"), "rank:3-1: give numbers, as in rank:7 or rank:0-63,128");
  EXPECT_EQ(Error("seq:99999999999"), "seq:99999999999: give numbers, as in seq:7 or seq:0-63,128");
  EXPECT_EQ(Error("seq>x"), "seq>x: give a number");
  EXPECT_EQ(Error("host>3"), "host takes a colon: host:3");
  EXPECT_EQ(Error("rank:"), "rank: needs a value");
  EXPECT_NE(Error("color:red").find("color: is not a filter; the filters are rank, host"), std::string::npos);
  EXPECT_NE(Error("state:sleepy").find("the values are completed, "), std::string::npos);
  EXPECT_NE(Error(QString(20'000, 'x')).find("at most"), std::string::npos);
  EXPECT_NE(Error(QString("x ").repeated(100)).find("at most 64 words"), std::string::npos);
}

TEST(QueryTest, Patterns) {
  EXPECT_TRUE(QueryPatternMatches("n21*", u"N2130", true));
  EXPECT_FALSE(QueryPatternMatches("n21", u"n2130", true));
  EXPECT_TRUE(QueryPatternMatches("21", u"n2130", false));
  EXPECT_TRUE(QueryPatternMatches("t?_*5", u"tp_1025", true));
  EXPECT_FALSE(QueryPatternMatches("t?_*5", u"tp_1024", true));
  EXPECT_TRUE(QueryPatternMatches("*", u"", true));
  EXPECT_FALSE(QueryPatternMatches("?", u"", true));
  // A pattern for which a backtracking matcher would take forever.
  EXPECT_FALSE(QueryPatternMatches(QString("a*").repeated(200) + "b", QString(2000, 'a'), true));
}

class QueryRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    document_ = testing::Made(testing::HangBundle());
    ASSERT_NE(document_, nullptr);
  }
  QueryResult Run(const QString& text) {
    auto query = ParseQuery(text);
    EXPECT_TRUE(query.ok()) << query.status();
    return query.ok() ? RunQuery(*document_, *query) : QueryResult();
  }
  // Counts the slow way: all operations, one by one.
  template <typename F>
  int64_t Count(F matches) {
    int64_t count = 0;
    for (int row = 0; row < document_->rank_count(); ++row) {
      for (int64_t i = 0; i < document_->OpCount(row); ++i) count += matches(row, document_->OpAt(row, i)) ? 1 : 0;
    }
    return count;
  }
  DocumentPtr document_;
};

TEST_F(QueryRunTest, FindsRanksByNumberHostAndState) {
  EXPECT_EQ(Run("rank:2-4").ranks, Ranks::Between(2, 4));
  EXPECT_FALSE(Run("rank:2-4").records);
  EXPECT_EQ(Run("rank:2-4").hit_count, 3);
  EXPECT_EQ(Run("rank:2-4").hits[0].record, -1);
  EXPECT_EQ(Run("-rank:2-4 rank<6").ranks, Ranks({0, 1, 5}));
  EXPECT_EQ(Run("5").ranks, Ranks::Between(5, 5));
  EXPECT_EQ(Run("rank:900").hit_count, 0);
  EXPECT_EQ(Run("host:*").ranks, Ranks::Between(0, 7));
  EXPECT_TRUE(Run("state:missing").ranks.Contains(5));
  EXPECT_TRUE(Run("").hits.empty());
}

TEST_F(QueryRunTest, CommunicatorsByName) {
  const QString name = document_->CommName(document_->AnomalyAt(0).comm);
  const QueryResult result = Run("comm:" + name);
  EXPECT_FALSE(result.records);
  EXPECT_TRUE(result.ranks.Contains(5));
  ASSERT_FALSE(result.comms.empty());
  EXPECT_EQ(document_->CommName(result.comms[0]), name);
}

TEST_F(QueryRunTest, ACommunicatorMatchesAllTerms) {
  const auto comms = [this](const QString& text) {
    std::set<QString> names;
    for (const int32_t comm : Run(text).comms) names.insert(document_->CommName(comm));
    return names;
  };
  const std::set<QString> dp = comms("dp");
  ASSERT_EQ(dp.size(), 4u);
  const QString last = *dp.rbegin();
  EXPECT_EQ(comms(last + " dp"), std::set<QString>{last});
  EXPECT_EQ(comms("dp comm:" + last), std::set<QString>{last});
  EXPECT_TRUE(comms("tp comm:" + last).empty());
  EXPECT_EQ(comms("dp -comm:" + last), std::set<QString>(dp.begin(), std::prev(dp.end())));
  EXPECT_TRUE(comms("-comm:" + last).empty()) << "no term names a communicator";
}

TEST_F(QueryRunTest, FindsTheSameOperationsAsALinearSearch) {
  const auto is = [](ring::CallKind kind) { return [kind](int, const IndexOp& op) { return op.kind == kind; }; };
  ASSERT_GT(Count(is(ring::CallKind::kAllReduce)), 0);
  EXPECT_EQ(Run("op:allreduce").hit_count, Count(is(ring::CallKind::kAllReduce)));
  EXPECT_EQ(Run("AllReduce").hit_count, Count(is(ring::CallKind::kAllReduce)));
  EXPECT_EQ(Run("-op:allreduce seq>=0").hit_count,
            Count([](int, const IndexOp& op) { return op.kind != ring::CallKind::kAllReduce && op.seq >= 0; }));
  EXPECT_EQ(Run("seq:2-3").hit_count, Count([](int, const IndexOp& op) { return op.seq >= 2 && op.seq <= 3; }));
  EXPECT_EQ(Run("seq:2,5").hit_count, Count([](int, const IndexOp& op) { return op.seq == 2 || op.seq == 5; }));
  EXPECT_EQ(Run("seq>3 -seq:5").hit_count, Count([](int, const IndexOp& op) { return op.seq > 3 && op.seq != 5; }));
  EXPECT_EQ(Run("seq<2 seq>2").hit_count, 0);
  EXPECT_EQ(Run("seq>=9223372036854775807").hit_count, 0);
  EXPECT_EQ(Run("seq<-9223372036854775808").hit_count, 0);
  EXPECT_EQ(Run("state:completed rank:5").hit_count, Count([this](int row, const IndexOp& op) {
              return document_->RankAt(row) == 5 && op.state == OpState::kCompleted;
            }));
  const int32_t comm = document_->AnomalyAt(0).comm;
  EXPECT_EQ(Run("op:* comm:" + document_->CommName(comm)).hit_count,
            Count([&](int, const IndexOp& op) { return document_->CommOf(op) == comm; }));
  EXPECT_EQ(Run("op:* -comm:" + document_->CommName(comm)).hit_count,
            Count([&](int, const IndexOp& op) { return document_->CommOf(op) != comm; }));
  const QueryResult waiting = Run("state:waiting");
  EXPECT_TRUE(waiting.records);
  EXPECT_GT(waiting.hit_count, 0);
  for (const QueryHit& hit : waiting.hits) {
    EXPECT_NE(document_->OpAt(document_->RowOf(hit.rank), hit.record).state, OpState::kCompleted);
  }
}

TEST_F(QueryRunTest, StopsWhenCancelled) {
  const std::atomic<bool> cancel = true;
  EXPECT_TRUE(RunQuery(*document_, *ParseQuery("op:*"), &cancel).hits.empty());
}

}  // namespace
}  // namespace lockstep::gui
