// index.lsi: the columns that a viewer draws from, for mmap. docs/index-file.md describes the layout. Plain structs,
// little-endian, every section aligned to 64 bytes. All its data comes from the dumps, so the file can be deleted.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

namespace lockstep {

constexpr std::string_view kIndexMagic = "LSINDEX1";
constexpr uint32_t kIndexVersion = 5;
// Revision of the analysis, which is part of FingerprintSources. An index of another revision is out of date.
constexpr uint32_t kIndexRevision = 2;
constexpr uint32_t kIndexByteOrder = 0x01020304;
constexpr uint64_t kIndexAlign = 64;
// Limits of readers and writers.
constexpr uint32_t kIndexMaxRanks = 1u << 20;
constexpr uint32_t kIndexMaxComms = 1u << 22;
constexpr uint64_t kIndexMaxMemberships = uint64_t{1} << 26;
constexpr uint64_t kIndexMaxMembers = uint64_t{1} << 26;
constexpr uint64_t kIndexMaxOps = uint64_t{1} << 36;
constexpr uint64_t kIndexMaxTextBytes = uint64_t{1} << 32;
constexpr uint64_t kIndexMaxFactsBytes = uint64_t{256} << 20;
constexpr uint64_t kIndexMaxOpen = uint64_t{1} << 21;   // with more operations in flight, the file has no table of them
constexpr uint32_t kIndexMaxColumns = 4096;             // in one communicator's cells: its newest collectives
constexpr uint64_t kIndexMaxCells = uint64_t{1} << 40;  // the section is sparse

enum class IndexSection : uint32_t {
  kRanks,
  kComms,
  kMembers,
  kMemberships,
  kTextOffsets,
  kTexts,
  kFacts,  // serialized ViewFacts (proto/view.proto); may be empty
  kOpen,   // operations in flight, ascending, then an end marker; empty if there are too many
  // One entry for each operation, rank by rank, in each rank's own order.
  kKind,
  kState,
  kMembership,
  kSeq,
  kEnter,
  kHost,
  kStart,
  kEnd,
  kSize,
  kStream,
  kPeer,
  kCells,
  kCount,
};

struct IndexSectionEntry {
  uint64_t offset = 0;  // in the file, a multiple of kIndexAlign
  uint64_t count = 0;   // number of elements
  uint32_t element_bytes = 0;
  uint32_t crc = 0;  // CRC-32C of the section; only for tables; 0 for columns and cells
};

struct IndexHeader {
  char magic[8] = {};
  uint32_t version = 0, min_reader_version = 0;
  uint32_t byte_order = 0;
  uint32_t crc = 0;  // CRC-32C of the header with this field set to 0
  uint64_t file_bytes = 0;
  uint64_t source = 0;  // fingerprint of the files that the index was made from (FingerprintSources)
  IndexSectionEntry sections[static_cast<int>(IndexSection::kCount)] = {};
};
static_assert(sizeof(IndexSectionEntry) == 24 && sizeof(IndexHeader) == 40 + 24 * 20);

struct IndexRank {
  int32_t rank = -1, gpu = -1;
  int32_t pid = 0;
  uint32_t host = 0;  // index of a string
  uint64_t first_op = 0, ops = 0;
  uint64_t first_membership = 0;
  uint32_t memberships = 0;
  uint32_t life = 0;    // analyzer/model/bundle.h, Life
  int64_t base_ns = 0;  // times in the columns are relative to this, on the rank's clock
  int64_t captured_ns = 0;
};
static_assert(sizeof(IndexRank) == 64);

struct IndexComm {
  uint32_t id = 0, name = 0;  // indexes of strings
  int32_t size = 0;
  uint32_t columns = 0;        // number of columns of the communicator's cells
  uint64_t first_member = 0;   // index into kMembers: `members_known` global ranks, -1 if unknown
  uint64_t first_cell = 0;     // `size` rows with `columns` cells each
  int64_t first_seq = 0;       // sequence number of the first column
  uint32_t members_known = 0;  // 0, or `size`
  uint32_t reserved = 0;
};
static_assert(sizeof(IndexComm) == 48);

struct IndexMembership {
  uint32_t comm = 0;
  int32_t member_rank = -1;
  int64_t issued = 0, launched = 0, started = 0, completed = 0;  // as in Membership: kNone, kUnknown
  int64_t seq_base = 0;                                          // added to the operations' kSeq
  uint64_t lost_records = 0;
};
static_assert(sizeof(IndexMembership) == 56);

// A copy of the columns of an operation in flight, so that a reader need not search all operations.
struct IndexOpen {
  uint64_t op = 0;  // index among all operations; in the end marker, the number of operations
  uint32_t seq = 0, enter = 0;
  uint16_t membership = 0;
  uint8_t kind = 0, state = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(IndexOpen) == 24);

// The size of one element of each section.
constexpr uint32_t kIndexElementBytes[] = {64, 48, 4, 56, 8, 1, 1, 24, 1, 1, 2, 4, 4, 2, 4, 4, 1, 1, 4, 1};
static_assert(std::size(kIndexElementBytes) == static_cast<size_t>(IndexSection::kCount));

constexpr uint16_t kIndexNoMembership = UINT16_MAX;
constexpr uint32_t kIndexNoSeq = UINT32_MAX;
// Times are microseconds since IndexRank::base_ns. kIndexNoTime if unknown or beyond 71 minutes.
constexpr uint32_t kIndexNoTime = UINT32_MAX;
constexpr uint8_t kIndexNoStream = UINT8_MAX;  // kStream: otherwise the index into RankFacts.streams
// kPeer: otherwise 1 + member rank of the root or peer; a sparse column.
constexpr uint32_t kIndexNoPeer = 0;
constexpr uint16_t kIndexNotReturned = UINT16_MAX;  // kHost: otherwise microseconds in the call, at most 65,534

// The state of one collective on one member. The file contains kEmpty instead of kNoData, kOverwritten and
// kNotEnqueued: IndexReader::CellAt derives these from the member's counters.
enum class IndexCell : uint8_t {
  kEmpty = 0,
  kNoData = 1,       // nothing is known about this member
  kOverwritten = 2,  // issued, but the record was overwritten or not loaded
  kNotEnqueued = 3,  // the member has not reached the operation
  kUnknown = 4,      // from here on: 4 + OpState
};

// Larger than any real sequence number; sums of a few such numbers cannot overflow.
constexpr int64_t kHighestSeq = int64_t{1} << 60;

}  // namespace lockstep
