#include "gui/view/tables/load_log.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QListView>
#include <QTest>

#include "gui/testing/samples.h"

namespace lockstep::gui {
namespace {

DocumentPtr Damaged() {
  Bundle bundle = testing::OnHosts(lockstep::testing::Job(2, 2, 2, 6).Run());
  bundle.problems.push_back(
      {"/incident/rank-3.lsd", 4096, "checksum of a block is wrong: its records are left out", 3});
  bundle.problems.push_back({"/incident/rank-4.lsd", -1, "<b>\x1b[31mbad\u202e", 4});
  return testing::Made(bundle);
}

TEST(LoadLogTest, LinesOfTheLoadAndProblemsOfTheVerdict) {
  Navigator navigator;
  LoadLog log(&navigator);
  auto* list = log.findChild<QListView*>("lines");
  QAbstractItemModelTester tester(list->model(), QAbstractItemModelTester::FailureReportingMode::Fatal);
  QStringList titles;
  QObject::connect(&log, &LoadLog::TitleChanged, [&](const QString& title) { titles.append(title); });
  EXPECT_EQ(log.title(), "Load log");
  log.AddLine("rank-7.lsd: cut short at byte 12", 7);
  log.AddLine("");
  log.AddLine("\x1b[2Jsecond\nline");
  EXPECT_EQ(log.title(), "Load log (2)");
  const DocumentPtr document = Damaged();
  log.SetDocument(document);
  const int problems = document->verdict().problems_size();
  ASSERT_GE(problems, 2);
  EXPECT_EQ(log.line_count(), 2 + problems);
  log.SetDocument(document);
  EXPECT_EQ(log.line_count(), 2 + problems) << "setting the same document again must add nothing";
  EXPECT_TRUE(log.Csv().contains("/incident/rank-3.lsd at byte 4096 (rank 3)"));
  EXPECT_FALSE(log.Csv().contains(QChar(0x1b)));
  EXPECT_FALSE(log.Csv().contains(QChar(0x202e)));

  log.resize(900, 200);
  log.show();
  QTest::mouseClick(list->viewport(), Qt::LeftButton, {}, list->visualRect(list->model()->index(0, 0)).center());
  EXPECT_EQ(navigator.selection().ranks, Ranks::Between(7, 7));
  for (int row = 0; row < log.line_count(); ++row) {
    if (list->model()->index(row, 0).data().toString().contains("rank-3")) {
      QTest::mouseClick(list->viewport(), Qt::LeftButton, {}, list->visualRect(list->model()->index(row, 0)).center());
      EXPECT_EQ(navigator.selection().ranks, Ranks::Between(3, 3));
      EXPECT_TRUE(log.CopyText().contains("checksum"));
    }
  }
  testing::Grab(&log, "load_log");
  log.Clear();
  EXPECT_EQ(log.line_count(), 0);
  EXPECT_EQ(titles.back(), "Load log");
  log.SetDocument(nullptr);
  EXPECT_EQ(log.Csv(), "");
}

TEST(LoadLogTest, TooManyLinesAreCounted) {
  Navigator navigator;
  LoadLog log(&navigator);
  for (int i = 0; i < 10'050; ++i) log.AddLine(QString("rank %1 is damaged").arg(i));
  EXPECT_EQ(log.line_count(), 10'000);
  EXPECT_EQ(log.title(), "Load log (10050)");
  EXPECT_TRUE(log.Csv().endsWith(",and 50 more\n"));
}

}  // namespace
}  // namespace lockstep::gui
