#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "analyzer/util/atomic_file.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/rotating_file.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/system.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/files-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Content(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }
  std::string folder_;
};

TEST_F(FileTest, AFileAppearsCompleteOrNotAtAll) {
  ASSERT_TRUE(WriteFileSafely(Path("a"), "old", 0640).ok());
  struct stat info {};
  ASSERT_EQ(stat(Path("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  {
    AtomicFile given_up(Path("a"));
    ASSERT_TRUE(given_up.Append("new").ok());
    EXPECT_NE(given_up.temporary(), "");
  }
  EXPECT_EQ(Content("a"), "old");
  EXPECT_THAT(Names(), UnorderedElementsAre("a"));
  AtomicFile file(Path("a"), ".new.");
  ASSERT_TRUE(file.Open().ok());
  ASSERT_TRUE(file.SetSize(4).ok());
  ASSERT_TRUE(file.WriteAt(2, "xy", 2).ok());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(Content("a"), std::string("\0\0xy", 4));
  EXPECT_THAT(WriteFileSafely(Path("none/a"), "x").message(), HasSubstr(Path("none/a")));
}

TEST_F(FileTest, AnErrorKeepsTheFileFromAppearing) {
  AtomicFile size(Path("a")), place(Path("b"));
  ASSERT_TRUE(size.Open().ok() && place.Open().ok());
  EXPECT_FALSE(size.SetSize(UINT64_MAX).ok());
  EXPECT_FALSE(size.WriteAt(0, "x", 1).ok());
  EXPECT_FALSE(size.Commit().ok());
  EXPECT_FALSE(place.WriteAt(INT64_MAX, "x", 1).ok());
  EXPECT_FALSE(place.SetSize(1).ok());
  EXPECT_FALSE(place.Commit().ok());
  EXPECT_FALSE(std::filesystem::exists(Path("a")) || std::filesystem::exists(Path("b")));
}

TEST_F(FileTest, AUserMayNameAPipe) {
  AtomicFile full = AtomicFile::Output("/dev/full", ".x.");
  ASSERT_TRUE(full.Append("text").ok());
  EXPECT_EQ(full.Commit().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.Append("more").code(), absl::StatusCode::kResourceExhausted);
  AtomicFile file = AtomicFile::Output(Path("b"), ".x.");
  ASSERT_TRUE(file.Append("text").ok());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(Content("b"), "text");
}

TEST_F(FileTest, AFileIsReadUpToALimit) {
  std::ofstream(Path("c")) << "12345";
  EXPECT_EQ(ReadWholeFile(Path("c"), 5).value_or("?"), "12345");
  EXPECT_THAT(ReadWholeFile(Path("c"), 4).status().message(), HasSubstr("larger than 4 bytes"));
  EXPECT_EQ(ReadSmallFile(Path("c"), 4), "1234");
  EXPECT_EQ(ReadSmallFile(Path("d")), "");
  EXPECT_EQ(ReadWholeFile(Path("d"), 5).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadWholeFile(folder_, 5).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(ReadWholeFile(Path("fifo"), 5).status().code(), absl::StatusCode::kInvalidArgument);
  std::filesystem::create_symlink("c", Path("link"));
  EXPECT_EQ(ReadWholeFile(Path("link"), 5).value_or("?"), "12345");
  EXPECT_FALSE(ReadWholeFile(Path("link"), 5, Links::kRefuse).ok());
}

TEST_F(FileTest, ALogHasABoundedSize) {
  RotatingFile log;
  EXPECT_FALSE(log.Append("x").ok());
  ASSERT_TRUE(log.Open(Path("log"), 20).ok());
  for (const char* line : {"first\nline", "second", "third line"}) EXPECT_TRUE(log.Append(line).ok());
  EXPECT_EQ(Content("log.1"), "first line\nsecond\n");
  EXPECT_EQ(Content("log"), "third line\n");
  std::filesystem::create_symlink("log", Path("link"));
  RotatingFile linked;
  EXPECT_FALSE(linked.Open(Path("link")).ok());
  ASSERT_TRUE(linked.Open(Path("link"), 20, 0600, RotatingFile::Kind::kAny).ok());
  for (const char* line : {"through the link", "and again"}) EXPECT_TRUE(linked.Append(line).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_EQ(Content("log.1"), "through the link\n");
  EXPECT_EQ(Content("log"), "and again\n");
  EXPECT_TRUE(linked.Open("/dev/full", 20, 0600, RotatingFile::Kind::kAny).ok());
  EXPECT_EQ(linked.Append("x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(std::filesystem::exists("/dev/full"));
}

TEST_F(FileTest, NamesAndNumbersInAFolderAreListed) {
  for (const char* name : {"b", ".a", "10", "9", "9x"}) std::ofstream(Path(name)) << name;
  EXPECT_THAT(NamesIn(folder_), ElementsAre(".a", "10", "9", "9x", "b"));
  EXPECT_EQ(NamesIn(folder_, 2).size(), 2u);
  EXPECT_THAT(NumbersIn(folder_), ElementsAre(9, 10));
  const UniqueFd open_folder(open(folder_.c_str(), O_PATH | O_DIRECTORY));
  EXPECT_EQ(NamesIn(open_folder.get()).size(), 5u);
  EXPECT_THAT(NamesIn(Path("none")), IsEmpty());
  EXPECT_EQ(errno, ENOENT);
  EXPECT_TRUE(SyncFolder(folder_).ok());
}

TEST(UniqueFdTest, ClosesOnce) {
  UniqueFd read_end, write_end;
  ASSERT_TRUE(MakePipe(&read_end, &write_end));
  const int number = read_end.get();
  UniqueFd moved = std::move(read_end);
  EXPECT_FALSE(read_end.ok());
  EXPECT_EQ(moved.get(), number);
  moved.reset();
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
  EXPECT_FALSE(moved.ok());
  const int kept = write_end.release();
  EXPECT_NE(fcntl(kept, F_GETFD), -1);
  close(kept);
}

TEST(SystemTest, TheProgramKnowsItsFolders) {
  EXPECT_EQ(OwnPath().substr(0, OwnFolder().size()), OwnFolder());
  EXPECT_EQ(access((OwnFolder() + "analyzer_util_test").c_str(), X_OK), 0);
  EXPECT_NE(HostName(), "");
  setenv("LOCKSTEP_KEYS", "/keys", 1);
  setenv("HOME", "", 1);
  EXPECT_THAT(KeyFolders(), ElementsAre("/keys", "/etc/lockstep/keys"));
  setenv("TMPDIR", "/scratch", 1);
  EXPECT_EQ(TemporaryFolder(), "/scratch");
  unsetenv("TMPDIR");
  EXPECT_EQ(TemporaryFolder(), "/tmp");
  EXPECT_NE(RandomInstance(), 0u);
}

TEST(EventFdTest, IsReadableUntilDrained) {
  const EventFd event;
  ASSERT_TRUE(event.ok());
  pollfd polled = {event.get(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  EXPECT_TRUE(event.Signal() && event.Signal());
  EXPECT_EQ(poll(&polled, 1, 0), 1);
  event.Drain();
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  event.Drain();
}

TEST(ProcStatTest, NamesMayContainParentheses) {
  const std::optional<ProcStat> stat = ParseProcStat("12 (a) R 9) S 7 1 1 0 -1 0 0 0 0 0 3 4 5 6 20 0 1 0 4711 0 0\n");
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 7);
  EXPECT_EQ(stat->cpu_ticks, 18u);
  EXPECT_EQ(stat->start_ticks, 4711u);
  EXPECT_FALSE(ParseProcStat("12 (a) S").has_value());
  EXPECT_EQ(ReadProcStat(getpid())->parent, getppid());
  const std::string text = "Name:\tx y\nNSpid:\t4711\t12\nVmRSS:\t  34 kB\n";
  EXPECT_EQ(ProcField(text, "Name"), "x y");
  EXPECT_EQ(ProcField(text, "NSp"), "");
  EXPECT_EQ(ProcNumbers(text, "NSpid"), (std::vector<int64_t>{4711, 12}));
  EXPECT_EQ(ProcNumbers(text, "VmRSS"), (std::vector<int64_t>{34}));
  EXPECT_EQ(InnerPid("/proc/self"), getpid());
  EXPECT_EQ(InnerPid("/proc/none"), 0);
  EXPECT_EQ(BootId().size(), 36u);
}

}  // namespace
}  // namespace lockstep
