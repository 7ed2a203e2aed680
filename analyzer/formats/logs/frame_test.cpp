#include "analyzer/formats/logs/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace lockstep::logs {
namespace {

// Returns the text without its frame. Blanks at the ends of lines are removed.
std::string Unframed(const std::string& text) {
  std::string out;
  Unframer unframer(FrameOf(text), [&out](std::string_view line, int64_t) {
    out += std::string(line.substr(0, line.find_last_not_of(' ') + 1)) + "\n";
  });
  std::istringstream lines(text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) unframer.Add(line, ++number);
  unframer.Finish();
  return out;
}

// Returns the text as a terminal with that many columns shows it.
std::string Cut(const std::string& text, size_t columns, bool filled = false) {
  std::string out;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    for (size_t at = begin; at < end; at += columns) {
      std::string part = text.substr(at, std::min(columns, end - at));
      if (filled) part.resize(columns, ' ');
      out += part + "\n";
    }
  }
  return out;
}

TEST(TextFrame, LinesThatATerminalCutAreJoined) {
  std::string text;
  for (int rank = 0; rank < 12; ++rank)
    absl::StrAppend(&text, "[rank", rank, "]:[E1120 10:00:01.5 ProcessGroupNCCL.cpp:632] [Rank ", rank,
                    "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=196, OpType=ALLREDUCE)\n[rank",
                    rank, "]:[E1120 10:00:01.5 ProcessGroupNCCL.cpp:681] [Rank ", rank,
                    "] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, "
                    "subsequent GPU operations might run on corrupted/incomplete data.\nstep ",
                    rank, "\n");
  for (const size_t columns : {60, 80, 97, 116}) {
    for (const bool filled : {false, true}) {
      const std::string cut = Cut(text, columns, filled);
      ASSERT_EQ(FrameOf(cut).columns, columns);
      const std::string joined = Unframed(cut);
      for (int rank = 0; rank < 12; ++rank) {
        EXPECT_THAT(joined, ::testing::HasSubstr(absl::StrCat("[Rank ", rank, "] Watchdog caught"))) << columns;
        EXPECT_THAT(joined, ::testing::HasSubstr(absl::StrCat("\nstep ", rank, "\n"))) << columns;
      }
    }
  }
  EXPECT_EQ(FrameOf(text).columns, 0);
  // The longest lines are equally long, because all ranks print the same.
  std::string alike;
  for (int rank = 0; rank < 8; ++rank)
    absl::StrAppend(&alike, "[rank", rank,
                    "]: NCCL error: remote process exited or there was a network error, 2.21.5\n",
                    "ncclRemoteError: A call failed\nLast error\n");
  EXPECT_EQ(FrameOf(alike).columns, 0);
  EXPECT_EQ(FrameOf("").columns, 0);
}

TEST(TextFrame, QuotationsIndentationNumbersAndBlankLines) {
  const std::string text =
      "Process 7: python3\n\nThread 7 (idle):\n    read (data.py:3)\n    main (a.py:1)\nend\nend\n";
  std::istringstream lines(text);
  std::string quoted, indented, numbered, doubled;
  int number = 97;
  for (std::string line; std::getline(lines, line);) {
    absl::StrAppend(&quoted, line.empty() ? ">" : "> ", line, "\n");
    absl::StrAppend(&indented, line.empty() ? "" : "    ", line, "\n");
    absl::StrAppend(&numbered, number < 100 ? " " : "", number, "  ", line, "\n");
    absl::StrAppend(&doubled, line, "\n\n");
    ++number;
  }
  for (const std::string& framed : {text, quoted, indented, numbered, doubled})
    EXPECT_EQ(Unframed(framed), text) << framed;
  // Labels of srun are not line numbers.
  const std::string labels = "0: a\n1: b\n2: c\n3: d\n4: e\n";
  EXPECT_EQ(Unframed(labels), labels);
}

}  // namespace
}  // namespace lockstep::logs
