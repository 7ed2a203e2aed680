#include "gui/app/commands/fuzzy.h"

#include <gtest/gtest.h>

namespace lockstep::gui {
namespace {

TEST(FuzzyTest, LettersInOrder) {
  EXPECT_EQ(FuzzyScore("", u"anything"), 0);
  EXPECT_GT(FuzzyScore("na", u"Next anomaly"), 0);
  EXPECT_EQ(FuzzyScore("an x", u"Next anomaly"), -1);
  EXPECT_EQ(FuzzyScore("nextanomalys", u"Next anomaly"), -1);
  EXPECT_EQ(FuzzyScore("x", u""), -1);
}

TEST(FuzzyTest, BetterComesFirst) {
  EXPECT_GT(FuzzyScore("zoom", u"Zoom in"), FuzzyScore("zoom", u"Zigzag over one mile"));
  EXPECT_GT(FuzzyScore("na", u"Next anomaly"), FuzzyScore("na", u"An instance at"));
  EXPECT_GT(FuzzyScore("rank 3", u"rank 3"), FuzzyScore("rank 3", u"rank 13"));
  EXPECT_GT(FuzzyScore("rank 3", u"rank 3"), FuzzyScore("rank 3", u"rank 30"));
  // A match at the start of a later word also scores high.
  EXPECT_GT(FuzzyScore("sel", u"Zoom to the selection"), FuzzyScore("sel", u"Close the panel"));
}

}  // namespace
}  // namespace lockstep::gui
