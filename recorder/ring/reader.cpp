#include "recorder/ring/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "recorder/ring/reader_internal.h"

namespace lockstep::ring {
namespace internal {

uint64_t File::ReadUpTo(uint64_t offset, void* to, uint64_t bytes) const {
  if (offset > size_) return 0;
  if (bytes > size_ - offset) bytes = size_ - offset;
  uint64_t read = 0;
  while (read < bytes) {
    const ssize_t got =
        pread(fd_, static_cast<unsigned char*>(to) + read, bytes - read, static_cast<off_t>(offset + read));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    read += static_cast<uint64_t>(got);
  }
  return read;
}

void Reading::Problem(const std::string& text) {
  constexpr size_t kMost = 32;
  if (out->problems.size() < kMost) out->problems.push_back(text);
}

namespace {

int64_t ReadClock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

// Returns the recording counter as this process sees it, or 0 if this process cannot read it.
uint64_t OwnTicks(TickKind kind) {
#if defined(__x86_64__)
  if (kind == TickKind::kTsc) return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  if (kind == TickKind::kCntvct) {
    uint64_t value;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
  }
#else
  (void)kind;
#endif
  return 0;
}

bool Plausible(const ClockTriple& triple) {
  constexpr int64_t kFar = int64_t{1} << 61;
  return triple.ticks != 0 && triple.mono_ns > 0 && triple.mono_ns < kFar && triple.real_ns > 0 &&
         triple.real_ns < kFar && (triple.check == 0 || triple.check == ClockCheck(triple));
}

}  // namespace

void Clock::Calibrate(const Header& header, bool same_boot) {
  const ClockTriple& first = header.triples[0];
  identity_ = header.tick_kind == TickKind::kMonotonicNs;
  if (!Plausible(first)) {
    identity_ = true;
    return;
  }
  real_offset_ = first.real_ns - first.mono_ns;
  ticks_ = first.ticks;
  mono_ns_ = first.mono_ns;
  if (identity_) return;
  ns_per_tick_ = header.tick_hz > 1000000 ? 1e9L / static_cast<long double>(header.tick_hz) : 1.0L;
  uint64_t last_ticks = 0;
  int64_t last_ns = 0;
  for (const ClockTriple& triple : header.triples) {
    if (Plausible(triple) && triple.ticks > last_ticks) {
      last_ticks = triple.ticks;
      last_ns = triple.mono_ns;
    }
  }
  const uint64_t own = same_boot ? OwnTicks(header.tick_kind) : 0;
  if (own > last_ticks) {
    last_ticks = own;
    last_ns = ReadClock(CLOCK_MONOTONIC);
  }
  // Over a very short time, the error of reading the clocks dominates, and the header's estimate is just as good.
  if (last_ticks > ticks_ && last_ns - mono_ns_ > 1000000) {
    ns_per_tick_ = static_cast<long double>(last_ns - mono_ns_) / static_cast<long double>(last_ticks - ticks_);
  }
}

int64_t Clock::ToNs(uint64_t ticks) const {
  if (ticks == 0) return 0;
  constexpr long double kFar = 4e18L;
  if (identity_) return static_cast<long double>(ticks) > kFar ? 0 : static_cast<int64_t>(ticks);
  const long double apart =
      ticks >= ticks_ ? static_cast<long double>(ticks - ticks_) : -static_cast<long double>(ticks_ - ticks);
  const long double ns = static_cast<long double>(mono_ns_) + apart * ns_per_tick_;
  if (!(ns > 0) || ns > kFar) return 0;
  return static_cast<int64_t>(ns);
}

std::string Text(const char* from, size_t size) {
  std::string text(from, strnlen(from, size));
  for (char& c : text) {
    const auto value = static_cast<unsigned char>(c);
    if (value < 0x20 || value == 0x7f) c = '?';
  }
  return text;
}

uint64_t Widen(uint64_t low, unsigned bits, uint64_t now) {
  const uint64_t span = uint64_t{1} << bits;
  uint64_t value = (now & ~(span - 1)) | low;
  if (value > now && value >= span) value -= span;
  return value;
}

namespace {

std::string OwnBootId() {
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char text[64] = {};
  const ssize_t got = read(fd, text, sizeof(text) - 1);
  close(fd);
  std::string id(text, got > 0 ? static_cast<size_t>(got) : 0);
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

struct Expected {
  SectionKind kind;
  Table Reading::*table;
  uint64_t smallest;  // bytes per element in the first layout
  uint64_t most;      // largest number of elements
  const char* name;
  bool may_miss = false;  // files of older recorders do not have it
};

// Far above what any layout needs. A malicious file of 64 MiB must not expand to gigabytes.
constexpr uint64_t kMostElements = 4096;

void FindSections(Reading* reading) {
  static const Expected kExpected[] = {
      {SectionKind::kComms, &Reading::comms, sizeof(CommEntry), kMostElements, "communicators"},
      {SectionKind::kPeers, &Reading::peers, sizeof(PeerEntry), 1 << 17, "peers"},
      {SectionKind::kThreads, &Reading::threads, sizeof(ThreadCell), kMostElements, "threads"},
      {SectionKind::kRings, &Reading::rings, sizeof(OpSlot), kMostElements, "rings"},
      {SectionKind::kOverflow, &Reading::overflow, sizeof(OpSlot), 1 << 17, "overflow ring"},
      {SectionKind::kStreams, &Reading::streams, sizeof(StreamCell), kMostElements, "streams"},
      {SectionKind::kMarks, &Reading::marks, sizeof(MarkLine), kMostElements, "marks"},
      {SectionKind::kKernels, &Reading::kernels, sizeof(KernelEntry), kMostElements, "kernels", true},
      {SectionKind::kProxies, &Reading::proxies, sizeof(ProxyEntry), kMostElements, "network operations", true},
      {SectionKind::kGraphs, &Reading::graphs, sizeof(GraphCell), kMostElements, "graphs", true},
      {SectionKind::kGraphOps, &Reading::graph_ops, sizeof(GraphOp), 1 << 17, "captured operations", true},
      {SectionKind::kTimes, &Reading::times, sizeof(TimeSlot), 1 << 17, "times", true},
  };
  uint32_t sections = reading->header.section_count;
  if (sections > kMaxSections) {
    reading->Problem("the section count at offset 48 is " + std::to_string(sections) + "; reading only " +
                     std::to_string(kMaxSections));
    sections = kMaxSections;
  }
  // Sections of a valid file do not overlap, so together they are no larger than the file.
  uint64_t left = reading->file.size();
  for (const Expected& expected : kExpected) {
    Table* table = &(reading->*expected.table);
    for (uint32_t i = 0; i < sections && !table->present; ++i) {
      const Section& section = reading->header.sections[i];
      if (section.kind != expected.kind) continue;
      const uint64_t at = offsetof(Header, sections) + i * sizeof(Section);
      if (section.offset < kPage || section.offset > reading->file.size() || section.stride < expected.smallest ||
          section.stride > kMaxFileBytes || section.stride % 8 != 0) {
        reading->Problem(std::string(expected.name) + ": the section has an invalid location, at offset " +
                         std::to_string(at));
        break;
      }
      uint64_t count = section.count < expected.most ? section.count : expected.most;
      const uint64_t fit = std::min(reading->file.size() - section.offset, left) / section.stride;
      if (section.count > count || count > fit) {
        count = count < fit ? count : fit;
        reading->Problem(std::string(expected.name) + ": " + std::to_string(section.count) + " announced at offset " +
                         std::to_string(at) + ", but the file has room for " + std::to_string(count));
      }
      *table = {section.offset, section.stride, count, true};
      left -= count * section.stride;
    }
    if (!table->present && !expected.may_miss) reading->Problem(std::string(expected.name) + ": missing section");
  }
}

RecorderState CleanState(uint32_t state) {
  return state <= static_cast<uint32_t>(RecorderState::kReplaced) ? static_cast<RecorderState>(state)
                                                                  : RecorderState::kUnknown;
}

void FillProcess(Reading* reading) {
  const Header& header = reading->header;
  ProcessInfo& process = reading->out->process;
  process.boot_id = Text(header.boot_id, sizeof(header.boot_id));
  process.host = Text(header.host, sizeof(header.host));
  process.job = Text(header.job, sizeof(header.job));
  process.step = Text(header.step, sizeof(header.step));
  process.pid = header.pid;
  process.start_ticks = header.start_ticks;
  process.pid_namespace_inode = header.pid_namespace_inode;
  process.restart_count = header.restart_count;
  process.rank = header.rank;
  process.world_size = header.world_size;
  process.local_rank = header.local_rank;
  process.gpu_index = header.gpu_index;
  process.gpu_uuid = Text(header.gpu_uuid, sizeof(header.gpu_uuid));
  process.gpu_pci = Text(header.gpu_pci, sizeof(header.gpu_pci));
  process.nccl_version = header.nccl_version;
  process.newest_nccl = header.newest_nccl;
  process.unwrapped = header.unwrapped;
  process.unwrapped_names = Text(header.unwrapped_names, sizeof(header.unwrapped_names));
  process.cuda_version = header.cuda_version;
  process.state = CleanState(header.state);
  process.stop_reason = Text(header.stop_reason, sizeof(header.stop_reason));
  process.stopped_ns = reading->clock.ToNs(header.stopped_ticks);
  process.note = Text(header.note, sizeof(header.note));
  process.own_call_ns = header.own_call_ns;
  process.own_permille = header.own_permille;
  process.gpu_marks = header.gpu_marks <= 4 ? static_cast<GpuMarks>(header.gpu_marks) : GpuMarks::kOff;
  process.host_waits = header.host_waits == 1;
  process.recorder_version = Text(header.recorder_version, sizeof(header.recorder_version));
  process.ring_bytes = reading->file.size();
  process.wanted_bytes = std::min<uint64_t>(header.wanted_bytes, kMaxFileBytes);
  process.place = header.place == static_cast<uint32_t>(RingPlace::kMemory) ? RingPlace::kMemory : RingPlace::kFolder;
  process.created_mono_ns = reading->clock.ToNs(header.created_ticks);
  process.created_real_ns = process.created_mono_ns == 0 ? 0 : process.created_mono_ns + reading->clock.RealOffset();
}

}  // namespace
}  // namespace internal

bool LooksLikeRing(const void* data, uint64_t size) {
  return size >= sizeof(kMagic) && std::memcmp(data, kMagic, sizeof(kMagic)) == 0;
}

bool ReadRing(int fd, const ReadOptions& options, Snapshot* out, std::string* error) {
  *out = Snapshot();
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    *error = std::string("cannot examine the file: ") + std::strerror(errno);
    return false;
  }
  if (!S_ISREG(info.st_mode)) {
    *error = "not a regular file";
    return false;
  }
  uint64_t size = info.st_size > 0 ? static_cast<uint64_t>(info.st_size) : 0;
  const uint64_t whole = size;
  if (size > kMaxFileBytes) size = kMaxFileBytes;
  const internal::File file(fd, size);
  internal::Reading reading{file, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, out};
  if (!file.Read(0, &reading.header, sizeof(Header))) {
    *error = "too short for a ring file: " + std::to_string(size) + " bytes, but the header alone has " +
             std::to_string(sizeof(Header));
    return false;
  }
  const Header& header = reading.header;
  if (!LooksLikeRing(header.magic, sizeof(header.magic))) {
    *error = "not a ring file: the magic at offset 0 is missing (or the file is still being created)";
    return false;
  }
  if (header.endian_mark != kEndianMark) {
    *error = "written on a machine with the other byte order (mark at offset 28)";
    return false;
  }
  if (header.min_reader_version > kLayoutVersion) {
    *error = "layout " + std::to_string(header.layout_version) + " needs a reader of version " +
             std::to_string(header.min_reader_version) + " (offset 20); this reader has version " +
             std::to_string(kLayoutVersion);
    return false;
  }
  if (whole > kMaxFileBytes) reading.Problem("only the first 64 MiB of " + std::to_string(whole) + " bytes are read");
  if (header.file_bytes > whole) {
    reading.Problem("truncated: " + std::to_string(header.file_bytes) +
                    " bytes announced at offset 32, but the file has " + std::to_string(whole));
  }
  const std::string own_boot = internal::OwnBootId();
  const bool same_boot = !own_boot.empty() && own_boot == internal::Text(header.boot_id, sizeof(header.boot_id));
  reading.clock.Calibrate(header, same_boot);
  internal::FillProcess(&reading);
  internal::FindSections(&reading);
  out->records_lost = header.dropped_records;
  internal::ReadStreams(&reading);
  internal::ReadComms(&reading);
  std::vector<ThreadCell> cells;
  internal::ReadThreads(&reading, &cells);
  const bool whole_file = !options.digest_only;
  if (whole_file || options.in_flight) {
    internal::ReadGraphs(&reading);
    const bool launches = std::any_of(out->graphs.begin(), out->graphs.end(),
                                      [](const GraphSnapshot& graph) { return graph.launches > 0; });
    // For graph launches, and for operations that only the profiler follows, the recent operations do not show the
    // oldest operation in flight.
    const bool unmarked = out->process.gpu_marks == GpuMarks::kProfiler;
    if (whole_file || launches || unmarked) internal::ReadOps(&reading, cells, whole_file);
    if (whole_file) internal::ReadTimes(&reading);
    internal::ReadProfiler(&reading);
  }
  if (!whole_file) {
    // Only a read of the whole rings shows lost records.
    for (CommSnapshot& comm : out->comms) comm.lost_records = 0;
    for (ThreadSnapshot& thread : out->threads) thread.overwritten = 0;
  }
  if (same_boot) out->read_mono_ns = internal::ReadClock(CLOCK_MONOTONIC);
  return true;
}

bool ReadRingFile(const std::string& path, const ReadOptions& options, Snapshot* out, std::string* error) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    *error = path + ": cannot open: " + std::strerror(errno);
    return false;
  }
  const bool read = ReadRing(fd, options, out, error);
  close(fd);
  if (!read) *error = path + ": " + *error;
  return read;
}

}  // namespace lockstep::ring
