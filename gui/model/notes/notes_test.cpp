#include "gui/model/notes/notes.h"

#include <gtest/gtest.h>

#include <QFile>
#include <QTemporaryDir>

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "analyzer/testing/job.h"

namespace lockstep::gui {
namespace {

class NotesTest : public ::testing::Test {
 protected:
  std::string Path() const { return folder_.filePath("incident.notes.json").toStdString(); }
  void Write(const QByteArray& text) const {
    QFile file(QString::fromStdString(Path()));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(text);
  }
  QTemporaryDir folder_;
};

TEST_F(NotesTest, NotesAreReadBack) {
  Notes notes;
  Mark mark;
  mark.text = QString::fromUtf8("look: \"here\"\n\xc3\xa4");
  mark.made = "2026-01-02T03:04:05Z";
  mark.ranks = Ranks::Of({1, 2, 3, 9});
  mark.comm = "0xabc";
  mark.seq_first = 4;
  mark.seq_last = 9'007'199'254'740'993;
  mark.time_begin = 1'700'000'000'123'456'789;
  mark.time_end = mark.time_begin + 1;
  mark.record_rank = 2;
  mark.record = 0;
  notes.marks = {mark, Mark()};
  ASSERT_TRUE(WriteNotes(Path(), notes).ok());
  auto read = ReadNotes(Path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, notes);
  ASSERT_TRUE(WriteNotes(Path(), Notes()).ok());
  EXPECT_FALSE(QFile::exists(QString::fromStdString(Path())));
  EXPECT_TRUE(ReadNotes(Path())->marks.empty());
}

TEST_F(NotesTest, HostileFilesAreRefusedOrCut) {
  for (const char* text : {"", "{", "[]", "{\"format\":\"other\"}", "\x00\xff"}) {
    Write(text);
    EXPECT_EQ(ReadNotes(Path()).status().code(), absl::StatusCode::kDataLoss) << text;
  }
  Write("{\"format\":\"lockstep-notes\",\"version\":2}");
  EXPECT_EQ(ReadNotes(Path()).status().code(), absl::StatusCode::kFailedPrecondition);
  Write(
      "{\"format\":\"lockstep-notes\",\"version\":1,\"marks\":[7,{\"ranks\":[5,1,-3,4,1e300,2,3,3],\"record\":\"x\","
      "\"record_rank\":1e99}," +
      QByteArray("{\"text\":\"") + QByteArray(100'000, 'a') + "\"}]}");
  auto notes = ReadNotes(Path());
  ASSERT_TRUE(notes.ok()) << notes.status();
  ASSERT_EQ(notes->marks.size(), 2u);
  EXPECT_EQ(notes->marks[0].ranks, Ranks::Between(3, 3));
  EXPECT_EQ(notes->marks[0].record, -1);
  EXPECT_EQ(notes->marks[0].record_rank, -1);
  EXPECT_EQ(notes->marks[1].text.size(), kMostMarkText);
}

// Opening a pipe waits for a writer, which would block the window.
TEST_F(NotesTest, APipeInsteadOfTheFileIsRefused) {
  ASSERT_EQ(mkfifo(Path().c_str(), 0600), 0);
  EXPECT_EQ(ReadNotes(Path()).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(NotesTest, AnUnwritableFileIsReported) {
  Notes notes;
  notes.marks.resize(1);
  const absl::Status status = WriteNotes(folder_.filePath("absent/x.notes.json").toStdString(), notes);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("cannot write"), std::string::npos);
}

// A full disk stores only a part and reports no error.
TEST_F(NotesTest, APartialWriteLeavesTheOldFile) {
  Notes notes;
  notes.marks.resize(1);
  notes.marks[0].text = "before";
  ASSERT_TRUE(WriteNotes(Path(), notes).ok());
  Notes more = notes;
  more.marks.resize(100, notes.marks[0]);
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status status = WriteNotes(Path(), more);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(status.ok());
  const auto read = ReadNotes(Path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, notes);
}

TEST_F(NotesTest, TheFileLiesBesideTheOpenedIncident) {
  EXPECT_EQ(NotesPath({"/a/incident/"}), "/a/incident.notes.json");
  EXPECT_EQ(NotesPath({"x.lsd", "y.lsd"}), "x.lsd.notes.json");
  EXPECT_EQ(NotesPath({}), "");
  EXPECT_EQ(NotesPath({"/"}), "");
}

TEST_F(NotesTest, AMarkRestoresItsSelection) {
  lockstep::testing::Job job(2, 2, 2, 4);
  auto document = Document::FromBundle(job.Run());
  ASSERT_TRUE(document.ok());
  Selection selection;
  selection.ranks = Ranks::Between(1, 2);
  selection.comm = 0;
  selection.seq_first = 1;
  selection.seq_last = 2;
  selection.record_rank = 1;
  selection.record = 0;
  const Mark mark = MarkOfSelection(**document, selection, "x");
  EXPECT_EQ(SelectionOfMark(**document, mark), selection);
  Mark foreign = mark;
  foreign.comm = "not there";
  foreign.record = 1'000'000;
  EXPECT_EQ(SelectionOfMark(**document, foreign).comm, -1);
  EXPECT_EQ(SelectionOfMark(**document, foreign).record, -1);
}

}  // namespace
}  // namespace lockstep::gui
