#include <gtest/gtest.h>

#include "analyzer/util/printable.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/time_text.h"

namespace lockstep {
namespace {

TEST(PrintableTest, ReplacesCharactersThatControlATerminal) {
  EXPECT_EQ(Printable("a\tb\nc\rd"), "a b c d");
  EXPECT_EQ(Printable(std::string("\x1b[2J\x00\x7f", 6)), "?[2J??");
  EXPECT_EQ(Printable("\u0085\u009b31m"), "??31m") << "C1";
  EXPECT_EQ(Printable("\u202e\u2066\u061c\u200f"), "????") << "bidirectional";
  EXPECT_EQ(Printable("a\u200bb\u2060c\ufeffd\u00ade"), "a?b?c?d?e") << "zero width";
  EXPECT_EQ(Printable("\u2028\u2029"), "??");
  EXPECT_EQ(Printable("\xff\xc3(\xed\xa0\x80"),
            "?"
            "?("
            "???")
      << "invalid UTF-8, a surrogate";
  EXPECT_EQ(Printable("gr\u00fc\u00df \u4e16 \U0001f600"), "gr\u00fc\u00df \u4e16 \U0001f600");
}

TEST(PrintableTest, TruncatesBetweenCharacters) {
  EXPECT_EQ(Printable("\u00fc\u00fc\u00fc", 2), "\u00fc\u00fc..");
  EXPECT_EQ(Printable("\u00fc\u00fc", 2), "\u00fc\u00fc");
  std::string out = "name ";
  AppendPrintable("abcdef", 3, &out);
  EXPECT_EQ(out, "name abc..");
  EXPECT_EQ(PrintableAscii("gr\u00fc\u00df\n\u4e16"), "gr?? ?");
  EXPECT_EQ(Columns("\u00fc\u4e16a"), 3u);
}

TEST(PrintableTest, WrapsAtSpaces) {
  std::string out;
  AppendWrapped("a: ", "\u00fc\u00fc b  c dddd", 2, 7, LongWords::kCut, &out);
  EXPECT_EQ(out, "a: \u00fc\u00fc b\n  c\n  dddd\n");
  out.clear();
  AppendWrapped("", "abcdefgh", 1, 4, LongWords::kCut, &out);
  EXPECT_EQ(out, "abcd\n efg\n h\n");
  out.clear();
  AppendWrapped("x ", "/a/long/path y", 1, 4, LongWords::kKeep, &out);
  EXPECT_EQ(out, "x /a/long/path\n y\n");
}

TEST(PrintableTest, CleanUtf8KeepsControlsAndCountsBytes) {
  EXPECT_EQ(CleanUtf8(std::string("a\x00\x1b\n\xff", 5)), "a?\x1b\n?");
  EXPECT_EQ(CleanUtf8("\u00fc\u00fc", 3), "\u00fc");
}

TEST(CountTextTest, SeparatesThousands) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1'000), "1,000");
  EXPECT_EQ(CountText(12'345'678), "12,345,678");
  EXPECT_EQ(CountText(-999), "-999");
  EXPECT_EQ(CountText(-123'456), "-123,456");
}

TEST(TimeTextTest, DurationsAreReadable) {
  EXPECT_EQ(DurationText(0), "0 s");
  EXPECT_EQ(DurationText(999), "999 ns");
  EXPECT_EQ(DurationText(3'400), "3.4 us");
  EXPECT_EQ(DurationText(12'000'000), "12 ms");
  EXPECT_EQ(DurationText(800'000'000), "0.8 s");
  EXPECT_EQ(DurationText(31'400'000'000), "31 s");
  EXPECT_EQ(DurationText(int64_t{250} * 1'000'000'000), "4 min 10 s");
  EXPECT_EQ(DurationText(int64_t{7500} * 1'000'000'000), "2 h 5 min");
  EXPECT_EQ(DurationText(-5'000'000'000), "-5.0 s");
  EXPECT_EQ(DurationText(INT64_MIN).substr(0, 10), "-2562047 h");
}

TEST(TimeTextTest, DurationsMayHaveMoreDigitsOrMilliseconds) {
  EXPECT_EQ(DurationText(31'400'000'000, DurationDigits::kMore), "31.4 s");
  EXPECT_EQ(DurationText(4'000'000'000, DurationDigits::kMore), "4 s");
  EXPECT_EQ(DurationText(820'400'000, DurationDigits::kMore), "820 ms");
  EXPECT_EQ(DurationText(12'340, DurationDigits::kMore), "12.3 us");
  EXPECT_EQ(DurationText(-4'210'000'000, DurationDigits::kMore), "-4.21 s");
  EXPECT_EQ(DurationText(2'500'000, DurationDigits::kMilliseconds), "2.5 ms");
  EXPECT_EQ(DurationText(130'400'000'000, DurationDigits::kMilliseconds), "130.4 s");
}

TEST(TimeTextTest, TimesAreInUtc) {
  EXPECT_EQ(UtcText(int64_t{1'700'000'000} * 1'000'000'000, "%Y-%m-%dT%H:%M:%S"), "2023-11-14T22:13:20");
  EXPECT_EQ(IsoTimeText(int64_t{1'700'000'000'000'000'000} + 7'000'000), "2023-11-14T22:13:20.007Z");
}

}  // namespace
}  // namespace lockstep
