#include "gui/view/answer/view.h"

#include <gtest/gtest.h>

#include <QImage>
#include <QScrollArea>
#include <QTest>

#include "gui/testing/samples.h"
#include "gui/view/answer/pane.h"
#include "gui/view/answer/verdict_page.h"
#include "gui/view/link_pane.h"

namespace lockstep::gui {
namespace {

using Cell = AnswerPane::Cell;

struct Opened {
  explicit Opened(DocumentPtr given, int width = 1280, int height = 620) : document(std::move(given)) {
    view.resize(width, height);
    view.show();
    view.SetDocument(document);
    QApplication::processEvents();
    page = view.page();
    pane = view.pane();
  }
  QString Text() const { return page->toPlainText(); }
  Navigator navigator;
  AnswerView view{&navigator};
  DocumentPtr document;
  LinkPane* page = nullptr;
  AnswerPane* pane = nullptr;
};

QString Simple(const QString& text) { return text.simplified().replace(' ', ""); }

int PixelsOf(const QImage& image, const QColor& red) {
  int count = 0;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) count += image.pixel(x, y) == red.rgb();
  }
  return count;
}

TEST(AnswerViewTest, TheCulpritAndItsMissingCallAreMarked) {
  Opened shown(testing::Hang());
  const Focus* focus = shown.pane->focus();
  ASSERT_NE(focus, nullptr);
  EXPECT_EQ(focus->finding(), 0);
  const Cell at = shown.pane->cursor();
  EXPECT_TRUE(focus->rows(at.row).culprit());
  EXPECT_EQ(at.column, focus->fault_column());
  const QString spoken = shown.pane->CellText(at);
  EXPECT_TRUE(spoken.startsWith("rank 5 (node100, GPU 5), named by the verdict: ")) << spoken.toStdString();
  EXPECT_TRUE(spoken.contains("never enqueued")) << spoken.toStdString();
  EXPECT_EQ(shown.pane->accessibleDescription(), spoken);
  for (const QPalette& palette : {QPalette(), testing::DarkPalette()}) {
    shown.view.setPalette(palette);
    const QImage image = shown.pane->grab().toImage();
    const QColor alarm = ThemeFor(palette).alarm;
    EXPECT_GT(PixelsOf(image.copy(shown.pane->RectOf(at).toRect()), alarm), 100) << "the frame must be thick";
    EXPECT_EQ(PixelsOf(image.copy(shown.pane->RectOf({at.row == 0 ? 1 : 0, at.column}).toRect()), alarm), 0);
    EXPECT_TRUE(shown.page->toHtml().contains(ThemeFor(palette).link.name()));
  }
  testing::Grab(&shown.view, "answer_dark");
}

TEST(AnswerViewTest, TheStackAndWhatToDoAreSeenWithoutScrolling) {
  for (const QSize& size : {QSize(1280, 600), QSize(900, 560)}) {
    Opened shown(testing::Hang(), size.width(), size.height());
    testing::Grab(&shown.view, "answer_" + std::to_string(size.width()));
    const QString text = shown.Text();
    EXPECT_TRUE(text.contains(QString::fromUtf8("◀ _load (loader.py:88)"))) << text.toStdString();
    EXPECT_TRUE(text.contains("rank 5: at _load() at loader.py:88")) << text.toStdString();
    for (const char* words : {"main (train.py:310)", "what to do"}) {
      QTextCursor cursor = shown.page->document()->find(words);
      ASSERT_FALSE(cursor.isNull()) << words;
      if (size.width() < 1000 && std::string_view(words) == "what to do") continue;  // one column
      cursor.setPosition(cursor.selectionStart());
      shown.page->setTextCursor(QTextCursor(shown.page->document()));
      EXPECT_LE(shown.page->cursorRect(cursor).bottom(), shown.page->viewport()->height()) << words;
    }
    EXPECT_GE(shown.pane->height(), shown.pane->HeightFor(0));
    EXPECT_LE(shown.view.findChild<QScrollArea*>()->height(), size.height() * 3 / 5);
  }
}

TEST(AnswerViewTest, ShowsEverythingThatTheReportShows) {
  Opened shown(testing::Hang());
  const QString page = Simple(shown.Text());
  int lines = 0;
  for (const ReportSection& section : shown.document->facts().report()) {
    for (const ReportSection::Row& row : section.rows()) {
      if (row.label() == "python" || row.label() == "stack" || row.label() == "calls") continue;  // frame by frame
      for (const std::string& line : row.lines()) {
        EXPECT_TRUE(section.finding() > 0 || page.contains(Simple(QString::fromStdString(line)))) << line;
        ++lines;
      }
    }
  }
  EXPECT_GT(lines, 8);
}

