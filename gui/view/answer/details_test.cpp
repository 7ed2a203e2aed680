#include "gui/view/answer/details.h"

#include <gtest/gtest.h>

#include <QTest>

#include "gui/model/answer/details.h"
#include "gui/model/answer/records.h"
#include "gui/testing/samples.h"
#include "gui/view/link_pane.h"

namespace lockstep::gui {
namespace {

struct Shown {
  explicit Shown(DocumentPtr d) : document(d), view(&navigator, nullptr) {
    page = view.findChild<LinkPane*>();
    view.resize(420, 760);
    view.show();
    view.SetDocument(document);
    EXPECT_TRUE(testing::Settles(view));
  }
  QString After(Selection selection) {
    navigator.Select(std::move(selection));
    EXPECT_TRUE(testing::Settles(view));
    return page->toPlainText();
  }
  Navigator navigator;
  DocumentPtr document;
  DetailsView view;
  LinkPane* page = nullptr;
};

Selection OfRanks(int32_t first, int32_t last) {
  Selection selection;
  selection.ranks = Ranks::Between(first, last);
  return selection;
}

TEST(DetailsViewTest, ShowsAnOperationItsPeersAndItsRank) {
  Shown shown(testing::Hang());
  const DocumentPtr document = shown.document;
  // Rank 7 waits in the collective that rank 5 has not called.
  Selection selection = document->AnomalyAt(0);
  selection.ranks = Ranks::Between(7, 7);
  const QString text = shown.After(selection);
  EXPECT_TRUE(text.startsWith(QString("ReduceScatter #%1 on dp_3, rank 7").arg(selection.seq_first)))
      << text.toStdString();
  EXPECT_TRUE(text.contains("never enqueued"));
  EXPECT_TRUE(text.contains("waits for"));
  EXPECT_TRUE(text.contains("node100"));
  EXPECT_TRUE(text.contains("Its communicators"));
  testing::Grab(&shown.view, "details_op");

  // The culprit comes first, and the keyboard can follow its link.
  shown.page->setFocus();
  const QString odd = [&] {
    const Details details = DetailsOf(document, selection);
    for (const DetailLine& line : details.sections[1].lines) {
      if (line.mark == ViewState::kMissing) return QString("go:%1").arg(line.link);
    }
    return QString();
  }();
  ASSERT_FALSE(odd.isEmpty());
  int tabs = 0;
  while (shown.page->FocusedLink() != odd && tabs++ < 60) QTest::keyClick(shown.page, Qt::Key_Tab);
  QTest::keyClick(shown.page, Qt::Key_Return);
  EXPECT_EQ(shown.navigator.selection().ranks, Ranks::Between(5, 5));
  EXPECT_EQ(shown.navigator.selection().seq_first, selection.seq_first);
}

TEST(DetailsViewTest, ShowsARankWithItsStacks) {
  Shown shown(testing::Hang());
  const QString text = shown.After(OfRanks(5, 5));
  EXPECT_TRUE(text.startsWith("rank 5 on node100, GPU 5")) << text.toStdString();
  EXPECT_TRUE(text.contains("0000:15:00.0"));
  EXPECT_TRUE(text.contains("40005"));
  EXPECT_TRUE(text.contains("_load (loader.py:88)")) << text.toStdString();
  EXPECT_TRUE(text.contains("read (libc.so.6)"));
  EXPECT_TRUE(shown.view.CopyText().contains("process\t40005\n")) << shown.view.CopyText().toStdString();
  testing::Grab(&shown.view, "details_rank");
  shown.view.setPalette(testing::DarkPalette());
  testing::Grab(&shown.view, "details_rank_dark");
  EXPECT_TRUE(shown.After(OfRanks(9999, 9999)).contains("no data"));
}

TEST(DetailsViewTest, SeveralRanksShareAndDiffer) {
  Shown shown(testing::Hang(4, 2, 2));
  const QString text = shown.After(OfRanks(4, 9));
  EXPECT_TRUE(text.startsWith("6 ranks"));
  EXPECT_TRUE(text.contains("Same for all"));
  EXPECT_TRUE(text.contains("Different"));
  EXPECT_TRUE(text.contains("node101: ranks 8-9")) << text.toStdString();
  EXPECT_TRUE(text.contains("world"));
  testing::Grab(&shown.view, "details_several");
  Selection wide = OfRanks(0, 40);
  EXPECT_TRUE(shown.After(wide).contains("without data"));
}

TEST(DetailsViewTest, ACommunicatorShowsTheMissingRanks) {
  Shown shown(testing::Hang());
  Selection selection;
  selection.comm = shown.document->AnomalyAt(0).comm;
  const QString text = shown.After(selection);
  EXPECT_TRUE(text.startsWith("Communicator dp_3")) << text.toStdString();
  EXPECT_TRUE(text.contains("missing"));
  EXPECT_TRUE(text.contains("rank 5"));
  testing::Grab(&shown.view, "details_comm");
  EXPECT_TRUE(shown.After({}).contains("Nothing is selected"));
  shown.view.SetDocument(nullptr);
  EXPECT_EQ(shown.page->toPlainText(), "");
}

// The document has no files: the index's fields stay, followed by why the file's fields are missing.
TEST(DetailsViewTest, DetailsFromTheFileArriveLater) {
  Navigator navigator;
  Records records;
  const DocumentPtr document = testing::Hang();
  records.SetDocument(document);
  DetailsView view(&navigator, &records);
  auto* page = view.findChild<LinkPane*>();
  view.SetDocument(document);
  Selection selection = OfRanks(7, 7);
  selection.record_rank = 7;
  selection.record = document->OpCount(7) - 1;
  navigator.Select(selection);
  ASSERT_TRUE(testing::Until([&] { return view.Idle(); }));
  EXPECT_TRUE(page->toPlainText().contains(", rank 7"));
  ASSERT_TRUE(testing::Until([&] {
    return page->toPlainText().contains("As recorded") && !page->toPlainText().contains("reading the rank's file");
  })) << page->toPlainText().toStdString();
  view.setPalette(testing::DarkPalette());
  EXPECT_TRUE(page->toHtml().contains(DarkTheme().link.name()));
}

TEST(DetailsViewTest, AnySelectionHasDetails) {
  for (const DocumentPtr& document :
       {testing::Hang(), testing::Mismatch(), testing::Healthy(), testing::Made(Bundle())}) {
    for (int32_t rank : {-5, -1, 0, 3, 77}) {
      for (int32_t comm : {-7, -1, 0, 2, 999}) {
        for (int64_t seq : {int64_t{-1}, int64_t{0}, int64_t{5}, int64_t{1} << 60}) {
          for (int64_t record : {int64_t{-1}, int64_t{0}, int64_t{1} << 40}) {
            Selection selection;
            if (rank >= 0) selection.ranks = Ranks::Between(rank, rank + (record < 0 ? 0 : 2));
            selection.comm = comm;
            selection.seq_first = selection.seq_last = seq;
            selection.record_rank = rank;
            selection.record = record;
            const Details details = DetailsOf(document, selection);
            for (const Selection& link : details.links) EXPECT_FALSE(link.empty());
            EXPECT_EQ(DetailsText(details).count('\x1b'), 0);
          }
        }
      }
    }
  }
}

TEST(DetailsViewTest, HostileTextsAreOnlyText) {
  Bundle bundle = testing::OnHosts(lockstep::testing::Job(2, 2, 2, 4).Run());
  for (Rank& rank : bundle.ranks) {
    rank.host = "<a href=\"go:0\">h</a>\x1b[1m\u202e";
    rank.path = "<img src=x>";
    rank.process.python_stack = {"<b>f</b>\t(x.py:1)"};
  }
  Shown shown(testing::Made(bundle));
  const QString text = shown.After(OfRanks(1, 1));
  EXPECT_TRUE(text.contains("<a href=\"go:0\">h</a>?[1m?")) << text.toStdString();
  EXPECT_FALSE(text.contains(QChar(0x202e)));
  for (const QString& line : shown.view.CopyText().split('\n')) EXPECT_LE(line.count('\t'), 1);
}

}  // namespace
}  // namespace lockstep::gui
