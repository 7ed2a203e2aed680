#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "recorder/ring/layout.h"
#include "recorder/ring/marks.h"
#include "recorder/ring/reader.h"

namespace lockstep::ring {
namespace {

constexpr uint64_t kMostLines = 4096, kLargestStride = 4096;

}  // namespace

bool FindMarks(int fd, MarksPlace* out) {
  Header header;
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
      pread(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
    return false;
  if (!LooksLikeRing(header.magic, sizeof header.magic) || header.endian_mark != kEndianMark ||
      header.min_reader_version > kLayoutVersion)
    return false;
  const uint64_t size = std::min<uint64_t>(static_cast<uint64_t>(info.st_size), kMaxFileBytes);
  for (uint32_t i = 0; i < std::min(header.section_count, kMaxSections); ++i) {
    const Section& section = header.sections[i];
    if (section.kind != SectionKind::kMarks) continue;
    if (section.offset < kPage || section.offset > size || section.stride < sizeof(MarkLine) ||
        section.stride > kLargestStride || section.stride % 8 != 0) {
      return false;
    }
    out->offset = section.offset;
    out->stride = section.stride;
    out->lines = static_cast<uint32_t>(std::min({section.count, kMostLines, (size - section.offset) / section.stride}));
    return out->lines > 0;
  }
  return false;
}

bool ReadMarks(int fd, const MarksPlace& place, size_t lines, std::vector<Mark>* out) {
  lines = std::min<size_t>(lines, place.lines);
  out->resize(lines);
  unsigned char bytes[16384];
  const size_t at_once = sizeof bytes / place.stride;
  for (size_t first = 0; first < lines; first += at_once) {
    const size_t now = std::min(at_once, lines - first);
    const size_t wanted = (now - 1) * place.stride + sizeof(Mark);
    ssize_t got = 0;
    do {
      got = pread(fd, bytes, wanted, static_cast<off_t>(place.offset + first * place.stride));
    } while (got < 0 && errno == EINTR);
    if (got != static_cast<ssize_t>(wanted)) return false;
    for (size_t i = 0; i < now; ++i) std::memcpy(&(*out)[first + i], bytes + i * place.stride, sizeof(Mark));
  }
  return true;
}

}  // namespace lockstep::ring