TEST(AnswerViewTest, CellsAndRowsSelectByMouseAndKeys) {
  Opened shown(testing::Hang());
  const Focus* focus = shown.pane->focus();
  const Cell at = shown.pane->cursor();
  shown.pane->setFocus();
  QTest::keyClick(shown.pane, Qt::Key_Return);
  EXPECT_EQ(shown.navigator.selection().ranks, Ranks::Between(5, 5));
  EXPECT_EQ(shown.navigator.selection().comm, focus->comm());
  EXPECT_EQ(shown.navigator.selection().seq_first, shown.document->verdict().findings(0).sequence());
  QTest::keyClick(shown.pane, Qt::Key_Left);
  QTest::keyClick(shown.pane, Qt::Key_Return);
  EXPECT_EQ(shown.navigator.selection().seq_first, shown.document->verdict().findings(0).sequence() - 1);
  QTest::keyClick(shown.pane, Qt::Key_Home);
  EXPECT_EQ(shown.pane->cursor().column, 0);
  QTest::keyClick(shown.pane, Qt::Key_PageUp);
  EXPECT_EQ(shown.pane->cursor().row, 0);
  // The last row is a group, and selects all its ranks.
  QTest::keyClick(shown.pane, Qt::Key_PageDown);
  EXPECT_EQ(shown.pane->cursor(), (Cell{focus->rows_size() - 1, -1}));
  for (int i = 0; i < 99; ++i) QTest::keyClick(shown.pane, i % 2 == 0 ? Qt::Key_Down : Qt::Key_Right);
  QTest::keyClick(shown.pane, Qt::Key_Return);
  EXPECT_GT(shown.navigator.selection().ranks.size(), 1);
  QTest::mouseClick(shown.pane, Qt::LeftButton, {}, shown.pane->RectOf(at).center().toPoint());
  EXPECT_EQ(shown.pane->cursor(), at);
  EXPECT_EQ(shown.navigator.selection().ranks, Ranks::Between(5, 5));
  EXPECT_EQ(shown.pane->At({-5, -5}), Cell());
}

TEST(AnswerViewTest, SendsHaveNoSequenceNumber) {
  Opened shown(testing::HungPipeline());
  const Focus* focus = shown.pane->focus();
  ASSERT_NE(focus, nullptr);
  ASSERT_EQ(focus->first_sequence(), -1);
  shown.pane->setFocus();
  QTest::keyClick(shown.pane, Qt::Key_Return);
  EXPECT_EQ(shown.navigator.selection().ranks, Ranks::Between(21, 21));
  EXPECT_EQ(shown.navigator.selection().comm, focus->comm());
  EXPECT_EQ(shown.navigator.selection().seq_first, -1);
  testing::Grab(&shown.view, "answer_sends");
}

TEST(AnswerViewTest, EvidenceSelectsItsCellsByMouseAndKeys) {
  Opened shown(testing::Hang());
  QString link;
  for (const QString& there : shown.page->Links()) {
    if (link.isEmpty() && there.startsWith("evidence:0:")) link = there;
  }
  ASSERT_FALSE(link.isEmpty());
  const Selection expected = shown.document->EvidenceLink(0, link.section(':', 2).toInt());
  ASSERT_FALSE(expected.empty());
  shown.page->setFocus();
  int tabs = 0;
  while (shown.page->FocusedLink() != link && tabs++ < 50) QTest::keyClick(shown.page, Qt::Key_Tab);
  EXPECT_EQ(shown.page->FocusedLink(), link);
  QTest::keyClick(shown.page, Qt::Key_Return);
  EXPECT_EQ(shown.navigator.selection(), expected);
  shown.navigator.Reset();
  ASSERT_TRUE(shown.page->FocusLink(link));
  const QRect at = shown.page->cursorRect();
  QTest::mouseClick(shown.page->viewport(), Qt::LeftButton, {}, QPoint(at.left() - 3, at.center().y()));
  EXPECT_EQ(shown.navigator.selection(), expected);
}

TEST(AnswerViewTest, EveryLinkHasATarget) {
  for (const DocumentPtr& document : {testing::Hang(4, 2, 2), testing::Mismatch(), testing::Healthy(),
                                      testing::TwoFindings(), testing::HungPipeline()}) {
    for (int finding = 0; finding < std::max(1, document->verdict().findings_size()); ++finding) {
      LinkPane page("page", "page", nullptr);
      page.Show(VerdictPage(*document, finding, true), false);
      EXPECT_EQ(page.Links().isEmpty(), document->verdict().verdict() == VERDICT_HEALTHY);
      for (const QString& link : page.Links()) EXPECT_FALSE(VerdictLink(*document, link).empty()) << link.toStdString();
    }
    for (const char* wrong :
         {"", "evidence", "evidence:0:99", "evidence:-1:0", "finding:77", "chain:0:99", "chain::", "what:1:2"})
      EXPECT_TRUE(VerdictLink(*document, wrong).empty()) << wrong;
  }
}

