#include "gui/model/navigator.h"

#include <gtest/gtest.h>

namespace lockstep::gui {
namespace {

struct Changes {
  explicit Changes(Navigator* navigator) {
    QObject::connect(navigator, &Navigator::SelectionChanged, [this] { ++selection; });
    QObject::connect(navigator, &Navigator::PlaceChanged, [this] { ++place; });
    QObject::connect(navigator, &Navigator::HistoryChanged, [this] { ++history; });
  }
  int selection = 0, place = 0, history = 0;
};

Selection OfRank(int32_t rank) {
  Selection selection;
  selection.ranks = Ranks::Between(rank, rank);
  return selection;
}

TEST(NavigatorTest, EveryStepCanBeUndoneAndRedone) {
  Navigator navigator;
  Changes changes(&navigator);
  navigator.Select(OfRank(3));
  navigator.Select(OfRank(3));
  EXPECT_EQ(changes.selection, 1) << "an equal selection must not be announced";
  navigator.Select(OfRank(5));
  Place place = navigator.place();
  place.matrix = {10, 20, 0, 8};
  navigator.Go(place);
  EXPECT_EQ(changes.selection, 2);
  EXPECT_EQ(changes.place, 1);
  navigator.Back();
  EXPECT_EQ(navigator.place().matrix, Viewport());
  EXPECT_EQ(navigator.selection(), OfRank(5));
  navigator.Back();
  EXPECT_EQ(navigator.selection(), OfRank(3));
  navigator.Forward();
  navigator.Forward();
  EXPECT_EQ(navigator.place(), place);
  EXPECT_FALSE(navigator.CanGoForward());
  navigator.Back();
  navigator.Select(OfRank(9));
  EXPECT_FALSE(navigator.CanGoForward()) << "a new step must discard the undone ones";
}

TEST(NavigatorTest, ManySmallStepsAreOne) {
  Navigator navigator;
  navigator.Select(OfRank(1));
  for (int i = 1; i <= 50; ++i) {
    Place place = navigator.place();
    place.timeline = {double(i), double(i + 100), 0, 0};
    navigator.Scroll(place);
  }
  EXPECT_EQ(navigator.place().timeline.x0, 50);
  navigator.Back();
  EXPECT_EQ(navigator.place().timeline, Viewport());
  EXPECT_EQ(navigator.selection(), OfRank(1));
  navigator.Back();
  EXPECT_TRUE(navigator.selection().empty());
  EXPECT_FALSE(navigator.CanGoBack());
}

TEST(NavigatorTest, ConsequencesOfAStepAreUndoneWithIt) {
  Navigator navigator;
  Changes changes(&navigator);
  navigator.Select(OfRank(3));
  Place place = navigator.place();
  place.matrix_comm = 7;
  navigator.Amend(place);
  EXPECT_EQ(changes.place, 1);
  navigator.Select(OfRank(5));
  navigator.Back();
  EXPECT_EQ(navigator.place(), place);
  navigator.Back();
  EXPECT_EQ(navigator.place(), Place());
}

TEST(NavigatorTest, HistoryIsBounded) {
  Navigator navigator;
  for (int32_t i = 0; i < 1000; ++i) navigator.Select(OfRank(i));
  int steps = 0;
  while (navigator.CanGoBack()) navigator.Back(), ++steps;
  EXPECT_EQ(steps, 200);
  EXPECT_EQ(navigator.selection(), OfRank(799));
}

}  // namespace
}  // namespace lockstep::gui
