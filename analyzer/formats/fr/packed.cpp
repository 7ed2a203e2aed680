#include "analyzer/formats/fr/packed.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::fr {
namespace {

constexpr size_t kTarBlock = 512;
constexpr size_t kMostFiles = 1u << 20;
constexpr size_t kMostRatio = 1032;  // the highest compression ratio that deflate reaches

// Returns the little-endian number at `at`. Bytes past the end count as 0.
uint32_t Number(std::string_view bytes, size_t at, int size) {
  uint32_t value = 0;
  for (int i = 0; i < size && at + static_cast<size_t>(i) < bytes.size(); i++)
    value |= uint32_t{static_cast<uint8_t>(bytes[at + static_cast<size_t>(i)])} << (8 * i);
  return value;
}

absl::Status TooLarge(size_t most) {
  return absl::ResourceExhaustedError(
      absl::StrCat("unpacks to more than ", most >> 20, " MiB, too large for a Flight Recorder dump"));
}

// Unpacks like Gunzip. `window` is passed to inflateInit2. There may be several streams in a row, as after `cat a.gz
// b.gz`.
absl::Status Inflate(std::string_view bytes, int window, size_t most, std::string* out) {
  // Unpacks in pieces, because a growing string would use up to three times its size.
  constexpr size_t kPiece = 1u << 16;
  const size_t whole = std::min(most, bytes.size() * kMostRatio) + kPiece;
  out->clear();
  out->reserve(whole);
  z_stream stream = {};
  if (inflateInit2(&stream, window) != Z_OK) return absl::ResourceExhaustedError("no memory to unpack it");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  int result = Z_OK;
  while (result == Z_OK && out->size() <= most) {
    const size_t filled = out->size(), room = std::min(std::max(kPiece, filled), whole - filled);
    out->resize(filled + room);
    stream.next_out = reinterpret_cast<Bytef*>(out->data() + filled);
    stream.avail_out = static_cast<uInt>(room);
    result = inflate(&stream, Z_NO_FLUSH);
    out->resize(filled + room - stream.avail_out);
    if (result == Z_STREAM_END && stream.avail_in > 0 &&
        IsGzip({reinterpret_cast<char*>(stream.next_in), stream.avail_in}))
      result = inflateReset(&stream);
  }
  inflateEnd(&stream);
  if (out->size() > most) return TooLarge(most);
  if (result == Z_BUF_ERROR) return absl::DataLossError("the packed data ends early");
  if (result != Z_STREAM_END) return absl::DataLossError("the packed data is damaged");
  return absl::OkStatus();
}

}  // namespace

bool IsGzip(std::string_view head) { return head.starts_with("\x1f\x8b\x08"); }

bool IsZip(std::string_view head) { return head.starts_with("PK\x03\x04"); }

bool IsTar(std::string_view head) { return head.size() >= kTarBlock && head.substr(257, 5) == "ustar"; }

absl::Status Gunzip(std::string_view bytes, size_t most, std::string* out, int64_t* written_ns) {
  if (const uint32_t seconds = Number(bytes, 4, 4); seconds != 0) *written_ns = int64_t{seconds} * 1'000'000'000;
  return Inflate(bytes, 16 + MAX_WBITS, most, out);
}

