#include "gui/app/session/session.h"

#include <gtest/gtest.h>

#include <QTemporaryDir>

namespace lockstep::gui {
namespace {

TEST(SessionTest, RecentNewestFirstAndBounded) {
  QTemporaryDir folder;
  Session session(folder.filePath("s.ini"));
  for (int i = 0; i < 40; ++i) session.AddRecent({QString("/data/%1").arg(i)});
  session.AddRecent({"/data/35"});
  session.AddRecent({});
  EXPECT_EQ(session.Recent().size(), Session::kMostRecent);
  EXPECT_EQ(session.Recent()[0], QStringList("/data/35"));
  EXPECT_EQ(session.Recent()[1], QStringList("/data/39"));
  session.RemoveRecent({"/data/39"});
  EXPECT_EQ(session.Recent()[1], QStringList("/data/38"));
}

TEST(SessionTest, ThePlaceInEachIncidentIsRemembered) {
  QTemporaryDir folder;
  Place place;
  place.matrix_mode = MatrixMode::kCommunicator;
  place.grouping = RowGrouping::kStage;
  place.matrix = {1, 2.5, 3, 4};
  place.filters = QStringList{"rank:1-3", "-host:a,b; c"};
  {
    Session session(folder.filePath("s.ini"));
    session.SetPlace({"/a"}, place, "id");  // not a recent incident, so not stored
    EXPECT_EQ(session.PlaceOf({"/a"}).place, Place());
    session.AddRecent({"/a", "/b"});
    session.SetPlace({"/a", "/b"}, place, "id");
  }
  Session session(folder.filePath("s.ini"));
  const Session::Remembered remembered = session.PlaceOf({"/a", "/b"});
  EXPECT_EQ(remembered.place, place);
  EXPECT_EQ(remembered.matrix_comm, "id");
  // When the incident leaves the list of recent incidents, its position is also forgotten.
  for (int i = 0; i < Session::kMostRecent; ++i) session.AddRecent({QString("/data/%1").arg(i)});
  EXPECT_EQ(session.PlaceOf({"/a", "/b"}).place, Place());
}

}  // namespace
}  // namespace lockstep::gui
