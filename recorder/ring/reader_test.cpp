// Tests hostile ring files: for any bytes, the reader returns in limited time and memory, and reports the problem.
#include "recorder/ring/reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <regex>
#include <thread>
#include <vector>

#include "recorder/ring/layout.h"
#include "recorder/ring/reader_internal.h"
#include "tests/support/files.h"
#include "tests/support/page_bytes.h"

namespace lockstep::ring {
namespace {

using ::testing::HasSubstr;

// Returns a file as the writer creates it, with something in every section.
std::vector<unsigned char> Valid() {
  constexpr uint64_t kBytes = 1 << 20;
  std::vector<unsigned char> bytes(kBytes, 0);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.layout_version = kLayoutVersion;
  header.min_reader_version = kMinReaderVersion;
  header.header_bytes = sizeof(Header);
  header.endian_mark = kEndianMark;
  header.file_bytes = kBytes;
  header.tick_kind = TickKind::kMonotonicNs;
  header.triples[0] = {1000, 1000, 2000, 0};
  header.created_ticks = 1000;
  header.state = 1;
  header.comms_used = 2;
  header.threads_used = 1;
  header.streams_used = 1;
  header.overflow_begun = 1;
  const Capacities capacity = CapacitiesFor(kBytes);
  uint64_t offset = kPage;
  auto add = [&](SectionKind kind, uint64_t stride, uint64_t count) {
    header.sections[header.section_count++] = {kind, 0, offset, stride, count};
    const uint64_t at = offset;
    offset = (offset + stride * count + kPage - 1) / kPage * kPage;
    return at;
  };
  const uint64_t comms = add(SectionKind::kComms, sizeof(CommEntry), capacity.comms);
  const uint64_t peers = add(SectionKind::kPeers, sizeof(PeerEntry), capacity.peers);
  const uint64_t threads = add(SectionKind::kThreads, sizeof(ThreadCell), capacity.threads);
  const uint64_t streams = add(SectionKind::kStreams, sizeof(StreamCell), capacity.streams);
  add(SectionKind::kMarks, sizeof(MarkLine), capacity.streams);
  const uint64_t rings = add(SectionKind::kRings, sizeof(OpSlot) * capacity.ring_slots, capacity.rings);
  const uint64_t overflow = add(SectionKind::kOverflow, sizeof(OpSlot), capacity.overflow_slots);
  std::memcpy(bytes.data(), &header, sizeof(header));

  for (uint64_t i = 0; i < 2; ++i) {
    CommEntry comm{};
    comm.state = 2;
    comm.id = 77 + i;
    comm.created_ticks = 1500;
    comm.issued_seq = comm.issued_check = comm.launched_seq = 3;
    comm.p2p_issued = 1;
    std::memcpy(bytes.data() + comms + i * sizeof(comm), &comm, sizeof(comm));
  }
  PeerEntry peer{};
  peer.key = PeerKey(0, 5);
  peer.sends = 1;
  peer.created_ticks = 1500;
  std::memcpy(bytes.data() + peers + 64 * 9, &peer, sizeof(peer));
  ThreadCell cell{};
  cell.tid = 42;
  cell.begun = cell.ops = 3;
  cell.created_ticks = 1200;
  std::memcpy(bytes.data() + threads, &cell, sizeof(cell));
  StreamCell stream{};
  stream.in_use = 1;
  stream.handle = 9;
  std::memcpy(bytes.data() + streams, &stream, sizeof(stream));
  for (uint64_t n = 0; n < 3; ++n) {
    OpSlot slot{};
    slot.guard = n + 1;
    slot.type = static_cast<uint8_t>(SlotType::kOp);
    slot.stage = 3;
    slot.kind = 1;
    slot.seq = n + 1;
    slot.index_low = static_cast<uint32_t>(n);
    slot.enter_ticks = 1600 + n;
    slot.return_ticks = 1601 + n;
    std::memcpy(bytes.data() + rings + n * sizeof(slot), &slot, sizeof(slot));
    slot.guard = 2;
    if (n == 0) std::memcpy(bytes.data() + overflow, &slot, sizeof(slot));
  }
  return bytes;
}

class ReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fd_ = memfd_create("ring", MFD_CLOEXEC);
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override { close(fd_); }
  void Put(const std::vector<unsigned char>& bytes) {
    ASSERT_EQ(ftruncate(fd_, 0), 0);
    ASSERT_EQ(ftruncate(fd_, static_cast<off_t>(bytes.size())), 0);
    ASSERT_EQ(pwrite(fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  // Reads in both ways. The limits follow from the file's size, not from the numbers in the file.
  bool ReadBoth(Snapshot* snapshot, std::string* error) {
    ReadRing(fd_, {true}, snapshot, error);
    const bool read = ReadRing(fd_, {false}, snapshot, error);
    EXPECT_LE(snapshot->ops.size(), kMaxFileBytes / sizeof(Member));
    EXPECT_LE(snapshot->problems.size(), 32u);
    return read;
  }
  int fd_ = -1;
};

TEST_F(ReaderTest, ReadsAWholeFile) {
  Put(Valid());
  Snapshot snapshot;
  std::string error;
  ASSERT_TRUE(ReadBoth(&snapshot, &error)) << error;
  EXPECT_TRUE(snapshot.problems.empty()) << snapshot.problems[0];
  EXPECT_EQ(snapshot.ops.size(), 4u);
  EXPECT_EQ(snapshot.comms.size(), 2u);
  EXPECT_EQ(snapshot.comms[0].peers.size(), 1u);
  EXPECT_EQ(snapshot.comms[0].created_ns, 1500);
  EXPECT_EQ(snapshot.process.created_real_ns, 2000);
}

// docs/ring-file.md shows parts of a file that the recorder wrote; the rest is zero here.
TEST_F(ReaderTest, TheExampleOnThePageIsRead) {
  std::vector<unsigned char> file(512 << 10, 0);
  for (const auto& [offset, bytes] : BytesInPage(LOCKSTEP_SOURCE "/docs/ring-file.md")) {
    ASSERT_LE(offset + bytes.size(), file.size());
    std::memcpy(file.data() + offset, bytes.data(), bytes.size());
  }
  Put(file);
  Snapshot snapshot;
  std::string error;
  ASSERT_TRUE(ReadBoth(&snapshot, &error)) << error;
  EXPECT_TRUE(snapshot.problems.empty()) << snapshot.problems[0];
  EXPECT_EQ(snapshot.process.pid, 18901);
  EXPECT_EQ(snapshot.process.rank, 0);
  EXPECT_EQ(snapshot.process.world_size, 1);
  EXPECT_EQ(snapshot.process.host, "n0");
  EXPECT_EQ(snapshot.process.job, "train");
  EXPECT_EQ(snapshot.process.nccl_version, 23007);
  ASSERT_EQ(snapshot.comms.size(), 1u);
  EXPECT_EQ(snapshot.comms[0].id, 0x2dbe4be26d7136beu);
  EXPECT_EQ(snapshot.comms[0].issued_seq, 1u);
  ASSERT_EQ(snapshot.threads.size(), 1u);
  EXPECT_EQ(snapshot.threads[0].name, "one");
  ASSERT_EQ(snapshot.ops.size(), 2u);
  EXPECT_EQ(snapshot.ops[0].kind, CallKind::kCommInitRank);
  EXPECT_EQ(snapshot.ops[1].kind, CallKind::kAllReduce);
  EXPECT_EQ(snapshot.ops[1].seq, 1u);
  EXPECT_EQ(snapshot.ops[1].count, 1024u);
  EXPECT_GT(snapshot.ops[1].enter_ns, snapshot.ops[0].return_ns);
  // The page lists the whole file.
  std::ifstream page(LOCKSTEP_SOURCE "/docs/ring-file.md");
  const std::regex picture("    ([0-9a-f]{5})  +([0-9]+) +[a-z ]+ ([0-9]+) x ([0-9]+).*");
  const auto* header = reinterpret_cast<const Header*>(file.data());
  uint32_t sections = 0;
  std::smatch match;
  for (std::string line; std::getline(page, line);) {
    if (!std::regex_match(line, match, picture)) continue;
    ASSERT_LT(sections, header->section_count);
    const Section& section = header->sections[sections++];
    EXPECT_EQ(section.offset, std::stoull(match[1], nullptr, 16)) << line;
    EXPECT_EQ(section.kind, static_cast<SectionKind>(std::stoul(match[2]))) << line;
    EXPECT_EQ(section.count, std::stoull(match[3])) << line;
    EXPECT_EQ(section.stride, std::stoull(match[4])) << line;
  }
  EXPECT_EQ(sections, header->section_count);
}

TEST_F(ReaderTest, ATruncatedFileIsReadUpToTheCut) {
  const std::vector<unsigned char> whole = Valid();
  for (size_t size = 0; size < whole.size(); size += kPage) {
    Put({whole.begin(), whole.begin() + static_cast<long>(size)});
    Snapshot snapshot;
    std::string error;
    const bool read = ReadBoth(&snapshot, &error);
    EXPECT_EQ(read, size >= sizeof(Header)) << size;
    if (read) {
      EXPECT_FALSE(snapshot.problems.empty()) << size;
    } else {
      EXPECT_THAT(error, HasSubstr("too short"));
    }
  }
}

TEST_F(ReaderTest, RandomBytesAreNotARing) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 50; ++i) {
    std::vector<unsigned char> bytes(1 + random() % 20000);
    for (unsigned char& b : bytes) b = static_cast<unsigned char>(random());
    Put(bytes);
    Snapshot snapshot;
    std::string error;
    EXPECT_FALSE(ReadBoth(&snapshot, &error));
    EXPECT_FALSE(error.empty());
  }
}

TEST_F(ReaderTest, ChangedBytesNeverBreakTheReader) {
  std::mt19937_64 random(2);
  const std::vector<unsigned char> whole = Valid();
  for (int i = 0; i < 1500; ++i) {
    std::vector<unsigned char> bytes = whole;
    const int flips = 1 + static_cast<int>(random() % 40);
    for (int f = 0; f < flips; ++f) {
      // Half of the changes are in the header and the section table, where they do most harm.
      const size_t at = random() % 2 == 0 ? 16 + random() % (sizeof(Header) - 16) : random() % bytes.size();
      bytes[at] = static_cast<unsigned char>(random());
    }
    Put(bytes);
    Snapshot snapshot;
    std::string error;
    ReadBoth(&snapshot, &error);
  }
}

TEST_F(ReaderTest, HugeNumbersInEveryWordAreBounded) {
  const std::vector<unsigned char> whole = Valid();
  const uint64_t values[] = {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 32, 0xffffffff, 1};
  for (size_t at = 16; at + 8 <= sizeof(Header); at += 8) {
    for (const uint64_t value : values) {
      std::vector<unsigned char> bytes = whole;
      std::memcpy(bytes.data() + at, &value, sizeof(value));
      Put(bytes);
      Snapshot snapshot;
      std::string error;
      ReadBoth(&snapshot, &error);
    }
  }
}

// In the largest file, every table claims all of the file, and every byte of the tables is 1.
TEST_F(ReaderTest, OverlappingTablesOverTheWholeFileAreBounded) {
  std::vector<unsigned char> bytes(kMaxFileBytes, 1);
  const std::vector<unsigned char> whole = Valid();
  std::memcpy(bytes.data(), whole.data(), kPage);
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.file_bytes = kMaxFileBytes;
  header.comms_used = ~uint64_t{0};
  header.threads_used = header.streams_used = ~uint32_t{0};
  header.overflow_begun = ~uint64_t{0};
  for (Section& section : header.sections) {
    section.offset = kPage;
    section.count = ~uint64_t{0};
    if (section.kind == SectionKind::kRings) section.stride = sizeof(OpSlot);
  }
  std::memcpy(bytes.data(), &header, sizeof(header));
  Put(bytes);
  Snapshot snapshot;
  std::string error;
  ASSERT_TRUE(ReadBoth(&snapshot, &error)) << error;
  EXPECT_LE(snapshot.comms.size(), 4096u);
  EXPECT_LE(snapshot.threads.size(), 4096u);
  EXPECT_LE(snapshot.streams.size(), 4096u);
  EXPECT_LE(snapshot.recent.size(), 4096u * (kRecentCollectives + kRecentP2p));
  EXPECT_FALSE(snapshot.problems.empty());
}

// Impossible offsets and strides, in each section in turn.
TEST_F(ReaderTest, ImpossibleSectionsAreNamedAndLeftOut) {
  const std::vector<unsigned char> whole = Valid();
  const uint64_t values[] = {0, 1, 7, 127, kPage - 1, ~uint64_t{0}, ~uint64_t{0} - kPage, uint64_t{1} << 63};
  for (uint32_t i = 0; i < 7; ++i) {
    for (const uint64_t value : values) {
      for (size_t field : {offsetof(Section, offset), offsetof(Section, stride)}) {
        std::vector<unsigned char> bytes = whole;
        std::memcpy(bytes.data() + offsetof(Header, sections) + i * sizeof(Section) + field, &value, sizeof(value));
        Put(bytes);
        Snapshot snapshot;
        std::string error;
        ASSERT_TRUE(ReadBoth(&snapshot, &error)) << error;
        EXPECT_FALSE(snapshot.problems.empty()) << "section " << i << " field " << field << " value " << value;
      }
    }
  }
}

TEST_F(ReaderTest, AFileThatChangesWhileItIsReadIsHarmless) {
  const std::vector<unsigned char> whole = Valid();
  Put(whole);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::mt19937_64 random(3);
    std::vector<unsigned char> noise(kPage);
    while (!stop.load()) {
      for (unsigned char& b : noise) b = static_cast<unsigned char>(random());
      const off_t at = static_cast<off_t>(random() % (whole.size() / kPage) * kPage);
      if (pwrite(fd_, noise.data(), at == 0 ? 0 : noise.size(), at) < 0) break;
      if (ftruncate(fd_, static_cast<off_t>(random() % whole.size())) != 0) break;
      if (pwrite(fd_, whole.data(), whole.size(), 0) < 0) break;
    }
  });
  for (int i = 0; i < 300; ++i) {
    Snapshot snapshot;
    std::string error;
    ReadBoth(&snapshot, &error);
  }
  stop = true;
  writer.join();
}

