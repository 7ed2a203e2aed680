#include "collector/agent/spool_files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/small_file.h"
#include "collector/wire/frame.h"
#include "recorder/ring/layout.h"

namespace lockstep {
namespace {

constexpr std::string_view kMagic = "LSCHUNK1";

// Clears the thread names in the copy of a ring whose header was checked. All layouts so far have them at this offset.
absl::Status ForgetThreadNames(int from, uint64_t bytes, AtomicFile* copy) {
  ring::Header header;
  if (pread(from, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) return absl::OkStatus();
  for (const ring::Section& section : header.sections) {
    if (section.kind != ring::SectionKind::kThreads || section.stride < sizeof(ring::ThreadCell)) continue;
    for (uint64_t i = 0; i < std::min<uint64_t>(section.count, 4096); ++i) {
      const uint64_t at = section.offset + i * section.stride + offsetof(ring::ThreadCell, name);
      constexpr char kNone[sizeof ring::ThreadCell::name] = {};
      if (at > bytes || bytes - at < sizeof kNone) break;
      if (absl::Status status = copy->WriteAt(at, kNone, sizeof kNone); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// Returns the magic number, then the length and the CRC-32C of the body, both little-endian.
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

void RemoveFolder(const std::string& folder) {
  for (const std::string& name : NamesIn(folder)) unlink(absl::StrCat(folder, "/", name).c_str());
  rmdir(folder.c_str());
}

absl::StatusOr<Chunk> ReadChunkFile(const std::string& path) {
  const absl::StatusOr<std::string> file =
      ReadWholeFile(path, wire::kMostWireBytes + kChunkHeaderBytes, Links::kRefuse);
  if (!file.ok() && !absl::IsInvalidArgument(file.status())) return file.status();
  const std::string& bytes = file.value_or("");
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
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.ok()) return FileError("write", path, errno);
  if (absl::Status written = WriteAll(fd.get(), bytes, path); !written.ok()) return written;
  return fdatasync(fd.get()) == 0 && close(fd.release()) == 0 ? absl::OkStatus() : FileError("write", path, errno);
}

absl::Status CopyRingFile(int from, uint64_t bytes, const std::string& path) {
  AtomicFile file(path);
  absl::Status status = file.Open();
  std::string block(1 << 18, '\0');
  static const std::string kZeros(1 << 18, '\0');
  for (uint64_t at = 0; at < bytes && status.ok();) {
    const ssize_t got = pread(from, block.data(), std::min<uint64_t>(block.size(), bytes - at), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;  // the file became shorter while it was read
    const auto size = static_cast<size_t>(got);
    // A ring with few records is mostly zeros, which are written as holes.
    if (block.compare(0, size, kZeros, 0, size) != 0) status = file.WriteAt(at, block.data(), size);
    at += static_cast<uint64_t>(got);
  }
  if (status.ok()) status = file.SetSize(bytes);
  if (status.ok() && HostRedaction().level() == RedactLevel::kStacks) status = ForgetThreadNames(from, bytes, &file);
  return status.ok() ? file.Commit() : status;
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