// A chain link about sends selects no column, because a communicator's matrix has no column for sends.
TEST(AnswerViewTest, ALinkOfSendsSelectsRanksOnly) {
  const DocumentPtr document = testing::HungPipeline();
  const Finding& finding = document->verdict().findings(0);
  int sends = 0;
  for (int i = 0; i < finding.chain_size(); ++i) {
    const Selection selection = VerdictLink(*document, QString("chain:0:%1").arg(i));
    EXPECT_FALSE(selection.ranks.empty());
    const int row = document->RowOf(selection.ranks.front());
    if (!document->facts().classes(document->FactsAt(row).wait_class()).point_to_point()) continue;
    ++sends;
    EXPECT_EQ(selection.seq_first, -1) << i;
  }
  EXPECT_GT(sends, 0);
}

TEST(AnswerViewTest, EachFindingHasItsOwnPictureAndText) {
  const DocumentPtr document = testing::TwoFindings();
  ASSERT_GE(document->verdict().findings_size(), 2);
  Opened shown(document);
  const QString first = shown.Text();
  EXPECT_FALSE(first.contains("Finding 1 of"));
  ASSERT_TRUE(shown.page->FocusLink("finding:1"));
  QTest::keyClick(shown.page, Qt::Key_Return);
  EXPECT_EQ(shown.navigator.place().finding, 1);
  ASSERT_NE(shown.pane->focus(), nullptr);
  EXPECT_EQ(shown.pane->focus()->finding(), 1);
  EXPECT_TRUE(shown.Text().contains("Finding 2 of ")) << shown.Text().toStdString();
  EXPECT_EQ(shown.navigator.selection(), document->EvidenceLink(1, -1));
  testing::Grab(&shown.view, "answer_two");
  ASSERT_TRUE(shown.page->FocusLink("finding:0")) << "there must be a link back";
  shown.navigator.Back();
  EXPECT_EQ(shown.Text(), first);
}

TEST(AnswerViewTest, AMismatchShowsBothCallSitesAndTheOddCall) {
  Opened shown(testing::Mismatch());
  const Focus* focus = shown.pane->focus();
  ASSERT_NE(focus, nullptr);
  const Cell at = shown.pane->cursor();
  EXPECT_EQ(focus->rows(at.row).cells(at.column).state(), static_cast<uint32_t>(ViewState::kMismatch));
  testing::Grab(&shown.view, "answer_mismatch");
}

TEST(AnswerViewTest, ShowsTextWithoutAnIncidentAndForAHealthyJob) {
  Opened shown(nullptr);
  EXPECT_EQ(shown.pane->focus(), nullptr);
  EXPECT_EQ(shown.view.Csv(), "");
  EXPECT_EQ(shown.view.CopyText(), "");
  QImage image(300, 200, QImage::Format_RGB32);
  QPainter painter(&image);
  EXPECT_FALSE(shown.view.Paint(&painter, image.size()));
  for (const int key : {Qt::Key_Up, Qt::Key_Right, Qt::Key_End, Qt::Key_PageDown, Qt::Key_Return})
    QTest::keyClick(shown.pane, static_cast<Qt::Key>(key));
  shown.view.SetDocument(testing::Healthy());
  ASSERT_NE(shown.pane->focus(), nullptr) << "must show the newest calls";
  EXPECT_TRUE(shown.pane->focus()->fault().empty());
  testing::Grab(&shown.view, "answer_healthy");
  QTest::keyClick(shown.pane, Qt::Key_Down);
  QTest::keyClick(shown.pane, Qt::Key_Return);
  EXPECT_FALSE(shown.navigator.selection().empty());
}

TEST(AnswerViewTest, CopiesAndWritesItsRows) {
  Opened shown(testing::Hang());
  EXPECT_TRUE(shown.view.CopyText().contains("rank 5\tnode100, GPU 5\t")) << shown.view.CopyText().toStdString();
  const QString csv = shown.view.Csv();
  EXPECT_TRUE(csv.startsWith("row,place,named,state,site,calls_after_fault,call\n"));
  EXPECT_TRUE(csv.contains("never enqueued")) << csv.toStdString();
}

TEST(AnswerViewTest, HostileTextsAreOnlyText) {
  Opened shown(testing::Hostile());
  const QString text = shown.Text();
  EXPECT_TRUE(text.contains("<img src="));
  EXPECT_FALSE(text.contains(QChar(0x202e)));
  EXPECT_FALSE(text.contains(QChar(0x1b)));
  for (const QString& link : shown.page->Links()) EXPECT_FALSE(link.contains("file:")) << link.toStdString();
  for (int row = 0; row < shown.pane->focus()->rows_size(); ++row)
    EXPECT_FALSE(shown.pane->CellText({row, -1}).contains(QChar(0x202e)));
  testing::Grab(&shown.view, "answer_hostile");
}

}  // namespace
}  // namespace lockstep::gui
