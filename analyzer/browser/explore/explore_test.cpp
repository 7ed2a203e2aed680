#include "analyzer/browser/explore/explore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/formats/lsi/writer.h"
#include "analyzer/testing/report_samples.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/viewdata/facts.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A job with one communicator and `calls` collectives per rank.
Bundle Job(int32_t ranks, int64_t calls) {
  Bundle bundle = MakeBundle(0);
  Communicator world;
  world.id = "00000000000000aa";
  world.name = "world";
  world.size = ranks;
  for (int32_t r = 0; r < ranks; ++r) {
    world.members.push_back(r);
    Rank rank;
    rank.rank = r;
    rank.world_size = ranks;
    rank.host = absl::StrCat("node", r / 8);
    Membership m;
    m.comm = 0;
    m.member_rank = r;
    m.issued = m.completed = calls;
    rank.memberships.push_back(m);
    for (int64_t seq = 1; seq <= calls; ++seq) {
      Op op;
      op.membership = 0;
      op.kind = ring::CallKind::kAllReduce;
      op.seq = op.index = seq;
      op.enter_ns = 1'000'000'000 + seq * 1'000'000;
      op.state = OpState::kCompleted;
      rank.ops.push_back(op);
    }
    bundle.ranks.push_back(rank);
  }
  bundle.comms.push_back(world);
  bundle.ranks_expected = ranks;
  return bundle;
}

TEST(Explore, NamesFromFilesCannotEndTheDataOrTurnTheText) {
  const std::string evil = "</script><!--\xe2\x80\xae\x1b[31m\"'&\xff";
  Bundle bundle = Job(8, 4);
  bundle.job = evil;
  bundle.comms[0].name = evil;
  bundle.ranks[3].host = evil;
  bundle.ranks[3].process.python_stack = {evil};
  bundle.strings = {evil};
  bundle.ranks[3].ops[0].call_site = 0;
  const std::string data = ExploreData(bundle, BuildViewFacts(bundle));
  EXPECT_THAT(data, Not(HasSubstr("<")));
  const nlohmann::json read = nlohmann::json::parse(data);
  EXPECT_THAT(read["job"].get<std::string>(), HasSubstr("</script>"));
  EXPECT_THAT(read["comms"][0]["name"].get<std::string>(), HasSubstr("</script>"));
  const std::string all = read.dump();
  EXPECT_THAT(all, Not(HasSubstr("\xe2\x80\xae")));
  EXPECT_THAT(all, Not(HasSubstr("\\u001b")));
}

