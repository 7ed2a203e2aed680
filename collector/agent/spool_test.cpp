#include "collector/agent/spool.h"
#include "analyzer/util/time_units.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string Noise(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

class SpoolTest : public support::FolderTest {
 protected:
  void SetUp() override {
    options_.folder = folder_ + "/spool";
    options_.chunk_bytes = 64 << 10;
  }

  std::unique_ptr<Spool> Open() {
    absl::StatusOr<std::unique_ptr<Spool>> spool = Spool::Open(options_);
    EXPECT_TRUE(spool.ok()) << spool.status();
    return spool.ok() ? std::move(*spool) : nullptr;
  }
  static void Put(Spool* spool, const std::string& content, SpoolClass kind, uint64_t request,
                  const std::string& name) {
    const std::string path = spool->WorkPath(name);
    std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    SpoolFile file;
    file.kind = kind;
    file.like.set_request(request);
    file.like.set_file(name);
    file.like.set_incident("incident");
    file.like.set_host("host");
    spool->PutFile(file, path);
  }
  // Takes chunks until `count` have arrived or none is left.
  static std::vector<Chunk> Take(Spool* spool, size_t count) {
    std::vector<Chunk> chunks;
    const int64_t end = MonotonicNs() + 60 * kSecond;
    for (Chunk chunk; chunks.size() < count && MonotonicNs() < end;) {
      spool->ClearWake();
      if (spool->Next(&chunk)) {
        chunks.push_back(chunk);
        continue;
      }
      if (chunks.size() == spool->held()) break;
      pollfd wait{spool->fd(), POLLIN, 0};
      poll(&wait, 1, 1000);
    }
    return chunks;
  }
  static std::string Unpack(const Chunk& chunk) {
    std::string raw(chunk.raw_bytes(), '\0');
    EXPECT_EQ(ZSTD_decompress(raw.data(), raw.size(), chunk.data().data(), chunk.data().size()), raw.size());
    return raw;
  }
  static std::string Problems(Spool* spool) {
    std::string all;
    for (std::string line; spool->NextProblem(&line);) all += line + "\n";
    return all;
  }

  SpoolOptions options_;
};

TEST_F(SpoolTest, AFileIsReadBackWholeAndEvidenceComesFirst) {
  std::unique_ptr<Spool> spool = Open();
  const std::string everything = Noise(300'000, 1), evidence = Noise(100'000, 2);
  Put(spool.get(), everything, SpoolClass::kEverything, 7, "host.lsd");
  Put(spool.get(), evidence, SpoolClass::kEvidence, 8, "host.evidence.lsd");
  ASSERT_TRUE(spool->Flush(60 * kSecond));
  EXPECT_TRUE(spool->Knows(7, "host.lsd"));
  EXPECT_FALSE(spool->Knows(7, "other.lsd"));
  const std::vector<Chunk> chunks = Take(spool.get(), 100);
  ASSERT_EQ(chunks.size(), 7u);
  EXPECT_EQ(chunks[0].file(), "host.evidence.lsd");
  EXPECT_EQ(chunks[1].file(), "host.evidence.lsd");
  std::map<std::string, std::string> files;
  std::set<std::string> ids;
  for (const Chunk& chunk : chunks) {
    std::string& file = files[chunk.file()];
    file.resize(std::max<size_t>(file.size(), chunk.offset() + chunk.raw_bytes()));
    file.replace(chunk.offset(), chunk.raw_bytes(), Unpack(chunk));
    EXPECT_EQ(chunk.last(),
              chunk.offset() + chunk.raw_bytes() == (chunk.request() == 7 ? everything : evidence).size());
    ids.insert(chunk.id());
  }
  EXPECT_EQ(ids.size(), 7u);
  EXPECT_EQ(files["host.lsd"], everything);
  EXPECT_EQ(files["host.evidence.lsd"], evidence);
  for (const Chunk& chunk : chunks) spool->Acked(chunk.id());
  spool->Acked(chunks[0].id());
  EXPECT_EQ(spool->held(), 0u);
  EXPECT_TRUE(spool->Knows(7, "host.lsd"));
  ASSERT_TRUE(spool->Flush(60 * kSecond));
  EXPECT_TRUE(fs::is_empty(options_.folder + "/files"));
  EXPECT_EQ(spool->counters().bytes, 0u);
}