TEST_F(ReaderTest, NewerLayoutsAreReadAsFarAsTheyAllow) {
  std::vector<unsigned char> bytes = Valid();
  const uint32_t newer = kLayoutVersion + 1;
  std::memcpy(bytes.data() + offsetof(Header, layout_version), &newer, sizeof(newer));
  Put(bytes);
  Snapshot snapshot;
  std::string error;
  EXPECT_TRUE(ReadBoth(&snapshot, &error));
  std::memcpy(bytes.data() + offsetof(Header, min_reader_version), &newer, sizeof(newer));
  Put(bytes);
  EXPECT_FALSE(ReadBoth(&snapshot, &error));
  EXPECT_THAT(error, HasSubstr("version"));
}

TEST_F(ReaderTest, OnlyRegularFilesAreReadAndNoLinks) {
  const support::TempFolder folder;
  const std::string& base = folder.path();
  Snapshot snapshot;
  std::string error;
  EXPECT_FALSE(ReadRingFile(base, {}, &snapshot, &error));
  ASSERT_EQ(mkfifo((base + "/fifo").c_str(), 0600), 0);
  EXPECT_FALSE(ReadRingFile(base + "/fifo", {}, &snapshot, &error));
  EXPECT_THAT(error, HasSubstr("regular"));
  ASSERT_EQ(symlink("/etc/passwd", (base + "/link").c_str()), 0);
  EXPECT_FALSE(ReadRingFile(base + "/link", {}, &snapshot, &error));
  EXPECT_THAT(error, HasSubstr("cannot open"));
  EXPECT_FALSE(ReadRingFile(base + "/absent", {}, &snapshot, &error));
}

