#include "analyzer/explore/explore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/testing/report_samples.h"
#include "analyzer/viewdata/facts.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A job of one communicator and `calls` collectives of each rank.
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

TEST(Explore, ALargeJobKeepsTheNewestCallsAndCountsTheRest) {
  const Bundle bundle = Job(1024, 300);
  const std::string page = ExploreHtml(bundle, BuildViewFacts(bundle));
  EXPECT_LT(page.size(), 5'000'000u);
  const nlohmann::json read = nlohmann::json::parse(ExploreData(bundle, BuildViewFacts(bundle)));
  const int64_t kept = read["calls"]["perRank"];
  EXPECT_GE(kept, 40);
  EXPECT_EQ(read["calls"]["leftOut"].get<int64_t>(), 1024 * (300 - kept));
}

TEST(Explore, TheSameIncidentGivesTheSameBytes) {
  const Bundle bundle = Job(64, 20);
  EXPECT_EQ(ExploreHtml(bundle, BuildViewFacts(bundle)), ExploreHtml(bundle, BuildViewFacts(bundle)));
}

TEST(Explore, AnEmptyBundleIsAPage) {
  EXPECT_THAT(ExploreHtml(Bundle(), ViewFacts()), HasSubstr("Content-Security-Policy"));
}

}  // namespace
}  // namespace lockstep