TEST_F(SpoolTest, UnacknowledgedChunksAreResentWithTheirIdsByTheNextAgentToo) {
  std::unique_ptr<Spool> spool = Open();
  Put(spool.get(), Noise(200'000, 3), SpoolClass::kEverything, 1, "host.lsd");
  ASSERT_TRUE(spool->Flush(60 * kSecond));
  std::vector<Chunk> first = Take(spool.get(), 100);
  ASSERT_EQ(first.size(), 4u);
  spool->Return(first[2].id());
  const std::vector<Chunk> again = Take(spool.get(), 1);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].id(), first[2].id());
  spool->Acked(first[0].id());
  ASSERT_TRUE(spool->Flush(60 * kSecond));
  spool.reset();
  spool = Open();
  EXPECT_EQ(spool->held(), 3u);
  EXPECT_TRUE(spool->Knows(1, "host.lsd"));
  std::set<std::string> ids;
  for (const Chunk& chunk : Take(spool.get(), 100)) ids.insert(chunk.id());
  EXPECT_EQ(ids, (std::set<std::string>{first[1].id(), first[2].id(), first[3].id()}));
}

TEST_F(SpoolTest, KillsLeaveNoPartialFileAndChangeNoId) {
  // A chunk whose ID was handed out must still exist unless it was acknowledged. Files appear completely or not at all.
  std::mt19937 random(4);
  std::set<std::string> given;
  for (int round = 0; round < 25; ++round) {
    int report[2];
    ASSERT_EQ(pipe(report), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      absl::StatusOr<std::unique_ptr<Spool>> spool = Spool::Open(options_);
      if (!spool.ok()) _exit(3);
      for (uint32_t file = 0;; ++file) {
        Put(spool->get(), Noise(150'000, file), file % 2 == 0 ? SpoolClass::kEvidence : SpoolClass::kEverything,
            static_cast<uint64_t>(round) * 1000 + file, "host.lsd");
        for (const Chunk& chunk : Take(spool->get(), 1)) {
          if (write(report[1], chunk.id().data(), 16) != 16) _exit(4);
        }
      }
    }
    close(report[1]);
    // The kill comes after this many IDs. Between two IDs, the spool may be at any step.
    std::string id(16, '\0');
    for (int count = static_cast<int>(random() % 6); count > 0 && read(report[0], id.data(), 16) == 16; --count)
      given.insert(id);
    usleep(random() % 20'000);
    kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended with " << status;
    while (read(report[0], id.data(), 16) == 16) given.insert(id);
    close(report[0]);

    std::unique_ptr<Spool> spool = Open();
    ASSERT_NE(spool, nullptr);
    std::map<std::pair<uint64_t, std::string>, std::set<uint64_t>> offsets;
    std::map<std::pair<uint64_t, std::string>, bool> last;
    std::set<std::string> found;
    for (const Chunk& chunk : Take(spool.get(), 100000)) {
      EXPECT_TRUE(found.insert(chunk.id()).second) << "a chunk id appeared twice";
      offsets[{chunk.request(), chunk.file()}].insert(chunk.offset());
      last[{chunk.request(), chunk.file()}] |= chunk.last();
      EXPECT_EQ(Unpack(chunk).size(), chunk.raw_bytes());
    }
    for (const auto& [file, set] : offsets) {
      EXPECT_EQ(set, (std::set<uint64_t>{0, 65536, 131072})) << file.first;
      EXPECT_TRUE(last[file]);
    }
    for (const std::string& one : given) EXPECT_TRUE(found.count(one) == 1) << "an id that was sent is missing";
    EXPECT_EQ(spool->counters().damaged, 0u);
    if (round % 5 == 4) {
      for (const std::string& one : found) spool->Acked(one);
      given.clear();
      ASSERT_TRUE(spool->Flush(60 * kSecond));
    }
  }
}

TEST_F(SpoolTest, ItsBoundHoldsAndEverythingIsDroppedBeforeEvidence) {
  options_.most_bytes = 400'000;
  std::unique_ptr<Spool> spool = Open();
  Put(spool.get(), Noise(150'000, 5), SpoolClass::kEvidence, 1, "a.lsd");
  Put(spool.get(), Noise(150'000, 6), SpoolClass::kEverything, 2, "b.lsd");
  Put(spool.get(), Noise(150'000, 7), SpoolClass::kEvidence, 3, "c.lsd");
  ASSERT_TRUE(spool->Flush(60 * kSecond));
  EXPECT_TRUE(spool->Knows(1, "a.lsd"));
  EXPECT_FALSE(spool->Knows(2, "b.lsd"));
  EXPECT_TRUE(spool->Knows(3, "c.lsd"));
  EXPECT_EQ(spool->counters().files_dropped, 1u);
  EXPECT_THAT(Problems(spool.get()), ::testing::HasSubstr("dropped b.lsd"));
  // No evidence is dropped for a file of the class `everything`.
  Put(spool.get(), Noise(500'000, 8), SpoolClass::kEverything, 4, "d.lsd");
  ASSERT_TRUE(spool->Flush(60 * kSecond));
  EXPECT_TRUE(spool->Knows(1, "a.lsd"));
  EXPECT_FALSE(spool->Knows(4, "d.lsd"));
  EXPECT_LE(spool->counters().bytes, options_.most_bytes);
  EXPECT_THAT(Problems(spool.get()), ::testing::HasSubstr("d.lsd (500000 bytes)"));
}

TEST_F(SpoolTest, DamagedChunksAreReportedAndTheRestContinues) {
  std::unique_ptr<Spool> spool = Open();
  Put(spool.get(), Noise(200'000, 9), SpoolClass::kEverything, 1, "host.lsd");
  ASSERT_TRUE(spool->Flush(60 * kSecond));
  spool.reset();
  int touched = 0;
  for (const auto& entry : fs::recursive_directory_iterator(options_.folder + "/files")) {
    if (!entry.is_regular_file() || touched == 2) continue;
    if (touched++ == 0) {
      fs::resize_file(entry.path(), 100);
    } else {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(5000);
      file.write("damage", 6);
    }
  }
  fs::create_directories(options_.folder + "/files/not a file of ours");
  spool = Open();
  EXPECT_EQ(spool->held(), 4u);
  EXPECT_EQ(Take(spool.get(), 100).size(), 2u);
  EXPECT_EQ(spool->counters().damaged, 2u);
  EXPECT_THAT(Problems(spool.get()), ::testing::HasSubstr("the collector will not get all of host.lsd"));
}

TEST_F(SpoolTest, ARefusedFileIsRemoved) {
  std::unique_ptr<Spool> spool = Open();
  Put(spool.get(), Noise(100'000, 10), SpoolClass::kEverything, 1, "host.lsd");
  ASSERT_TRUE(spool->Flush(60 * kSecond));
  EXPECT_EQ(spool->held(), 2u);
  for (const Chunk& chunk : Take(spool.get(), 100)) spool->Refused(chunk.id(), "unknown incident");
  EXPECT_EQ(spool->held(), 0u);
  EXPECT_THAT(Problems(spool.get()), ::testing::HasSubstr("unknown incident"));
  ASSERT_TRUE(spool->Flush(60 * kSecond));
  EXPECT_TRUE(fs::is_empty(options_.folder + "/files"));
}

TEST_F(SpoolTest, RingsAreCopiedAndAFullSpoolDropsTheOldest) {
  options_.most_bytes = 3 << 20;
  std::unique_ptr<Spool> spool = Open();
  const std::string content = Noise(1 << 20, 11);
  const std::string path = folder_ + "/source.ring";
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
  const int fd = open(path.c_str(), O_RDONLY);
  spool->SaveRing(fd, "../escape.ring");
  for (const char* name : {"a.ring", "b.ring", "c.ring", "d.ring"}) spool->SaveRing(fd, name);
  close(fd);
  fs::remove(path);  // only the descriptor matters, not the path
  ASSERT_TRUE(spool->Flush(60 * kSecond));
  std::vector<std::string> names = spool->SavedRings();
  EXPECT_LE(names.size(), 3u);
  EXPECT_EQ(names.back(), "d.ring");
  EXPECT_GE(spool->counters().rings_dropped, 1u);
  std::ifstream copy(spool->rings_folder() + "/d.ring", std::ios::binary);
  const std::string read((std::istreambuf_iterator<char>(copy)), {});
  EXPECT_EQ(read, content);
  spool.reset();
  EXPECT_EQ(Open()->SavedRings(), names);
}

TEST_F(SpoolTest, ManyRingsOfOneUserDisplaceNoneOfAnother) {
  options_.most_bytes = 3 << 20;
  std::unique_ptr<Spool> spool = Open();
  const std::string content = Noise(1 << 20, 12);
  const std::string path = folder_ + "/source.ring";
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
  const int fd = open(path.c_str(), O_RDONLY);
  spool->SaveRing(fd, "1000-first.ring");
  for (int i = 0; i < 9; ++i) spool->SaveRing(fd, absl::StrCat("2000-", i, ".ring"));
  close(fd);
  ASSERT_TRUE(spool->Flush(60 * kSecond));
  const std::vector<std::string> names = spool->SavedRings();
  EXPECT_EQ(names.front(), "1000-first.ring");
  EXPECT_EQ(names.back(), "2000-8.ring");
}

TEST_F(SpoolTest, ASecondAgentAndAnotherUsersFolderAreRefused) {
  std::unique_ptr<Spool> spool = Open();
  const absl::StatusOr<std::unique_ptr<Spool>> second = Spool::Open(options_);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), ::testing::HasSubstr("another agent"));
  fs::create_directories(folder_ + "/open");
  fs::permissions(folder_ + "/open", fs::perms::all);
  options_.folder = folder_ + "/open";
  EXPECT_FALSE(Spool::Open(options_).ok());
}

// Uses a disk of 2 MiB, in a child process, because the mount must be private.
TEST_F(SpoolTest, OnAFullDiskEvidenceDisplacesEverythingAndNoFileIsPartial) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) _exit(77);
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=2m") != 0)
      _exit(77);
    const auto fail = [](const char* what) {
      fprintf(stderr, "%s\n", what);
      _exit(1);
    };
    absl::StatusOr<std::unique_ptr<Spool>> opened = Spool::Open(options_);
    if (!opened.ok()) fail("cannot be opened");
    Spool* spool = opened->get();
    Put(spool, Noise(900'000, 12), SpoolClass::kEverything, 1, "old.lsd");
    if (!spool->Flush(60 * kSecond) || !spool->Knows(1, "old.lsd")) fail("the first is not there");
    Put(spool, Noise(600'000, 13), SpoolClass::kEvidence, 2, "evidence.lsd");
    if (!spool->Flush(60 * kSecond)) fail("no end");
    if (spool->Knows(1, "old.lsd")) fail("everything was kept");
    if (!spool->Knows(2, "evidence.lsd")) fail("evidence was dropped");
    if (Take(spool, 100).size() != 10) fail("not all of the evidence is there");
    // The file is larger than the free space, and only evidence could be dropped.
    Put(spool, Noise(900'000, 14), SpoolClass::kEverything, 3, "new.lsd");
    if (!spool->Flush(60 * kSecond)) fail("no end");
    if (spool->Knows(3, "new.lsd")) fail("a file that cannot fit was kept");
    if (spool->counters().files_dropped != 2) fail("not counted");
    if (Problems(spool).find("No space left") == std::string::npos) fail("no message");
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "cannot mount a file system here";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace lockstep
