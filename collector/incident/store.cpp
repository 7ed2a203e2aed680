#include "collector/incident/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/small_file.h"
#include "collector/wire/frame.h"

namespace lockstep {
namespace {

constexpr size_t kIdBytes = 16;
constexpr size_t kMostLedger = size_t{1} << 40;
constexpr size_t kMostNameBytes = 160;
constexpr size_t kMostFiles = 1 << 18;
constexpr int kMostVersions = 8;
// For this many files or more in one commit, one sync of the file system costs less than one sync per file.
constexpr size_t kSyncAllFrom = 8;

std::string WithCrc(std::string line) {
  absl::StrAppend(&line, " ", absl::Hex(Crc32c(line), absl::kZeroPad8), "\n");
  return line;
}

// Returns whether a chunk's `file` is a plain name that is allowed in an incident folder: "HOST.lsd",
// "HOST.evidence.lsd".
bool IsStoredFileName(const std::string& name) {
  if (name.size() < 5 || name.size() > kMostNameBytes || name[0] == '.' || !absl::EndsWith(name, ".lsd")) return false;
  if (name == "digests.lsd") return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

}  // namespace

bool IncidentStore::Part::Complete() const {
  if (!ended) return false;
  if (size == 0) return true;
  return have.size() == 1 && have.begin()->first == 0 && have.begin()->second == size;
}

absl::StatusOr<std::unique_ptr<IncidentStore>> IncidentStore::Open(const std::string& folder,
                                                                   const StoreLimits& limits) {
  std::unique_ptr<IncidentStore> store(new IncidentStore(folder, limits));
  const std::string path = folder + "/.ledger";
  store->ledger_.reset(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!store->ledger_.ok()) return FileError("open", path, errno);
  if (absl::Status status = store->ReadLedger(); !status.ok()) return status;
  if (absl::Status status = SyncFolder(folder); !status.ok()) return status;
  for (Part& part : store->parts_) {
    if (part.Complete() && !part.whole) {
      struct stat info {};
      const std::string named = absl::StrCat(folder, "/", part.name);
      if (lstat(store->PartPath(part).c_str(), &info) != 0 && errno == ENOENT && lstat(named.c_str(), &info) != 0 &&
          errno == ENOENT) {
        // The file was complete, and the host's full file replaced it before the earlier process was killed.
        part.whole = true;
        continue;
      }
      if (absl::Status status = store->Finish(&part); !status.ok()) return status;
    }
  }
  return store;
}

IncidentStore::~IncidentStore() { CloseParts(); }

std::string IncidentStore::PartPath(const Part& part) const {
  return absl::StrCat(folder_, "/.", part.name, ".", part.request, ".", part.index, ".part");
}

namespace {

void AddRange(std::map<uint64_t, uint64_t>* have, uint64_t begin, uint64_t end) {
  if (begin == end) return;
  auto next = have->lower_bound(begin);
  if (next != have->begin()) {
    auto before = std::prev(next);
    if (before->second >= begin) {
      begin = before->first;
      end = std::max(end, before->second);
      have->erase(before);
    }
  }
  while (next != have->end() && next->first <= end) {
    end = std::max(end, next->second);
    next = have->erase(next);
  }
  (*have)[begin] = end;
}

bool Overlaps(const std::map<uint64_t, uint64_t>& have, uint64_t begin, uint64_t end) {
  if (begin == end) return false;
  auto next = have.lower_bound(begin);
  if (next != have.end() && next->first < end) return true;
  return next != have.begin() && std::prev(next)->second > begin;
}

}  // namespace

// A line "f INDEX REQUEST NAME SENT_NAME HOST(base64) CRC" describes a file. A line "c INDEX OFFSET BYTES LAST ID(hex)
// CRC" describes a chunk of it that is on disk. A damaged line is ignored, and so are the chunks of a file whose line
// is damaged.
absl::Status IncidentStore::ReadLedger() {
  const absl::StatusOr<std::string> read = ReadWholeFile(ledger_.get(), folder_ + "/.ledger", kMostLedger);
  if (!read.ok()) return read.status();
  const std::string& text = *read;
  absl::flat_hash_map<uint32_t, size_t> by_index;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const size_t space = line.rfind(' ');
    if (space == std::string::npos || WithCrc(line.substr(0, space)) != line + "\n") continue;
    ledger_bytes_ = end + 1;
    const std::vector<std::string> words = absl::StrSplit(line.substr(0, space), ' ');
    uint32_t index = 0;
    if (words.size() != 6 || !absl::SimpleAtoi(words[1], &index)) continue;
    next_index_ = std::max(next_index_, index + 1);
    if (words[0] == "f") {
      Part part;
      part.index = index;
      if (!absl::SimpleAtoi(words[2], &part.request) || !absl::Base64Unescape(words[5], &part.host)) continue;
      part.name = words[3];
      part.sent_name = words[4];
      part.in_ledger = true;
      by_index[index] = parts_.size();
      part_of_[absl::StrCat(part.request, " ", words[4], " ", part.host)] = parts_.size();
      owner_of_[part.name] = part.host;
      parts_.push_back(std::move(part));
    } else if (words[0] == "c") {
      uint64_t offset = 0, bytes = 0;
      const auto part = by_index.find(index);
      if (part == by_index.end() || !absl::SimpleAtoi(words[2], &offset) || !absl::SimpleAtoi(words[3], &bytes))
        continue;
      Part& of = parts_[part->second];
      AddRange(&of.have, offset, offset + bytes);
      if (words[4] == "1") {
        of.ended = true;
        of.size = offset + bytes;
      }
      ids_.insert(absl::HexStringToBytes(words[5]));
      bytes_ += bytes;
      host_bytes_[of.host] += bytes;
    }
  }
  // Cuts off lines that were being written when the process or the machine stopped. A chunk is acknowledged only after
  // its line is on disk.
  if (ledger_bytes_ < text.size() && ftruncate(ledger_.get(), static_cast<off_t>(ledger_bytes_)) != 0) {
    return FileError("truncate", folder_ + "/.ledger", errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> IncidentStore::PartFor(const Chunk& chunk, std::string* why) {
  const std::string key = absl::StrCat(chunk.request(), " ", chunk.file(), " ", chunk.host());
  int versions = 0;
  if (const auto found = part_of_.find(key); found != part_of_.end()) {
    Part& part = parts_[found->second];
    if (Fits(part, chunk)) return found->second;
    if (part.whole) {
      *why = "the file is already complete";
      return absl::AlreadyExistsError(*why);
    }
    versions = part.version;
  }
  if (versions >= kMostVersions || parts_.size() >= kMostFiles) {
    *why = versions >= kMostVersions ? "different bytes are already stored at this offset"
                                     : "the incident has too many files";
    return absl::ResourceExhaustedError(*why);
  }
  Part part;
  part.version = versions + 1;
  part.request = chunk.request();
  part.host = chunk.host();
  part.index = next_index_++;
  part.name = part.sent_name = chunk.file();
  // If two hosts use the same file name, each keeps its own file.
  for (int extra = 2; owner_of_.count(part.name) != 0 && owner_of_[part.name] != part.host; ++extra) {
    part.name = absl::StrCat(extra, "-", chunk.file());
  }
  owner_of_[part.name] = part.host;
  parts_.push_back(std::move(part));
  part_of_[key] = parts_.size() - 1;
  return parts_.size() - 1;
}

bool IncidentStore::Fits(const Part& part, const Chunk& chunk) {
  const uint64_t end = chunk.offset() + chunk.raw_bytes();
  if (part.whole || Overlaps(part.have, chunk.offset(), end)) return false;
  if (part.ended && (chunk.last() || end > part.size)) return false;
  return !chunk.last() || part.have.empty() || part.have.rbegin()->second <= end;
}

IncidentStore::Put IncidentStore::Take(const Chunk& chunk, std::string* why) {
  const auto refuse = [why](std::string text) {
    *why = std::move(text);
    return Put::kRefused;
  };
  if (chunk.id().size() != kIdBytes) return refuse("a chunk's id must have 16 bytes");
  if (ids_.contains(chunk.id())) return Put::kDuplicate;
  if (pending_ids_.contains(chunk.id())) {
    why->clear();
    return Put::kLater;
  }
  if (!IsStoredFileName(chunk.file())) return refuse("this is not a valid file name in an incident");
  if (chunk.host().empty() || chunk.host().size() > 256)
    return refuse("the host name in a chunk must have 1 to 256 bytes");
  if (chunk.raw_bytes() > wire::kMostChunkBytes) return refuse("a chunk may have at most 1 MiB");
  const uint64_t bytes = chunk.raw_bytes();
  if (chunk.offset() > limits_.host || chunk.offset() + bytes > limits_.host ||
      host_bytes_[chunk.host()] + bytes > limits_.host) {
    return refuse(absl::StrCat("a host may send at most ", limits_.host, " bytes for an incident"));
  }
  if (bytes_ + bytes > limits_.incident)
    return refuse(absl::StrCat("the incident has reached its limit of ", limits_.incident, " bytes"));

  // Bit 2 of the byte after the magic number: the frame ends with a checksum of its content.
  if (chunk.data().size() < 8 || !absl::StartsWith(chunk.data(), "\x28\xb5\x2f\xfd") || (chunk.data()[4] & 4) == 0) {
    return refuse("its data is not a zstd frame with a checksum");
  }
  std::string raw(bytes, '\0');
  const size_t unpacked = ZSTD_decompress(raw.data(), raw.size(), chunk.data().data(), chunk.data().size());
  if (ZSTD_isError(unpacked) || unpacked != bytes) return refuse("its data does not decompress to the announced size");

  const absl::StatusOr<size_t> at = PartFor(chunk, why);
  if (!at.ok()) return Put::kRefused;
  Part& part = parts_[*at];
  struct statvfs disk {};
  if (statvfs(folder_.c_str(), &disk) == 0 && disk.f_blocks != 0 &&
      static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize < bytes + limits_.reserve) {
    *why = absl::StrCat("the disk of ", folder_, " is full");
    return Put::kLater;
  }
  const std::string path = PartPath(part);
  if (!part.fd.ok()) part.fd.reset(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!part.fd.ok()) {
    *why = std::string(FileError("write", path, errno).message());
    return Put::kLater;
  }
  if (absl::Status status = WriteAll(part.fd.get(), raw, path, static_cast<int64_t>(chunk.offset())); !status.ok()) {
    *why = std::string(status.message());
    return Put::kLater;
  }
  AddRange(&part.have, chunk.offset(), chunk.offset() + bytes);
  if (chunk.last()) {
    part.ended = true;
    part.size = chunk.offset() + bytes;
  }
  bytes_ += bytes;
  host_bytes_[part.host] += bytes;
  pending_ids_.insert(chunk.id());
  pending_.push_back({chunk.id(), *at, chunk.offset(), bytes, chunk.last()});
  return Put::kTaken;
}

void IncidentStore::CloseParts() {
  for (const Pending& pending : pending_) parts_[pending.part].fd.reset();
}

// Data that may not be on disk is sent again, so its ranges count as not written.
void IncidentStore::GiveUpPending() {
  CloseParts();
  for (const Pending& pending : pending_) {
    Part& part = parts_[pending.part];
    bytes_ -= pending.bytes;
    host_bytes_[part.host] -= pending.bytes;
    if (pending.last) part.ended = false;
    if (pending.bytes == 0) continue;
    // Accepted ranges never overlap, but adjacent ones were joined, so this range is cut out of the joined one.
    const uint64_t begin = pending.offset, end = pending.offset + pending.bytes;
    auto run = std::prev(part.have.upper_bound(begin));
    const uint64_t run_begin = run->first, run_end = run->second;
    part.have.erase(run);
    if (run_begin < begin) part.have[run_begin] = begin;
    if (end < run_end) part.have[end] = run_end;
  }
  pending_.clear();
  pending_ids_.clear();
}

absl::StatusOr<std::vector<std::string>> IncidentStore::Commit() {
  std::vector<std::string> ids;
  if (pending_.empty()) return ids;
  absl::Status status;
  absl::flat_hash_set<size_t> touched;
  for (const Pending& pending : pending_) touched.insert(pending.part);
  if (touched.size() >= kSyncAllFrom) {
    if (syncfs(ledger_.get()) != 0) status = FileError("sync", folder_, errno);
  } else {
    for (size_t index : touched) {
      if (status.ok() && fdatasync(parts_[index].fd.get()) != 0)
        status = FileError("sync", PartPath(parts_[index]), errno);
    }
    if (status.ok()) status = SyncFolder(folder_);
  }
  std::string lines;
  std::vector<size_t> fresh;
  for (const Pending& pending : pending_) {
    Part& part = parts_[pending.part];
    if (!part.in_ledger) {
      part.in_ledger = true;
      fresh.push_back(pending.part);
      lines += WithCrc(absl::StrCat("f ", part.index, " ", part.request, " ", part.name, " ", part.sent_name, " ",
                                    absl::Base64Escape(part.host)));
    }
    lines += WithCrc(absl::StrCat("c ", part.index, " ", pending.offset, " ", pending.bytes, " ", pending.last ? 1 : 0,
                                  " ", absl::BytesToHexString(pending.id)));
  }
  if (status.ok()) status = WriteAll(ledger_.get(), lines, folder_ + "/.ledger", static_cast<int64_t>(ledger_bytes_));
  if (status.ok() && fdatasync(ledger_.get()) != 0) status = FileError("sync", folder_ + "/.ledger", errno);
  if (!status.ok()) {
    // Cuts off the part that reached the disk: the ledger may contain only IDs that were, or will be, acknowledged.
    (void)!ftruncate(ledger_.get(), static_cast<off_t>(ledger_bytes_));
    for (size_t index : fresh) parts_[index].in_ledger = false;
    GiveUpPending();
    return status;
  }
  ledger_bytes_ += lines.size();
  CloseParts();
  for (const Pending& pending : pending_) {
    ids_.insert(pending.id);
    ids.push_back(pending.id);
  }
  pending_.clear();
  pending_ids_.clear();
  for (size_t index : touched) {
    Part& part = parts_[index];
    // The chunks are also safe under the temporary name. If the rename fails now, the next start repeats it.
    if (part.Complete() && !part.whole) Finish(&part).IgnoreError();
  }
  return ids;
}

absl::Status IncidentStore::Finish(Part* part) {
  const std::string from = PartPath(*part), to = absl::StrCat(folder_, "/", part->name);
  const auto newest = newest_.find(part->name);
  // A later request's file with the same name contains at least as much data.
  if (newest != newest_.end() && newest->second > part->request) {
    unlink(from.c_str());
    part->whole = true;
    return absl::OkStatus();
  }
  if (rename(from.c_str(), to.c_str()) != 0) {
    struct stat info {};
    // The file may have been renamed before a restart.
    if (errno != ENOENT || stat(to.c_str(), &info) != 0) return FileError("rename", from, errno);
  } else if (absl::Status status = SyncFolder(folder_); !status.ok()) {
    return status;
  }
  newest_[part->name] = part->request;
  part->whole = true;
  return absl::OkStatus();
}

std::vector<IncidentStore::File> IncidentStore::Files() const {
  std::vector<File> files;
  for (const Part& part : parts_) files.push_back({part.name, part.host, part.request, part.whole});
  return files;
}

void IncidentStore::RemoveParts() {
  GiveUpPending();
  for (const Part& part : parts_) {
    if (!part.whole) unlink(PartPath(part).c_str());
  }
}

}  // namespace lockstep
