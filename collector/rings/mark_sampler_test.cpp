#include "collector/rings/mark_sampler.h"
#include "analyzer/util/time_units.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collector/host/proc.h"
#include "gtest/gtest.h"
#include "recorder/ring/layout.h"

namespace lockstep {
namespace {

bool Always(size_t) { return true; }
bool Never(size_t) { return false; }

ring::Snapshot OneOp(uint64_t ticket, int64_t enter_ns, uint64_t replay = 0) {
  ring::Snapshot snapshot;
  ring::OpSnapshot op;
  op.stream = 0;
  op.ticket = ticket;
  op.enter_ns = enter_ns;
  op.replay = replay;
  snapshot.ops.push_back(op);
  return snapshot;
}

std::shared_ptr<MarkBudget> Budget(size_t most) {
  auto budget = std::make_shared<MarkBudget>();
  budget->most = most;
  return budget;
}

// A file that contains only a header and marker lines.
class MarksFile {
 public:
  explicit MarksFile(uint64_t lines = 16) {
    path_ = "/tmp/lockstep-marks-test-XXXXXX";
    fd_ = mkstemp(path_.data());
    ring::Header header{};
    std::memcpy(header.magic, ring::kMagic, sizeof(ring::kMagic));
    header.layout_version = header.min_reader_version = 1;
    header.endian_mark = ring::kEndianMark;
    header.section_count = 1;
    header.sections[0] = {ring::SectionKind::kMarks, 0, ring::kPage, sizeof(ring::MarkLine), lines};
    EXPECT_EQ(ftruncate(fd_, ring::kPage * 2), 0);
    Write(header);
  }
  ~MarksFile() {
    close(fd_);
    unlink(path_.c_str());
  }
  void Write(const ring::Header& header) {
    EXPECT_EQ(pwrite(fd_, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  }
  void Mark(size_t line, uint64_t started, uint64_t completed) {
    const uint64_t tickets[2] = {started, completed};
    EXPECT_EQ(pwrite(fd_, tickets, sizeof tickets, static_cast<off_t>(ring::kPage + 64 * line)),
              static_cast<ssize_t>(sizeof tickets));
  }
  int fd() const { return fd_; }

 private:
  std::string path_;
  int fd_ = -1;
};

bool Until(const std::function<bool()>& so) {
  for (const int64_t end = MonotonicNs() + 10'000 * kMs; MonotonicNs() < end; usleep(1000)) {
    if (so()) return true;
  }
  return false;
}

TEST(TicketTimesTest, ATicketHasTheTimesOfTheSampleThatSawItAndOfTheOneBefore) {
  TicketTimes times;
  TicketTimes::Time time;
  times.See(5, 0, 100, Always);
  times.See(5, 90, 110, Always);
  times.See(8, 105, 120, Always);
  times.See(9, 118, 131, Always);
  EXPECT_FALSE(times.Find(5, &time)) << "the ticket was reached before the first sample";
  EXPECT_FALSE(times.Find(10, &time)) << "not reached";
  for (uint64_t ticket : {6, 7, 8}) {
    ASSERT_TRUE(times.Find(ticket, &time));
    EXPECT_EQ(time.ns, 120);
    EXPECT_EQ(time.uncertainty_ns, 15);
  }
  ASSERT_TRUE(times.Find(9, &time));
  EXPECT_EQ(time.ns, 131);
}

TEST(TicketTimesTest, TheNewestTicketsAreKept) {
  TicketTimes times;
  TicketTimes::Time time;
  for (uint64_t i = 0; i <= 10'000; ++i)
    times.See(i, static_cast<int64_t>(i) * 10, static_cast<int64_t>(i) * 10 + 10, Always);
  EXPECT_LE(times.bytes(), size_t{64} << 10);
  EXPECT_FALSE(times.Find(7'000, &time));
  for (uint64_t ticket = 10'000 - 2'000; ticket <= 10'000; ++ticket) {
    ASSERT_TRUE(times.Find(ticket, &time)) << ticket;
    EXPECT_EQ(time.ns, static_cast<int64_t>(ticket) * 10 + 10);
  }
}

TEST(TicketTimesTest, ACounterThatDecreasesStartsAgainAndWithoutMemoryNothingIsKept) {
  TicketTimes times;
  TicketTimes::Time time;
  times.See(1, 0, 10, Always);
  times.See(900, 10, 20, Always);
  times.See(3, 20, 30, Always);
  EXPECT_FALSE(times.Find(2, &time));
  times.See(4, 30, 40, Always);
  EXPECT_TRUE(times.Find(4, &time));
  TicketTimes poor;
  for (uint64_t i = 0; i < 100; ++i) poor.See(i, 0, 10, Never);
  EXPECT_FALSE(poor.Find(99, &time));
  EXPECT_EQ(poor.bytes(), 0u);
}

TEST(MarkTimesTest, OperationsGetTheTimesOfTheirTickets) {
  MarkTimes times(Budget(1 << 20));
  times.See({{0, 0}}, 100, 101);
  times.See({{3, 1}}, 110, 111);
  times.See({{3, 3}}, 120, 121);
  ring::Snapshot snapshot = OneOp(3, 50);
  times.Fill(&snapshot);
  EXPECT_EQ(snapshot.ops[0].started_ns, 111);
  EXPECT_EQ(snapshot.ops[0].completed_ns, 121);
  EXPECT_EQ(snapshot.ops[0].time_uncertainty_ns, 11);
  // A graph's launch, an operation that seems to start later, and an incomplete operation get no times.
  for (ring::Snapshot other : {OneOp(3, 50, 7), OneOp(3, 500), OneOp(4, 50)}) {
    times.Fill(&other);
    EXPECT_EQ(other.ops[0].completed_ns, 0);
  }
  // This read began before the last one, so its result arrives too late.
  times.See({{9, 9}}, 115, 130);
  ring::Snapshot late = OneOp(9, 50);
  times.Fill(&late);
  EXPECT_EQ(late.ops[0].completed_ns, 0);
}

TEST(MarkTimesTest, MemoryOfAUserIsBounded) {
  auto all = Budget(200'000);
  auto mine = Budget(100'000);
  mine->all = all;
  {
    MarkTimes times(mine);
    for (int64_t look = 1; look < 5000; ++look) {
      times.See(std::vector<ring::Mark>(64, {static_cast<uint64_t>(look), static_cast<uint64_t>(look)}), look * 10,
                look * 10 + 1);
    }
    EXPECT_LE(mine->bytes, 100'000u);
    EXPECT_GT(mine->bytes, 10'000u);
    EXPECT_EQ(all->bytes, mine->bytes);
  }
  EXPECT_EQ(mine->bytes, 0u);
  EXPECT_EQ(all->bytes, 0u);
}

TEST(MarkSamplerTest, SamplesAFileUntilItIsRemoved) {
  MarksFile file;
  MarkSampler sampler;
  EXPECT_EQ(sampler.counters().looks, 0u);
  const std::shared_ptr<MarkTimes> times = sampler.Add(file.fd(), geteuid());
  ASSERT_NE(times, nullptr);
  ring::Snapshot digest;
  digest.streams.resize(2);
  digest.streams[1].index = 1;
  times->Know(digest);
  const auto look = [&] {
    const uint64_t before = sampler.counters().looks;
    return Until([&] { return sampler.counters().looks >= before + 2; });
  };
  ASSERT_TRUE(look());
  for (uint64_t ticket = 1; ticket < 20; ++ticket) {
    const int64_t before = MonotonicNs();
    file.Mark(1, ticket, ticket);
    ring::Snapshot snapshot;
    ASSERT_TRUE(Until([&] {
      snapshot = OneOp(ticket, before);
      snapshot.ops[0].stream = 1;
      times->Fill(&snapshot);
      return snapshot.ops[0].completed_ns != 0;
    }));
    EXPECT_GE(snapshot.ops[0].completed_ns, before);
    EXPECT_LE(snapshot.ops[0].completed_ns - snapshot.ops[0].time_uncertainty_ns, MonotonicNs());
    EXPECT_GT(snapshot.ops[0].time_uncertainty_ns, 0);
  }
  sampler.Remove(times);
  EXPECT_EQ(sampler.counters().rings, 0u);
  const std::shared_ptr<MarkTimes> again = sampler.Add(file.fd(), geteuid());
  ASSERT_NE(again, nullptr);
  EXPECT_TRUE(look());
}

TEST(MarkSamplerTest, InvalidFilesAreNotSampled) {
  MarksFile file;
  MarkSampler sampler;
  ring::Header header{};
  file.Write(header);
  EXPECT_EQ(sampler.Add(file.fd(), 0), nullptr);
  std::memcpy(header.magic, ring::kMagic, sizeof(ring::kMagic));
  header.min_reader_version = 1;
  header.endian_mark = ring::kEndianMark;
  header.section_count = UINT32_MAX;
  for (ring::Section& section : header.sections)
    section = {ring::SectionKind::kMarks, 0, UINT64_MAX - 8, 64, UINT64_MAX};
  file.Write(header);
  EXPECT_EQ(sampler.Add(file.fd(), 0), nullptr);
  header.sections[0] = {ring::SectionKind::kMarks, 0, ring::kPage, 64, UINT64_MAX};
  file.Write(header);
  ring::MarksPlace place;
  ASSERT_TRUE(ring::FindMarks(file.fd(), &place));
  EXPECT_EQ(place.lines, ring::kPage / 64);
  std::vector<ring::Mark> marks;
  EXPECT_TRUE(ring::ReadMarks(file.fd(), place, SIZE_MAX, &marks));
  EXPECT_EQ(marks.size(), place.lines);
  ASSERT_EQ(ftruncate(file.fd(), ring::kPage + 70), 0);
  EXPECT_FALSE(ring::ReadMarks(file.fd(), place, 2, &marks));
  EXPECT_TRUE(ring::ReadMarks(file.fd(), place, 1, &marks));
}

}  // namespace
}  // namespace lockstep
