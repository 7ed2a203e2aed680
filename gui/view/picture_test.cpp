// Compares pictures of whole scenes with gui/view/goldens. LOCKSTEP_WRITE_GOLDENS=1 writes the goldens again; inspect
// them.
#include <gtest/gtest.h>

#include <QApplication>
#include <QDir>
#include <QFontDatabase>
#include <QImage>
#include <QPainter>
#include <QPalette>

#include <cstdlib>

#include "analyzer/testing/job.h"
#include "gui/testing/samples.h"
#include "gui/testing/until.h"
#include "gui/view/answer/view.h"
#include "gui/view/matrix/legend.h"
#include "gui/view/matrix/view.h"

namespace lockstep::gui {
namespace {

constexpr int kMostOff = 16;              // of 255, in any channel
constexpr double kMostDiffering = 0.005;  // share of the pixels

QPalette Dark() {
  QPalette palette;
  palette.setColor(QPalette::Window, QColor("#202224"));
  palette.setColor(QPalette::WindowText, QColor("#eceff1"));
  palette.setColor(QPalette::Base, QColor("#17191a"));
  palette.setColor(QPalette::Text, QColor("#eceff1"));
  return palette;
}

Bundle Stall() {
  Bundle bundle = testing::HangBundle(2, 2, 4, 8);
  for (Rank& rank : bundle.ranks) rank.host = "node" + std::to_string(rank.rank / 4);
  return bundle;
}

DocumentPtr Open(const Bundle& bundle) { return testing::Made(bundle); }

class MatrixPictureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!QFontDatabase::families().contains("DejaVu Sans")) GTEST_SKIP() << "the font DejaVu Sans is not installed";
    if (QGuiApplication::primaryScreen() == nullptr || qApp->devicePixelRatio() != 1)
      GTEST_SKIP() << "the reference pictures have one pixel per point";
    view_.resize(720, 400);
  }
  void Show(DocumentPtr document) {
    view_.SetDocument(std::move(document));
    ASSERT_TRUE(testing::Settles(view_));
  }
  void Compare(View* view, const QString& name) {
    ASSERT_TRUE(testing::Settles(*view));
    const QImage got = view->grab().toImage().convertToFormat(QImage::Format_RGB32);
    const QString path = QString(QT_TESTCASE_SOURCEDIR "/goldens/%1.png").arg(name);
    if (getenv("LOCKSTEP_WRITE_GOLDENS") != nullptr) {
      QDir().mkpath(QT_TESTCASE_SOURCEDIR "/goldens");
      ASSERT_TRUE(got.save(path));
      return;
    }
    const QImage golden = QImage(path).convertToFormat(QImage::Format_RGB32);
    ASSERT_FALSE(golden.isNull()) << path.toStdString();
    QImage differs(got.size(), QImage::Format_RGB32);
    int64_t off = 0;
    if (golden.size() == got.size()) {
      for (int y = 0; y < got.height(); ++y) {
        for (int x = 0; x < got.width(); ++x) {
          const QRgb a = got.pixel(x, y), b = golden.pixel(x, y);
          const bool far = std::abs(qRed(a) - qRed(b)) > kMostOff || std::abs(qGreen(a) - qGreen(b)) > kMostOff ||
                           std::abs(qBlue(a) - qBlue(b)) > kMostOff;
          off += far ? 1 : 0;
          differs.setPixel(x, y, far ? qRgb(255, 0, 0) : qRgb(qGray(a), qGray(a), qGray(a)));
        }
      }
    }
    const bool same =
        golden.size() == got.size() && static_cast<double>(off) <= kMostDiffering * got.width() * got.height();
    if (same) return;
    const QString actual = QDir::temp().filePath("lockstep-" + name);
    got.save(actual + "-actual.png");
    differs.save(actual + "-differs.png");
    FAIL() << name.toStdString() << ": " << off << " pixels differ, see " << actual.toStdString()
           << "-actual.png and -differs.png";
  }
  Navigator navigator_;
  MatrixView view_{&navigator_};
};

TEST_F(MatrixPictureTest, Healthy) {
  Show(Open(lockstep::testing::Job(2, 2, 4, 8).Run()));
  Compare(&view_, "matrix_healthy");
}

TEST_F(MatrixPictureTest, AllRanksOfAStall) {
  Show(Open(Stall()));
  Compare(&view_, "matrix_stall_all_ranks");
}

TEST_F(MatrixPictureTest, ACulpritInItsCommunicator) {
  const DocumentPtr document = Open(Stall());
  Show(document);
  navigator_.Select(document->AnomalyAt(0));
  Compare(&view_, "matrix_stall_culprit");
}

TEST_F(MatrixPictureTest, DarkByHostWithAPinnedRankZoomedIn) {
  view_.setPalette(Dark());
  Show(Open(Stall()));
  Place place = navigator_.place();
  place.grouping = RowGrouping::kHost;
  place.pinned = Ranks::Between(5, 5);
  place.matrix = {60, 95, 2, 14};
  navigator_.Go(place);
  Compare(&view_, "matrix_dark_by_host");
}

TEST_F(MatrixPictureTest, ARankWithoutData) {
  Bundle bundle = Stall();
  bundle.ranks.erase(bundle.ranks.begin() + 5);
  const DocumentPtr document = Open(bundle);
  Place place;
  place.matrix_mode = MatrixMode::kCommunicator;
  place.matrix_comm = 0;
  navigator_.Go(place);
  Show(document);
  Compare(&view_, "matrix_no_data");
}

TEST_F(MatrixPictureTest, NothingIsOpen) { Compare(&view_, "matrix_empty"); }

TEST_F(MatrixPictureTest, Legend) {
  LegendView legend(&navigator_);
  legend.resize(legend.sizeHint());
  legend.SetDocument(Open(Stall()));
  Compare(&legend, "legend");
}

TEST_F(MatrixPictureTest, Answer) {
  const DocumentPtr document = Open(Stall());
  for (const bool dark : {false, true}) {
    Navigator navigator;
    AnswerView answer(&navigator);
    answer.setPalette(dark ? Dark() : QPalette());
    answer.resize(900, 420);
    answer.SetDocument(document);
    Compare(&answer, dark ? "answer_stall_dark" : "answer_stall");
  }
}

TEST_F(MatrixPictureTest, HighDensity) {
  Show(Open(Stall()));
  QImage once(view_.size(), QImage::Format_RGB32), twice(view_.size() * 2, QImage::Format_RGB32);
  twice.setDevicePixelRatio(2);
  for (QImage* image : {&once, &twice}) {
    QPainter painter(image);
    painter.setFont(view_.font());
    ASSERT_TRUE(view_.Paint(&painter, view_.size()));
  }
  const MatrixView::Cell cell{3, 50};
  view_.grab();
  const QPoint at = view_.CentreOf(cell);
  EXPECT_EQ(once.pixel(at), twice.pixel(at * 2)) << "the same cell must be at the same position";
}

}  // namespace
}  // namespace lockstep::gui