TEST(Dependency, ShowsAfterHowManyTicketsTheStreamWaits) {
  for (const uint64_t after :
       {uint64_t{0}, uint64_t{1}, uint64_t{65534}, uint64_t{65535}, uint64_t{65536}, uint64_t{10'000'000'000}}) {
    for (const uint64_t since : {0, 1, 1000, 65534}) {
      uint64_t found = 1;
      EXPECT_TRUE(UnpackGiven(PackGiven(after), after + since, &found));
      EXPECT_EQ(found, after) << since;
    }
  }
  uint64_t found = 5;
  EXPECT_FALSE(UnpackGiven(0, 100, &found)) << "an older recorder writes no number";
  EXPECT_EQ(found, 5u);
  // A hostile value: larger than the number issued. The result is 0.
  EXPECT_TRUE(UnpackGiven(PackGiven(500), 3, &found));
}

// The owner of a ring may truncate the ring while it is read. One read returns the rest.
TEST(RingFile, TheRestOfATruncatedFileIsReadAtOnce) {
  const support::TempFolder folder;
  const std::string path = folder.path() + "/cut.ring";
  support::WriteFile(path, std::string(640, 'x'));
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const internal::File file(fd, 1 << 20);
  std::vector<unsigned char> bytes(1 << 20);
  EXPECT_EQ(file.ReadUpTo(0, bytes.data(), bytes.size()), 640u);
  EXPECT_EQ(file.ReadUpTo(600, bytes.data(), 100), 40u);
  EXPECT_EQ(file.ReadUpTo(4096, bytes.data(), 100), 0u);
  EXPECT_EQ(file.ReadUpTo(2 << 20, bytes.data(), 100), 0u);
  EXPECT_FALSE(file.Read(0, bytes.data(), 641));
  EXPECT_TRUE(file.Read(0, bytes.data(), 640));
  close(fd);
}

}  // namespace
}  // namespace lockstep::ring
