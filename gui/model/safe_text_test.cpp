#include "gui/model/safe_text.h"

#include <gtest/gtest.h>

namespace lockstep::gui {
namespace {

TEST(SafeTextTest, TextFromFilesIsNeitherMarkupNorControl) {
  EXPECT_EQ(Html(std::string_view("<b>\x1b[31m&\"")), "&lt;b&gt;?[31m&amp;&quot;");
  EXPECT_EQ(Plain(QString("a\u202eb\nc")), "a?b c");
  EXPECT_EQ(Plain(std::string_view("\xff\xfe")), "??");
  EXPECT_EQ(Plain(QString(500, 'x'), 10), "xxxxxxxxxx..");
  EXPECT_EQ(PlainLines("one\ntwo\u2028\n\nfour", 3), "one\ntwo?\n\n");
}

TEST(SafeTextTest, TsvAndCsvCellsAreEscaped) {
  EXPECT_EQ(TsvCell("a\tb\nc"), "a b c");
  EXPECT_EQ(CsvCell("a, \"b\""), "\"a, \"\"b\"\"\"");
  EXPECT_EQ(CsvCell("=1+2"), "'=1+2");
  EXPECT_EQ(CsvCell("-1"), "-1");
  EXPECT_EQ(CsvCell("-x"), "'-x");
}

TEST(SafeTextTest, LongListsOfRanksAreCut) {
  EXPECT_EQ(RanksText(Ranks::Between(5, 5)), "rank 5");
  EXPECT_EQ(RanksText({0, 1, 2, 6}), "ranks 0-2, 6");
  Ranks even;
  for (int32_t r = 0; r < 1000; r += 2) even.Add(r);
  const QString text = RankList(even, 20);
  EXPECT_TRUE(text.endsWith(", .. (500 ranks)")) << text.toStdString();
  EXPECT_LT(text.size(), 50);
}

}  // namespace
}  // namespace lockstep::gui