// See PKWARE's APPNOTE 6.3.10, sections 4.3.7 (local header), 4.3.12 (table), 4.3.16 (end of the table).
absl::StatusOr<std::vector<Packed>> FilesInZip(std::string_view bytes) {
  constexpr size_t kEndSize = 22, kEntrySize = 46, kLocalSize = 30;
  constexpr std::string_view kEnd("PK\x05\x06"), kEntry("PK\x01\x02"), kLocal("PK\x03\x04");
  const size_t end = bytes.rfind(kEnd);
  if (end == std::string_view::npos || bytes.size() - end < kEndSize)
    return absl::DataLossError("a zip archive without its directory: truncated, or still being written");
  const size_t count = Number(bytes, end + 10, 2);
  size_t at = Number(bytes, end + 16, 4);
  if (count == 0xffff || at == 0xffffffff)
    return absl::UnimplementedError("a 64-bit zip archive, which Lockstep cannot read; unpack it");
  std::vector<Packed> files;
  size_t packed = 0;
  for (size_t i = 0; i < count && files.size() < kMostFiles; i++) {
    if (at > end || end - at < kEntrySize || bytes.substr(at, 4) != kEntry)
      return absl::DataLossError(absl::StrCat("the zip archive's directory is damaged at byte ", at));
    const size_t method = Number(bytes, at + 10, 2), size = Number(bytes, at + 20, 4), name = Number(bytes, at + 28, 2),
                 rest = size_t{Number(bytes, at + 30, 2)} + Number(bytes, at + 32, 2),
                 local = Number(bytes, at + 42, 4);
    Packed file{.name = std::string(bytes.substr(at + kEntrySize, name)), .data = {}, .deflated = method == Z_DEFLATED};
    at += kEntrySize + name + rest;
    if (file.name.empty() || file.name.back() == '/') continue;
    const size_t data = local + kLocalSize + Number(bytes, local + 26, 2) + Number(bytes, local + 28, 2);
    if ((method != 0 && !file.deflated) || local > end || bytes.substr(local, 4) != kLocal || data > end ||
        end - data < size)
      return absl::DataLossError(absl::StrCat(
          "file ", i + 1, " of the zip archive is damaged or uses an unsupported compression; unpack the archive"));
    packed += size;
    if (packed > bytes.size())
      return absl::DataLossError("the files of this zip archive overlap, so it is damaged or hostile");
    file.data = bytes.substr(data, size);
    files.push_back(std::move(file));
  }
  return files;
}

// See POSIX, pax, "ustar Interchange Format". GNU tar stores a name of more than 100 bytes as a file of type L before
// the named file.
absl::Status FilesInTar(std::string_view bytes, std::vector<Packed>* files) {
  std::string long_name;
  const auto text = [](std::string_view field) { return std::string(field.substr(0, field.find('\0'))); };
  const auto octal = [](std::string_view field) {
    uint64_t value = 0;
    for (const char c : field) {
      if (c >= '0' && c <= '7') value = value << 3 | static_cast<uint64_t>(c - '0');
    }
    return value;
  };
  while (IsTar(bytes) && files->size() < kMostFiles) {
    const std::string_view header = bytes.substr(0, kTarBlock);
    bytes.remove_prefix(kTarBlock);
    const uint64_t size = octal(header.substr(124, 11));
    const char type = header[156];
    const std::string prefix = text(header.substr(345, 155));
    std::string name = text(header.substr(0, 100));
    if (header.substr(257, 6) == std::string_view("ustar\0", 6) && !prefix.empty()) name = prefix + "/" + name;
    if (!long_name.empty()) name = std::exchange(long_name, "");
    const std::string_view data = bytes.substr(0, size);
    if (type == 'L') long_name = text(data);
    if (type == '0' || type == '\0')
      files->push_back({.name = std::move(name),
                        .data = data,
                        .written_ns = static_cast<int64_t>(octal(header.substr(136, 11))) * 1'000'000'000});
    bytes.remove_prefix(std::min<size_t>(bytes.size(), (size + kTarBlock - 1) / kTarBlock * kTarBlock));
  }
  const bool ended = bytes.size() >= kTarBlock && bytes.substr(0, kTarBlock).find_first_not_of('\0') == bytes.npos;
  return ended ? absl::OkStatus() : absl::DataLossError("the tar archive is damaged, or ends early");
}

absl::Status Unzip(const Packed& file, size_t most, std::string* out) {
  if (file.deflated) return Inflate(file.data, -MAX_WBITS, most, out);
  out->assign(file.data.substr(0, most));
  return file.data.size() > most ? TooLarge(most) : absl::OkStatus();
}

}  // namespace lockstep::fr
