#include "collector/evidence/stacks/process_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "analyzer/util/time_units.h"
#include "recorder/ring/reader.h"

namespace lockstep {
namespace {

using ring::HelperArea;
using ring::HelperQuestion;

constexpr int64_t kAnswerLimit = 500 * kMs;
constexpr size_t kMostMaps = 32 << 20;

template <typename T>
bool ReadAt(int fd, uint64_t at, T* out) {
  return pread(fd, out, sizeof(T), static_cast<off_t>(at)) == static_cast<ssize_t>(sizeof(T));
}

}  // namespace

std::unique_ptr<ProcessHelper> ProcessHelper::Open(int ring, int64_t limit_ns, std::string* why) {
  why->clear();
  ring::Header header;
  struct stat info {};
  if (ring < 0 || fstat(ring, &info) != 0 || !S_ISREG(info.st_mode) || !ReadAt(ring, 0, &header)) return nullptr;
  if (!ring::LooksLikeRing(header.magic, sizeof header.magic) || header.endian_mark != ring::kEndianMark)
    return nullptr;
  uint64_t place = 0;
  for (uint32_t i = 0; i < std::min(header.section_count, ring::kMaxSections); ++i) {
    const ring::Section& section = header.sections[i];
    if (section.kind != ring::SectionKind::kHelper || section.stride < sizeof(HelperArea) ||
        section.offset % ring::kPage != 0)
      continue;
    if (section.offset >= ring::kPage && section.offset <= ring::kMaxFileBytes &&
        section.offset + sizeof(HelperArea) <= static_cast<uint64_t>(info.st_size)) {
      place = section.offset;
    }
  }
  uint32_t state = 0;
  if (place == 0 || !ReadAt(ring, place + offsetof(HelperArea, state), &state)) return nullptr;
  if (state != 1) {
    *why = "its recorder's helper is not running";
    return nullptr;
  }
  std::unique_ptr<ProcessHelper> helper(new ProcessHelper);
  helper->place_ = place;
  helper->fd_.reset(open(absl::StrCat("/proc/self/fd/", ring).c_str(), O_RDWR | O_CLOEXEC));
  if (!helper->fd_.ok()) {
    *why = absl::StrCat("its recorder's helper cannot be used: the ring file cannot be written: ", strerror(errno));
    return nullptr;
  }
  void* map = mmap(nullptr, ring::kPage, PROT_READ, MAP_SHARED, helper->fd_.get(), static_cast<off_t>(place));
  if (map == MAP_FAILED) {
    *why = absl::StrCat("its recorder's helper cannot be used: ", strerror(errno));
    return nullptr;
  }
  helper->map_ = map;
  // The helper answers one question at a time.
  for (const int64_t end = MonotonicNs() + limit_ns; flock(helper->fd_.get(), LOCK_EX | LOCK_NB) != 0;) {
    if (MonotonicNs() > end) {
      *why = "another program is using its recorder's helper";
      return nullptr;
    }
    const timespec pause{0, 5 * kMs};
    nanosleep(&pause, nullptr);
  }
  return helper;
}

ProcessHelper::~ProcessHelper() {
  if (map_ != nullptr) munmap(map_, ring::kPage);
}

int64_t ProcessHelper::Ask(HelperQuestion question, uint64_t address, uint64_t length, pid_t thread, void* out) const {
  if (dead_) return -ETIMEDOUT;
  uint32_t asked = 0, answered = 0;
  if (!ReadAt(fd_.get(), place_ + offsetof(HelperArea, asked), &asked)) return -EIO;
  HelperArea line{};
  line.question = static_cast<uint32_t>(question);
  line.address = address;
  line.length = length;
  line.thread = thread;
  constexpr size_t kFrom = offsetof(HelperArea, question);
  constexpr size_t kBytes = offsetof(HelperArea, answered) - kFrom;
  const auto* bytes = reinterpret_cast<const char*>(&line) + kFrom;
  const uint32_t now = asked + 1;
  if (pwrite(fd_.get(), bytes, kBytes, static_cast<off_t>(place_ + kFrom)) != static_cast<ssize_t>(kBytes) ||
      pwrite(fd_.get(), &now, sizeof now, static_cast<off_t>(place_)) != static_cast<ssize_t>(sizeof now)) {
    return -EIO;
  }
  auto* asked_at = static_cast<char*>(map_) + offsetof(HelperArea, asked);
  auto* answered_at = static_cast<char*>(map_) + offsetof(HelperArea, answered);
  syscall(SYS_futex, asked_at, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  for (const int64_t end = MonotonicNs() + kAnswerLimit;;) {
    if (!ReadAt(fd_.get(), place_ + offsetof(HelperArea, answered), &answered)) return -EIO;
    if (answered == now) break;
    const int64_t left = end - MonotonicNs();
    if (left <= 0) {
      dead_ = true;
      return -ETIMEDOUT;
    }
    // Waits in short steps, because no thread of a stopped process can wake this one.
    const timespec step{0, std::min<long>(left, 20 * kMs)};
    syscall(SYS_futex, answered_at, FUTEX_WAIT, answered, &step, nullptr, 0);
  }
  int64_t result = 0;
  if (!ReadAt(fd_.get(), place_ + offsetof(HelperArea, result), &result)) return -EIO;
  if (result <= 0) return result;
  result = std::min<int64_t>(result, static_cast<int64_t>(length));
  const ssize_t got =
      pread(fd_.get(), out, static_cast<size_t>(result), static_cast<off_t>(place_ + offsetof(HelperArea, data)));
  return got == result ? result : -EIO;
}

ssize_t ProcessHelper::Memory(uint64_t address, void* out, size_t size) const {
  size_t done = 0;
  while (done < size) {
    const size_t step = std::min<size_t>(size - done, ring::kHelperData);
    const int64_t got = Ask(HelperQuestion::kMemory, address + done, step, 0, static_cast<char*>(out) + done);
    if (got <= 0 && done == 0) errno = got == 0 ? EFAULT : static_cast<int>(-got);
    if (got <= 0) return done > 0 ? static_cast<ssize_t>(done) : -1;
    done += static_cast<size_t>(got);
    if (static_cast<size_t>(got) < step) break;
  }
  return static_cast<ssize_t>(done);
}

std::string ProcessHelper::Maps() const {
  std::string text, part(ring::kHelperData, '\0');
  while (text.size() < kMostMaps) {
    const int64_t got = Ask(HelperQuestion::kMaps, text.size(), part.size(), 0, part.data());
    if (got <= 0) break;
    text.append(part, 0, static_cast<size_t>(got));
    if (static_cast<size_t>(got) < part.size()) break;
  }
  return text;
}

std::string ProcessHelper::Wchan(pid_t thread) const {
  char text[256];
  const int64_t got = Ask(HelperQuestion::kWchan, 0, sizeof text, thread, text);
  return got > 0 ? std::string(text, static_cast<size_t>(got)) : std::string();
}

std::string ProcessHelper::Syscall(pid_t thread) const {
  char text[512];
  const int64_t got = Ask(HelperQuestion::kSyscall, 0, sizeof text, thread, text);
  return got > 0 ? std::string(text, static_cast<size_t>(got)) : std::string();
}

}  // namespace lockstep
