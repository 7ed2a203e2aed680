#include "analyzer/formats/lsi/reader.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/time_units.h"

namespace lockstep {
namespace {

constexpr uint64_t Most(IndexSection section) {
  switch (section) {
    case IndexSection::kRanks: return kIndexMaxRanks;
    case IndexSection::kComms: return kIndexMaxComms;
    case IndexSection::kMembers: return kIndexMaxMembers;
    case IndexSection::kMemberships: return kIndexMaxMemberships;
    case IndexSection::kTextOffsets: return kIndexMaxTextBytes + 1;
    case IndexSection::kTexts: return kIndexMaxTextBytes;
    case IndexSection::kFacts: return kIndexMaxFactsBytes;
    case IndexSection::kOpen: return kIndexMaxOpen + 1;
    case IndexSection::kCells: return kIndexMaxCells;
    default: return kIndexMaxOps;
  }
}

absl::Status Damaged(const std::string& path, uint64_t offset, const std::string& what) {
  return absl::DataLossError(
      absl::StrCat(path, ": offset ", offset, ": ", what, "; delete the index: Lockstep re-creates it from the dumps"));
}

}  // namespace

template <typename T>
absl::Span<const T> IndexReader::Section(IndexSection section) const {
  const IndexSectionEntry& entry = header_.sections[static_cast<int>(section)];
  return {reinterpret_cast<const T*>(file_->data() + entry.offset), static_cast<size_t>(entry.count)};
}

template <typename T>
absl::Status IndexReader::ReadTable(const std::string& path, IndexSection section, std::vector<T>* table) const {
  const IndexSectionEntry& entry = header_.sections[static_cast<int>(section)];
  table->resize(static_cast<size_t>(entry.count));
  char* const bytes = reinterpret_cast<char*>(table->data());
  if (!file_->Read(static_cast<size_t>(entry.offset), table->size() * sizeof(T), bytes) ||
      Crc32c({bytes, table->size() * sizeof(T)}) != entry.crc) {
    return Damaged(path, entry.offset, absl::StrCat("wrong checksum of table ", static_cast<int>(section), ""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<IndexReader>> IndexReader::Open(const std::string& path) {
  UniqueFd fd = OpenToRead(path);
  if (!fd.ok())
    return errno == ENOENT ? absl::NotFoundError(absl::StrCat(path, ": no such file")) : FileError("open", path, errno);
  return Open(std::move(fd), path);
}

absl::StatusOr<std::unique_ptr<IndexReader>> IndexReader::Open(UniqueFd fd, const std::string& path) {
  absl::StatusOr<std::unique_ptr<FileMapping>> file = FileMapping::Open(std::move(fd), path);
  if (!file.ok()) return file.status();
  if ((*file)->size() < sizeof(IndexHeader)) return Damaged(path, (*file)->size(), "shorter than an index header");
  std::unique_ptr<IndexReader> reader(new IndexReader());
  reader->file_ = std::move(*file);
  if (absl::Status status = reader->Check(path); !status.ok()) return status;
  return reader;
}

absl::Status IndexReader::Check(const std::string& path) {
  if (!file_->Read(0, sizeof(header_), reinterpret_cast<char*>(&header_))) return Damaged(path, 0, "cannot be read");
  if (std::memcmp(header_.magic, kIndexMagic.data(), kIndexMagic.size()) != 0)
    return Damaged(path, 0, "not a Lockstep index");
  if (header_.min_reader_version > kIndexVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": needs a reader of version ", header_.min_reader_version,
                                                      "; this one is ", kIndexVersion,
                                                      "; use a newer Lockstep or delete the index"));
  }
  if (header_.version < kIndexVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": has the older version ", header_.version,
                                                      "; delete the index: Lockstep re-creates it from the dumps"));
  }
  if (header_.byte_order != kIndexByteOrder) return Damaged(path, 16, "written on a machine with the other byte order");
  IndexHeader copy = header_;
  copy.crc = 0;
  if (Crc32c({reinterpret_cast<const char*>(&copy), sizeof(copy)}) != header_.crc)
    return Damaged(path, 0, "wrong checksum of the header");
  if (header_.file_bytes != file_->size()) {
    return Damaged(path, file_->size(),
                   absl::StrCat("the file has ", file_->size(), " bytes, but its header says ", header_.file_bytes));
  }
  if (absl::Status status = CheckSections(path); !status.ok()) return status;
  for (const absl::Status& read :
       {ReadTable(path, IndexSection::kRanks, &ranks_), ReadTable(path, IndexSection::kComms, &comms_),
        ReadTable(path, IndexSection::kMembers, &members_), ReadTable(path, IndexSection::kMemberships, &memberships_),
        ReadTable(path, IndexSection::kTextOffsets, &text_offsets_), ReadTable(path, IndexSection::kTexts, &texts_),
        ReadTable(path, IndexSection::kFacts, &facts_), ReadTable(path, IndexSection::kOpen, &open_)}) {
    if (!read.ok()) return read;
  }
  all_ = {Section<uint8_t>(IndexSection::kKind),        Section<uint8_t>(IndexSection::kState),
          Section<uint8_t>(IndexSection::kSize),        Section<uint8_t>(IndexSection::kStream),
          Section<uint16_t>(IndexSection::kMembership), Section<uint16_t>(IndexSection::kHost),
          Section<uint32_t>(IndexSection::kSeq),        Section<uint32_t>(IndexSection::kEnter),
          Section<uint32_t>(IndexSection::kStart),      Section<uint32_t>(IndexSection::kEnd),
          Section<uint32_t>(IndexSection::kPeer)};
  cells_ = Section<uint8_t>(IndexSection::kCells);
  return CheckTables(path);
}

absl::Status IndexReader::CheckSections(const std::string& path) {
  for (int s = 0; s < static_cast<int>(IndexSection::kCount); ++s) {
    const IndexSectionEntry& entry = header_.sections[s];
    const uint64_t at = offsetof(IndexHeader, sections) + static_cast<uint64_t>(s) * sizeof(IndexSectionEntry);
    const bool column = s >= static_cast<int>(IndexSection::kKind) && s < static_cast<int>(IndexSection::kCells);
    if (entry.element_bytes != kIndexElementBytes[s] || entry.count > Most(static_cast<IndexSection>(s)) ||
        entry.offset % kIndexAlign != 0 || entry.offset > file_->size() ||
        entry.count > (file_->size() - entry.offset) / entry.element_bytes) {
      return Damaged(path, at, absl::StrCat("section ", s, " is outside the file"));
    }
    if (column && entry.count != header_.sections[static_cast<int>(IndexSection::kKind)].count) {
      return Damaged(path, at, "columns have different lengths");
    }
  }
  return absl::OkStatus();
}

absl::Status IndexReader::CheckTables(const std::string& path) const {
  auto at = [&](IndexSection section, size_t i) {
    const IndexSectionEntry& entry = header_.sections[static_cast<int>(section)];
    return entry.offset + i * entry.element_bytes;
  };
  for (size_t i = 0; i < text_offsets_.size(); ++i) {
    if (text_offsets_[i] > texts_.size() || (i > 0 && text_offsets_[i] < text_offsets_[i - 1])) {
      return Damaged(path, at(IndexSection::kTextOffsets, i), "a string is outside the string table");
    }
  }
  for (size_t i = 0; i < comms_.size(); ++i) {
    const IndexComm& c = comms_[i];
    const uint64_t wanted = static_cast<uint64_t>(std::max(c.size, 0)) * c.columns;
    if (c.size < 0 || (c.members_known != 0 && c.members_known != static_cast<uint32_t>(c.size)) ||
        c.columns > kIndexMaxColumns || c.first_member > members_.size() ||
        c.members_known > members_.size() - c.first_member || c.first_cell > cells_.size() ||
        wanted > cells_.size() - c.first_cell || c.first_seq < kNone || c.first_seq > kHighestSeq) {
      return Damaged(path, at(IndexSection::kComms, i), "a communicator's members or cells are outside their table");
    }
  }
  for (size_t i = 0; i < memberships_.size(); ++i) {
    const IndexMembership& m = memberships_[i];
    if (m.comm >= comms_.size() || m.seq_base < 0 || m.seq_base > INT64_MAX - kIndexNoSeq) {
      return Damaged(path, at(IndexSection::kMemberships, i),
                     "a membership's communicator or base number is out of range");
    }
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const IndexRank& r = ranks_[i];
    if (r.first_op > all_.kind.size() || r.ops > all_.kind.size() - r.first_op ||
        r.first_membership > memberships_.size() || r.memberships > memberships_.size() - r.first_membership ||
        r.base_ns > INT64_MAX - int64_t{kIndexNoTime} * 2 * kUs) {
      return Damaged(path, at(IndexSection::kRanks, i), "a rank's operations or communicators are outside their table");
    }
  }
  for (size_t i = 0; i < open_.size(); ++i) {
    const bool last = i + 1 == open_.size();
    if (last ? open_[i].op != all_.kind.size() : open_[i].op >= all_.kind.size() || open_[i].op >= open_[i + 1].op) {
      return Damaged(path, at(IndexSection::kOpen, i), "operations in flight are out of order");
    }
  }
  return absl::OkStatus();
}

std::string_view IndexReader::text(uint32_t index) const {
  if (static_cast<size_t>(index) + 1 >= text_offsets_.size()) return {};
  return {texts_.data() + text_offsets_[index], static_cast<size_t>(text_offsets_[index + 1] - text_offsets_[index])};
}

IndexOp IndexReader::op(size_t rank, uint64_t index) const {
  IndexOp out;
  if (rank >= ranks_.size() || index >= all_.kind.size()) return out;
  const IndexRank& r = ranks_[rank];
  const size_t i = static_cast<size_t>(index);
  // Reads each value once, because the file may change between two reads.
  const auto at = [i](const auto& column) {
    using Value = std::remove_reference_t<decltype(column[i])>;
    return std::remove_const_t<Value>(*static_cast<const volatile Value*>(&column[i]));
  };
  out.kind = static_cast<ring::CallKind>(at(all_.kind));
  if (const uint8_t state = at(all_.state); state <= static_cast<uint8_t>(OpState::kCaptured))
    out.state = static_cast<OpState>(state);
  if (const uint16_t membership = at(all_.membership); membership < r.memberships) {
    out.membership = r.first_membership + membership;
    if (const uint32_t seq = at(all_.seq); seq != kIndexNoSeq) out.seq = memberships_[*out.membership].seq_base + seq;
  }
  auto time = [&](uint32_t us) { return us == kIndexNoTime ? 0 : r.base_ns + int64_t{us} * kUs; };
  out.enter_ns = time(at(all_.enter));
  out.started_ns = time(at(all_.start));
  out.completed_ns = time(at(all_.end));
  if (const uint16_t host = at(all_.host); out.enter_ns != 0 && host != kIndexNotReturned)
    out.return_ns = out.enter_ns + host * kUs;
  if (const uint8_t size = at(all_.size); size > 0 && size <= 64) out.bytes_at_least = uint64_t{1} << (size - 1);
  out.stream = at(all_.stream);
  if (const uint32_t peer = at(all_.peer); peer != kIndexNoPeer && peer <= INT32_MAX)
    out.peer = static_cast<int32_t>(peer - 1);
  return out;
}

IndexColumns IndexReader::columns(size_t rank) const {
  if (rank >= ranks_.size()) return {};
  const IndexRank& r = ranks_[rank];
  auto part = [&](const auto& column) {
    return column.subspan(static_cast<size_t>(r.first_op), static_cast<size_t>(r.ops));
  };
  return {part(all_.kind),       part(all_.state), part(all_.size), part(all_.stream),
          part(all_.membership), part(all_.host),  part(all_.seq),  part(all_.enter),
          part(all_.start),      part(all_.end),   part(all_.peer)};
}

void IndexReader::WillNeed(size_t rank) const {
  static const auto kPage = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto ask = [](const auto& part) {
    if (part.empty()) return;
    const uintptr_t first = reinterpret_cast<uintptr_t>(part.data()) & ~(kPage - 1);
    const uintptr_t end = reinterpret_cast<uintptr_t>(part.data() + part.size());
    madvise(reinterpret_cast<void*>(first), end - first, MADV_WILLNEED);
  };
  const IndexColumns c = columns(rank);
  ask(c.kind), ask(c.state), ask(c.size), ask(c.stream), ask(c.membership), ask(c.host);
  ask(c.seq), ask(c.enter), ask(c.start), ask(c.end), ask(c.peer);
}

bool InFlight(ring::CallKind kind, OpState state, int64_t seq, const IndexMembership* m) {
  switch (state) {
    case OpState::kEntered:
    case OpState::kQueued:
    case OpState::kEnqueued:
    case OpState::kStarted:
    case OpState::kIncomplete: return true;
    case OpState::kUnknown:
      return m != nullptr && ring::IsCollective(kind) && seq >= 0 && m->completed >= kNone && seq > m->completed &&
             seq <= m->issued;
    default: return false;
  }
}

std::vector<IndexOpen> IndexReader::OpenOps(size_t rank) const {
  std::vector<IndexOpen> out;
  if (rank >= ranks_.size()) return out;
  const IndexRank& r = ranks_[rank];
  if (!open_.empty()) {
    auto place = std::lower_bound(open_.begin(), open_.end(), r.first_op,
                                  [](const IndexOpen& open, uint64_t op) { return open.op < op; });
    for (; place != open_.end() && place->op - r.first_op < r.ops; ++place) out.push_back(*place);
    return out;
  }
  for (uint64_t i = r.first_op; i < r.first_op + r.ops; ++i) {
    const auto state = static_cast<OpState>(all_.state[i]);
    if (state == OpState::kCompleted || state == OpState::kFailed || state == OpState::kCaptured) continue;
    const IndexOp one = op(rank, i);
    const IndexMembership* m = one.membership.has_value() ? &memberships_[*one.membership] : nullptr;
    if (InFlight(one.kind, one.state, one.seq, m))
      out.push_back(
          {i, all_.seq[i], all_.enter[i], all_.membership[i], all_.kind[i], static_cast<uint8_t>(one.state), 0});
  }
  return out;
}

absl::Span<const uint8_t> IndexReader::cells(const IndexComm& comm, int32_t member) const {
  if (member < 0 || member >= comm.size) return {};
  return cells_.subspan(comm.first_cell + static_cast<uint64_t>(member) * comm.columns, comm.columns);
}

IndexCell IndexReader::CellAt(const IndexComm& comm, int32_t member, int64_t seq,
                              const IndexMembership* membership) const {
  if (membership == nullptr || member < 0 || member >= comm.size) return IndexCell::kNoData;
  const uint64_t column = static_cast<uint64_t>(seq) - static_cast<uint64_t>(comm.first_seq);
  if (seq >= comm.first_seq && column < comm.columns) {
    const uint8_t stored = cells(comm, member)[static_cast<size_t>(column)];
    if (stored >= static_cast<uint8_t>(IndexCell::kUnknown) &&
        stored <= static_cast<uint8_t>(IndexCell::kUnknown) + static_cast<uint8_t>(OpState::kCaptured)) {
      return static_cast<IndexCell>(stored);
    }
  }
  if (membership->issued == kUnknown) return IndexCell::kEmpty;
  return seq > membership->issued ? IndexCell::kNotEnqueued : IndexCell::kOverwritten;
}

}  // namespace lockstep