std::string Decoded(const nlohmann::json& column) {
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(column.get<std::string>(), &bytes));
  return bytes;
}
template <typename T>
std::vector<T> ColumnOf(const nlohmann::json& column) {
  const std::string bytes = Decoded(column);
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

TEST(Explore, ALargeJobKeepsTheNewestCallsAndTheStatesOfAll) {
  const Bundle bundle = Job(1024, 300);
  const std::string page = ExploreHtml(bundle, BuildViewFacts(bundle));
  EXPECT_LT(page.size(), 5'000'000u);
  const nlohmann::json read = nlohmann::json::parse(ExploreData(bundle, BuildViewFacts(bundle)));
  const std::vector<uint32_t> kept = ColumnOf<uint32_t>(read["calls"]["ofRank"]);
  EXPECT_THAT(kept, Each(kept[0]));
  EXPECT_GE(kept[0], 40u);
  EXPECT_THAT(read["note"].get<std::string>(),
              HasSubstr(absl::StrCat("the newest ", kept[0], " calls of each rank are on this page, ",
                                     CountText(int64_t{1024} * (300 - kept[0])), " older")));
  ASSERT_EQ(read["grids"].size(), 2u);
  for (const auto& grid : read["grids"]) {
    EXPECT_EQ(grid["columns"], 300);
    EXPECT_EQ(ColumnOf<uint32_t>(grid["rows"]), (std::vector<uint32_t>{1024, 1})) << "all rows are equal";
  }
}

TEST(Explore, APageOfAVeryLargeJobHasCallsOfTheRanksInTheAnswer) {
  Bundle bundle = Job(8000, 40);
  bundle.ranks[4711].ops.pop_back();
  bundle.ranks[4711].memberships[0].issued = bundle.ranks[4711].memberships[0].completed = 39;
  for (Rank& rank : bundle.ranks) {
    if (rank.rank == 4711) continue;
    rank.ops.back().state = OpState::kEnqueued;
    rank.memberships[0].completed = 39;
  }
  bundle.known_stalled = true;
  const nlohmann::json read = nlohmann::json::parse(ExploreData(bundle, BuildViewFacts(bundle)));
  ASSERT_EQ(read["findings"][0]["ranks"], (std::vector<int>{4711, 4711}));
  const std::vector<uint32_t> kept = ColumnOf<uint32_t>(read["calls"]["ofRank"]);
  EXPECT_EQ(kept[4711], 39u);
  EXPECT_LT(std::count_if(kept.begin(), kept.end(), [](uint32_t calls) { return calls > 0; }), 65);
  EXPECT_THAT(read["note"].get<std::string>(), HasSubstr("lockstep serve FOLDER"));
  // The rank at fault has its own row, whose last column is a missing call.
  const auto& grid = read["grids"][1];
  EXPECT_EQ(grid["columns"], 40);
  EXPECT_EQ(ColumnOf<uint32_t>(grid["rows"]), (std::vector<uint32_t>{4711, 1, 1, 2, 8000 - 4712, 1}));
  EXPECT_EQ(ColumnOf<uint16_t>(grid["length"]), (std::vector<uint16_t>{39, 1, 39, 1}));
  EXPECT_EQ(ColumnOf<uint8_t>(grid["state"])[3], static_cast<uint8_t>(ViewState::kMissing));
}

TEST(Explore, AnIndexGivesTheSameStatesAndCalls) {
  Bundle bundle = Job(64, 30);
  bundle.ranks[5].ops.resize(20);
  bundle.ranks[5].memberships[0].issued = 20;
  bundle.ranks[7].ops[3].state = OpState::kFailed;
  const ViewFacts facts = BuildViewFacts(bundle);
  const support::TempFolder folder;
  const std::string path = folder.path() + "/explore.lsi";
  ASSERT_TRUE(WriteIndex(bundle, 1, path, facts.SerializeAsString()).ok());
  const auto index = IndexReader::Open(path);
  ASSERT_TRUE(index.ok()) << index.status();
  const Bundle frame = FrameOfIndex(**index, facts);
  const IndexCalls stored(**index);
  const BundleCalls loaded(bundle);
  EXPECT_EQ(ExploreGrids(frame, facts, stored), ExploreGrids(bundle, facts, loaded));
  EXPECT_EQ(ExploreCalls(frame, facts, stored, {5, 7}), ExploreCalls(bundle, facts, loaded, {5, 7}));
  const nlohmann::json served = nlohmann::json::parse(ExploreServedData(frame, facts, stored));
  const nlohmann::json whole = nlohmann::json::parse(ExploreData(bundle, facts));
  EXPECT_TRUE(served["grids"].is_null());
  for (const char* same : {"ranks", "comms", "memberships", "lanes", "focus", "findings", "waits"})
    EXPECT_EQ(served[same], whole[same]) << same;
}

TEST(Explore, NumbersFromFilesDoNotMakeAGridLarge) {
  Bundle bundle = Job(4, 10);
  bundle.ranks[1].memberships[0].issued = int64_t{1} << 60;
  bundle.ranks[2].ops[4].seq = int64_t{1} << 59;
  bundle.ranks[3].ops[0].seq = kUnknown;
  const nlohmann::json read = nlohmann::json::parse(ExploreData(bundle, BuildViewFacts(bundle)));
  EXPECT_LE(read["grids"][1]["columns"], 4096);
  EXPECT_LT(ColumnOf<uint16_t>(read["grids"][1]["length"]).size(), 100u);
}

// The size of a page, the note in its header, and its number of ranks and calls.
struct Made {
  size_t bytes = 0;
  std::string note, verdict;
  size_t ranks = 0, calls = 0;
};
Made MadeOf(const Bundle& bundle, size_t most_bytes) {
  const std::string page = ExploreHtml(bundle, BuildViewFacts(bundle), most_bytes);
  const std::string before = "id=\"data\">";
  const size_t begin = page.find(before) + before.size();
  const nlohmann::json data = nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  return {page.size(), data["note"], data["verdict"], data["ranks"].empty() ? 0 : data["ranks"]["rank"].size(),
          Decoded(data["calls"]["kind"]).size()};
}

TEST(Explore, APageIsNoLargerThanItsLimitAndSaysWhatIsMissing) {
  const Bundle bundle = Job(256, 80);
  const Made whole = MadeOf(bundle, kMostExploreBytes);
  EXPECT_EQ(whole.note, "");
  EXPECT_EQ(whole.calls, 256u * 80);
  const Made fewer = MadeOf(bundle, whole.bytes - 100'000);
  EXPECT_LE(fewer.bytes, whole.bytes - 100'000);
  EXPECT_THAT(fewer.note, HasSubstr("the newest"));
  EXPECT_GT(fewer.calls, whole.calls / 2);
  EXPECT_LT(fewer.calls, whole.calls);
  // Below that size, the page first omits all calls, then everything except the verdict.
  std::vector<std::string> notes;
  for (size_t limit = whole.bytes; limit > 20000 && (notes.empty() || !absl::StrContains(notes.back(), "verdict"));
       limit -= whole.bytes / 30) {
    const Made made = MadeOf(bundle, limit);
    const std::string note = made.note.substr(0, 10);
    if (notes.empty() || note != notes.back().substr(0, 10)) notes.push_back(made.note);
    EXPECT_EQ(made.verdict, whole.verdict);
    EXPECT_LE(made.bytes, limit);
    EXPECT_EQ(made.ranks, absl::StrContains(made.note, "only the verdict") ? 0u : 256u);
  }
  EXPECT_THAT(notes,
              ElementsAre("", HasSubstr("the newest"), HasSubstr("do not fit"), HasSubstr("only the verdict fits")));
  for (size_t i = 1; i < notes.size(); ++i) EXPECT_THAT(notes[i], HasSubstr("lockstep serve FOLDER"));
}

TEST(Explore, EscapedTextsCountAsTheyAreWritten) {
  const Bundle bundle = Job(2, 1);
  ViewFacts facts = BuildViewFacts(bundle);
  for (int i = 0; i < 50; ++i) facts.mutable_verdict()->add_findings()->set_summary(std::string(500, '<'));
  const std::string data = ExploreData(bundle, facts, 40'000);
  EXPECT_THAT(data, HasSubstr("only the verdict fits"));
  EXPECT_THAT(data, HasSubstr("\\u003c"));
  EXPECT_LT(data.size(), 40'000u);
}

TEST(Explore, TheSameIncidentGivesTheSameBytes) {
  const Bundle bundle = Job(64, 20);
  EXPECT_EQ(ExploreHtml(bundle, BuildViewFacts(bundle)), ExploreHtml(bundle, BuildViewFacts(bundle)));
}

TEST(Explore, AnEmptyBundleIsAPage) {
  EXPECT_THAT(ExploreHtml(Bundle(), ViewFacts()), HasSubstr("Content-Security-Policy"));
}

TEST(Explore, APageWithOtherMarkupIsNotRecognized) {
  const std::string page = ExplorePage(Job(2, 2), Verdict(), {});
  EXPECT_THAT(page, HasSubstr(ExplorePolicy()));
  EXPECT_TRUE(IsExplorePage(page));
  const size_t data = page.find("id=\"data\">") + 10;
  for (const size_t at : {size_t{0}, data, page.size()}) {
    std::string other = page;
    EXPECT_FALSE(IsExplorePage(other.insert(at, "<meta http-equiv=refresh content='0;url=http://elsewhere'>"))) << at;
  }
  EXPECT_FALSE(IsExplorePage(page.substr(0, page.size() - 1)));
  EXPECT_FALSE(IsExplorePage(""));
}

}  // namespace
}  // namespace lockstep
