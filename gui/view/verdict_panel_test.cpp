#include "gui/view/verdict_panel.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QClipboard>
#include <QLabel>
#include <QTest>
#include <QToolButton>
#include <QVBoxLayout>

#include "analyzer/viewdata/report.h"
#include "gui/testing/samples.h"
#include "gui/view/link_pane.h"
#include "gui/view/verdict_page.h"

namespace lockstep::gui {
namespace {

// The panel as the window has it: on top, the rest of the window below.
struct Window {
  Window(int width, int height) {
    widget.resize(width, height);
    auto* layout = new QVBoxLayout(&widget);
    layout->setContentsMargins(0, 0, 0, 0);
    panel = new VerdictPanel(&navigator, &widget);
    layout->addWidget(panel);
    auto* rest = new QWidget(&widget);
    layout->addWidget(rest, 1);
    page = panel->findChild<LinkPane*>();
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
  LinkPane* page = nullptr;
  QLabel* headline = nullptr;
};

// Words without the report's wrapping.
QString Simple(const QString& text) {
  return text.simplified().replace(' ', "");
}

TEST(VerdictPanelTest, SaysWhatTheReportSays) {
  Window window(1280, 800);
  const DocumentPtr document = testing::Hang();
  window.Show(document);
  EXPECT_EQ(window.panel->findChild<QLabel*>("verdict word")->text(), "HUNG");
  const QString report = Simple(QString::fromStdString(document->facts().report_text()));
  // "99 s: rank 5 ..." beside the badge, "HUNG 99 s  rank 5 ..." in text.
  const QString headline = Simple(window.headline->text()).replace("s:rank", "srank");
  EXPECT_TRUE(report.contains("HUNG" + headline)) << window.headline->text().toStdString();
  EXPECT_TRUE(window.headline->text().contains("rank 5 (node100, GPU 5"));
  const QString page = Simple(window.page->toPlainText());
  int lines = 0;
  for (const ReportSection& section : document->facts().report()) {
    for (const ReportSection::Row& row : section.rows()) {
      for (const std::string& line : row.lines()) {
        EXPECT_TRUE(report.contains(Simple(QString::fromStdString(line)))) << line;
        EXPECT_TRUE(section.finding() > 0 || page.contains(Simple(QString::fromStdString(line)))) << line;
        ++lines;
      }
    }
  }
  EXPECT_GT(lines, 8);
  EXPECT_TRUE(window.panel->findChild<QLabel*>("confidence")->text().startsWith("confidence "));
  testing::Grab(&window.widget, "verdict_1280");
}

TEST(VerdictPanelTest, EvidenceSelectsItsCellsByMouseAndKeys) {
  Window window(1280, 800);
  const DocumentPtr document = testing::Hang();
  window.Show(document);
  ASSERT_GT(document->verdict().findings(0).evidence_size(), 0);
  QString link;
  for (const QString& there : window.page->Links()) {
    if (there.startsWith("evidence:0:")) {
      link = there;
      break;
    }
  }
  ASSERT_FALSE(link.isEmpty());
  const Selection expected = document->EvidenceLink(0, link.section(':', 2).toInt());
  ASSERT_FALSE(expected.empty());

  window.page->setFocus();
  int tabs = 0;
  while (window.page->FocusedLink() != link && tabs++ < 50) QTest::keyClick(window.page, Qt::Key_Tab);
  EXPECT_EQ(window.page->FocusedLink(), link);
  QTest::keyClick(window.page, Qt::Key_Return);
  EXPECT_EQ(window.navigator.selection(), expected);

  window.navigator.Reset();
  ASSERT_TRUE(window.page->FocusLink(link));
  const QRect at = window.page->cursorRect();
  QTest::mouseClick(window.page->viewport(), Qt::LeftButton, {}, QPoint(at.left() - 3, at.center().y()));
  EXPECT_EQ(window.navigator.selection(), expected);

  window.navigator.Reset();
  window.headline->setFocus();
  QTest::keyClick(window.headline, Qt::Key_Return);
  EXPECT_EQ(window.navigator.selection(), document->AnomalyAt(0));
  window.navigator.Reset();
  QTest::mouseClick(window.headline, Qt::LeftButton);
  EXPECT_EQ(window.navigator.selection(), document->AnomalyAt(0));
}

TEST(VerdictPanelTest, EveryLinkLeadsSomewhere) {
  for (const DocumentPtr& document : {testing::Hang(4, 2, 2), testing::Mismatch(), testing::Healthy()}) {
    std::set<int> all;
    for (int s = 1; s < document->facts().report_size(); ++s) all.insert(s);
    LinkPane page("page", "page", nullptr);
    page.Show(VerdictPage(*document, all, true), false);
    EXPECT_EQ(page.Links().isEmpty(), document->verdict().verdict() == VERDICT_HEALTHY);
    for (const QString& link : page.Links()) {
      EXPECT_TRUE(link.startsWith("fold:") || !VerdictLink(*document, link).empty()) << link.toStdString();
    }
    for (const char* wrong :
         {"", "evidence", "evidence:0:99", "evidence:-1:0", "finding:77", "chain:0:99", "chain::", "what:1:2"})
      EXPECT_TRUE(VerdictLink(*document, wrong).empty()) << wrong;
  }
}

TEST(VerdictPanelTest, AThirdOfTheWindowAndFolded) {
  for (const QSize& size : {QSize(1280, 800), QSize(1920, 1080), QSize(700, 500)}) {
    Window window(size.width(), size.height());
    window.Show(testing::Hang());
    EXPECT_LE(window.panel->height(), window.widget.height() / 3);
    EXPECT_GT(window.panel->height(), 60);
    int told = 0;
    QObject::connect(window.panel, &VerdictPanel::CollapsedChanged, [&](bool) { ++told; });
    const int open = window.panel->height();
    QTest::mouseClick(window.panel->findChild<QToolButton*>("fold"), Qt::LeftButton);
    QApplication::processEvents();
    EXPECT_TRUE(window.panel->collapsed());
    EXPECT_LT(window.panel->height(), open);
    EXPECT_TRUE(window.headline->isVisible());
    EXPECT_FALSE(window.page->isVisible());
    window.panel->SetCollapsed(false);
    QApplication::processEvents();
    EXPECT_EQ(window.panel->height(), open);
    EXPECT_EQ(told, 2);
  }
}

TEST(VerdictPanelTest, OtherFindingsAreFolded) {
  lockstep::testing::Job job(2, 2, 2, 6);
  job.ranks[3].program[job.Find(3, "tp", 3)].count *= 2;
  job.mismatch_hangs = false;
  job.ranks[4].host_fault_at = job.Find(4, "dp", 5);
  job.ranks[4].host_fault = lockstep::testing::HostFault::kStall;
  const DocumentPtr document = testing::Made(testing::OnHosts(job.Run()));
  ASSERT_GE(document->verdict().findings_size(), 2);
  Window window(1280, 800);
  window.Show(document);
  ASSERT_TRUE(window.page->Links().contains("fold:1"));
  const qsizetype before = window.page->toPlainText().size();
  ASSERT_TRUE(window.page->FocusLink("fold:1"));
  QTest::keyClick(window.page, Qt::Key_Return);
  EXPECT_GT(window.page->toPlainText().size(), before + 20);
  EXPECT_EQ(window.page->FocusedLink(), "fold:1") << "the focus stays on what was pressed";
  QTest::keyClick(window.page, Qt::Key_Return);
  EXPECT_EQ(window.page->toPlainText().size(), before);
  testing::Grab(&window.widget, "verdict_two");
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
  lockstep::testing::Job job(2, 2, 2, 6);
  job.ranks[5].host_fault_at = job.Find(5, "dp", 4);
  job.ranks[5].host_fault = lockstep::testing::HostFault::kStall;
  Bundle bundle = testing::OnHosts(job.Run());
  const std::string nasty =
      "<a href=\"file:///etc/passwd\">x</a><img src=\"/etc/hostname\">\u202e\x1b[2J" + std::string(3000, 'W');
  for (Communicator& comm : bundle.comms) comm.name = nasty;
  for (Rank& rank : bundle.ranks) rank.host = nasty;
  bundle.job = nasty;
  bundle.problems.push_back({nasty, -1, nasty, 1});
  Window window(1280, 800);
  window.Show(testing::Made(bundle));
  EXPECT_TRUE(window.page->toPlainText().contains("<img src="));
  EXPECT_FALSE(window.page->toPlainText().contains(QChar(0x202e)));
  EXPECT_FALSE(window.page->toPlainText().contains(QChar(0x1b)));
  EXPECT_FALSE(window.headline->text().contains(QChar(0x202e)));
  for (const QString& link : window.page->Links()) EXPECT_FALSE(link.contains("file:")) << link.toStdString();
  EXPECT_LE(window.panel->height(), window.widget.height() / 3);
  testing::Grab(&window.widget, "verdict_hostile");
}

TEST(VerdictPanelTest, NothingOpenHealthyAndDark) {
  Window window(1280, 800);
  window.Show(nullptr);
  EXPECT_EQ(window.page->isVisible(), false);
  testing::Grab(&window.widget, "verdict_none");
  window.panel->SetDocument(testing::Healthy());
  EXPECT_EQ(window.panel->findChild<QLabel*>("verdict word")->text(), "HEALTHY");
  EXPECT_TRUE(window.headline->text().contains("nothing is stuck"));
  EXPECT_FALSE(window.panel->findChild<QLabel*>("confidence")->isVisible());
  testing::Grab(&window.widget, "verdict_healthy");
  window.widget.setPalette(testing::DarkPalette());
  window.panel->SetDocument(testing::Mismatch());
  EXPECT_TRUE(window.page->toHtml().contains(DarkTheme().link.name()));
  testing::Grab(&window.widget, "verdict_dark");
  window.widget.resize(1920, 1080);
  testing::Grab(&window.widget, "verdict_dark_1920");
}

}  // namespace
}  // namespace lockstep::gui
