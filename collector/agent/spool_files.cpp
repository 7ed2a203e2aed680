#include "collector/agent/spool_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/formats/lsd/format.h"
#include "collector/wire/frame.h"
#include "recorder/ring/layout.h"

namespace lockstep {
namespace {

constexpr std::string_view kMagic = "LSCHUNK1";

// Of a copy of a ring; what its header says is checked. The place is that of every layout so far.
void ForgetThreadNames(int fd, uint64_t bytes) {
  ring::Header header;
  if (pread(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) return;
  for (const ring::Section& section : header.sections) {
    if (section.kind != ring::SectionKind::kThreads || section.stride < sizeof(ring::ThreadCell)) continue;
    for (uint64_t i = 0; i < std::min<uint64_t>(section.count, 4096); ++i) {
      const uint64_t at = section.offset + i * section.stride + offsetof(ring::ThreadCell, name);
      constexpr char kNone[sizeof ring::ThreadCell::name] = {};
      if (at > bytes || bytes - at < sizeof kNone) return;
      if (pwrite(fd, kNone, sizeof kNone, static_cast<off_t>(at)) < 0) return;
    }
  }
}

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SpoolError("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// Little endian, as everything that is written here stays on this machine.
std::string HeaderOf(std::string_view body) {
  std::string header(kMagic);
  for (const uint32_t word : {static_cast<uint32_t>(body.size()), Crc32c(body)}) {
    for (int shift = 0; shift < 32; shift += 8) header.push_back(static_cast<char>(word >> shift & 0xff));
  }
  return header;
}

uint32_t WordAt(const std::string& bytes, size_t at) {
  uint32_t word = 0;
  for (int i = 3; i >= 0; --i) word = word << 8 | static_cast<uint8_t>(bytes[at + static_cast<size_t>(i)]);
  return word;
}

}  // namespace

absl::Status SpoolError(const std::string& what, const std::string& path, int error) {
  const std::string text = absl::StrCat("cannot ", what, " ", path, ": ", strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

void SyncFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);  // where a file system cannot, nothing is to be done
  close(fd);
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  if (DIR* dir = opendir(folder.c_str())) {
    while (const dirent* entry = readdir(dir)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    closedir(dir);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void RemoveFolder(const std::string& folder) {
  for (const std::string& name : NamesIn(folder)) unlink(absl::StrCat(folder, "/", name).c_str());
  rmdir(folder.c_str());
}

absl::StatusOr<Chunk> ReadChunkFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return SpoolError("read", path, errno);
  struct stat info {};
  std::string bytes;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
      info.st_size <= static_cast<off_t>(wire::kMostWireBytes + kChunkHeaderBytes)) {
    bytes.resize(static_cast<size_t>(info.st_size));
    size_t at = 0;
    for (ssize_t got = 0; at < bytes.size() && (got = read(fd, bytes.data() + at, bytes.size() - at)) > 0;)
      at += static_cast<size_t>(got);
    bytes.resize(at);
  }
  close(fd);
  Chunk chunk;
  if (bytes.size() < kChunkHeaderBytes || std::string_view(bytes).substr(0, kMagic.size()) != kMagic ||
      WordAt(bytes, 8) != bytes.size() - kChunkHeaderBytes ||
      WordAt(bytes, 12) != Crc32c(std::string_view(bytes).substr(kChunkHeaderBytes)) ||
      !chunk.ParseFromArray(bytes.data() + kChunkHeaderBytes, static_cast<int>(bytes.size() - kChunkHeaderBytes)) ||
      chunk.id().size() != kChunkIdBytes) {
    return absl::DataLossError(absl::StrCat(path, " is damaged"));
  }
  return chunk;
}

bool IsPlainName(const std::string& name) {
  return !name.empty() && name.size() <= 160 && name[0] != '.' && name.find('/') == std::string::npos &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 127; });
}

std::string ChunkFileBytes(const Chunk& chunk) {
  const std::string body = chunk.SerializeAsString();
  return HeaderOf(body) + body;
}

absl::Status WriteFileSynced(const std::string& path, std::string_view bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return SpoolError("write", path, errno);
  absl::Status written = WriteAll(fd, bytes, path);
  if (written.ok() && fdatasync(fd) != 0) written = SpoolError("write", path, errno);
  if (close(fd) != 0 && written.ok()) written = SpoolError("write", path, errno);
  return written;
}

absl::Status CopyRingFile(int from, uint64_t bytes, const std::string& temporary, const std::string& path) {
  const int fd = open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return SpoolError("write", temporary, errno);
  absl::Status status;
  std::string block(1 << 18, '\0');
  static const std::string kZeros(1 << 18, '\0');
  for (uint64_t at = 0; at < bytes && status.ok();) {
    const ssize_t got = pread(from, block.data(), std::min<uint64_t>(block.size(), bytes - at), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;  // it became shorter
    const std::string_view part(block.data(), static_cast<size_t>(got));
    // Most of a ring that was hardly used is zeros: holes.
    if (part != std::string_view(kZeros).substr(0, part.size())) {
      if (lseek(fd, static_cast<off_t>(at), SEEK_SET) < 0) status = SpoolError("write", temporary, errno);
      if (status.ok()) status = WriteAll(fd, part, temporary);
    }
    at += static_cast<uint64_t>(got);
  }
  if (status.ok() && ftruncate(fd, static_cast<off_t>(bytes)) != 0) status = SpoolError("write", temporary, errno);
  if (status.ok() && HostRedaction().level() == RedactLevel::kStacks) ForgetThreadNames(fd, bytes);
  if (status.ok() && fdatasync(fd) != 0) status = SpoolError("write", temporary, errno);
  if (close(fd) != 0 && status.ok()) status = SpoolError("write", temporary, errno);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = SpoolError("rename to", path, errno);
  return status;
}

absl::Status CompressChunk(const std::string& raw, std::string* out) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  if (context == nullptr) return absl::ResourceExhaustedError("no memory for the compressor");
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
  out->resize(ZSTD_compressBound(raw.size()));
  const size_t size = ZSTD_compress2(context, out->data(), out->size(), raw.data(), raw.size());
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(size) != 0) return absl::InternalError(ZSTD_getErrorName(size));
  out->resize(size);
  return absl::OkStatus();
}

}  // namespace lockstep
