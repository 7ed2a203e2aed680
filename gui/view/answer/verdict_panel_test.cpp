#include "gui/view/answer/verdict_panel.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QClipboard>
#include <QLabel>
#include <QTest>
#include <QToolButton>
#include <QVBoxLayout>

#include "gui/testing/samples.h"

namespace lockstep::gui {
namespace {

// The panel above another widget, as in the window.
struct Window {
  Window(int width, int height) {
    widget.resize(width, height);
    auto* layout = new QVBoxLayout(&widget);
    layout->setContentsMargins(0, 0, 0, 0);
    panel = new VerdictPanel(&navigator, &widget);
    layout->addWidget(panel);
    auto* rest = new QWidget(&widget);
    layout->addWidget(rest, 1);
    headline = panel->findChild<QLabel*>("headline");
  }
  void Show(DocumentPtr document) {
    widget.show();
    panel->SetDocument(std::move(document));
    QApplication::processEvents();
  }
  Navigator navigator;
  QWidget widget;
  VerdictPanel* panel = nullptr;
  QLabel* headline = nullptr;
};

TEST(VerdictPanelTest, SaysTheHeadlineOfTheReportAndSelectsItsCells) {
  Window window(1280, 800);
  const DocumentPtr document = testing::Hang();
  window.Show(document);
  EXPECT_EQ(window.panel->findChild<QLabel*>("verdict word")->text(), "HUNG");
  // The headline has "99 s: rank 5 ..", the report "HUNG 99 s  rank 5 ..".
  const auto simple = [](const QString& text) { return text.simplified().replace(' ', ""); };
  const QString report = simple(QString::fromStdString(document->facts().report_text()));
  EXPECT_TRUE(report.contains("HUNG" + simple(window.headline->text()).replace("s:rank", "srank")))
      << window.headline->text().toStdString();
  EXPECT_TRUE(window.headline->text().contains("rank 5 (node100, GPU 5"));
  EXPECT_TRUE(window.panel->findChild<QLabel*>("confidence")->text().startsWith("confidence "));
  window.headline->setFocus();
  QTest::keyClick(window.headline, Qt::Key_Return);
  EXPECT_EQ(window.navigator.selection(), document->AnomalyAt(0));
  window.navigator.Reset();
  QTest::mouseClick(window.headline, Qt::LeftButton);
  EXPECT_EQ(window.navigator.selection(), document->AnomalyAt(0));
  testing::Grab(&window.widget, "verdict_1280");
}

TEST(VerdictPanelTest, IsAsHighAsTheSentenceNeeds) {
  int before = 0;
  for (const QSize& size : {QSize(1920, 1080), QSize(1280, 800), QSize(500, 400)}) {
    Window window(size.width(), size.height());
    window.Show(testing::Hang());
    EXPECT_GE(window.panel->height(), before);
    before = window.panel->height();
    EXPECT_LE(window.panel->height(), window.widget.height() / 3);
    EXPECT_GE(window.headline->height(), window.headline->heightForWidth(window.headline->width()))
        << "the sentence must not be cut";
  }
}

TEST(VerdictPanelTest, CopiesTheWholeReport) {
  Window window(1280, 800);
  const DocumentPtr document = testing::Hang();
  window.Show(document);
  QTest::mouseClick(window.panel->findChild<QToolButton*>("copy report"), Qt::LeftButton);
  EXPECT_EQ(QApplication::clipboard()->text().toStdString(), document->facts().report_text());
  window.panel->SetDocument(nullptr);
  EXPECT_EQ(window.panel->CopyText(), "");
}

TEST(VerdictPanelTest, HostileTextsAreOnlyText) {
  Window window(1280, 800);
  window.Show(testing::Hostile());
  EXPECT_FALSE(window.headline->text().contains(QChar(0x202e)));
  EXPECT_LE(window.panel->height(), window.widget.height() / 3);
  testing::Grab(&window.widget, "verdict_hostile");
}

TEST(VerdictPanelTest, ShowsNoIncidentAHealthyJobAndADarkTheme) {
  Window window(1280, 800);
  window.Show(nullptr);
  EXPECT_EQ(window.panel->findChild<QLabel*>("verdict word")->text(), "NOTHING OPEN");
  window.panel->SetDocument(testing::Healthy());
  EXPECT_EQ(window.panel->findChild<QLabel*>("verdict word")->text(), "HEALTHY");
  EXPECT_TRUE(window.headline->text().contains("nothing is stuck"));
  EXPECT_FALSE(window.panel->findChild<QLabel*>("confidence")->isVisible());
  window.widget.setPalette(testing::DarkPalette());
  window.panel->SetDocument(testing::Mismatch());
  testing::Grab(&window.widget, "verdict_dark");
}

}  // namespace
}  // namespace lockstep::gui
