#include "analyzer/formats/fr/member_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace lockstep::fr {
namespace {

using ::testing::ElementsAre;

TEST(FrMemberLists, EqualTextsShareOneList) {
  MemberLists lists;
  const MemberList one = lists.Parse("[0, 2, 5]");
  const MemberList same = lists.Parse("[0, 2, 5]");
  EXPECT_THAT(one.ranks(), ElementsAre(0, 2, 5));
  EXPECT_EQ(&one.ranks(), &same.ranks());
  EXPECT_NE(&one.ranks(), &lists.Parse("[0,2,5]").ranks());
  EXPECT_EQ(one, lists.Parse("[0,2,5]"));
  EXPECT_FALSE(one == lists.Parse("[0, 2]"));
}

TEST(FrMemberLists, TextsThatListNoRanksAreEmpty) {
  MemberLists lists;
  for (const char* bad : {"", "[]", "[1, 1]", "[a]", "[-1]"}) EXPECT_TRUE(lists.Parse(bad).empty()) << bad;
}

TEST(FrMemberLists, PlacesAreIndexes) {
  const MemberList whole(std::vector<int32_t>{0, 1, 2}), part(std::vector<int32_t>{3, 1, 8});
  EXPECT_EQ(whole.PlaceOf(2), 2);
  EXPECT_EQ(part.PlaceOf(3), 0);
  EXPECT_EQ(part.PlaceOf(1), 1);
  EXPECT_EQ(part.PlaceOf(8), 2);
  for (int32_t absent : {-1, 0, 2, 9}) EXPECT_EQ(part.PlaceOf(absent), -1) << absent;
  EXPECT_FALSE(MemberList().Contains(0));
}

}  // namespace
}  // namespace lockstep::fr
