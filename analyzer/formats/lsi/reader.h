// Reads index.lsi as an untrusted file. Tables are copied, and every reference between them is checked at opening.
// Columns are mapped; op() checks each value that it reads. The file may be truncated or changed meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analyzer/formats/lsi/format.h"
#include "analyzer/model/bundle.h"
#include "analyzer/util/file_mapping.h"

namespace lockstep {

// The part of an operation that an index stores.
struct IndexOp {
  ring::CallKind kind = ring::CallKind::kNone;
  OpState state = OpState::kUnknown;
  std::optional<uint64_t> membership;  // index into memberships()
  int64_t seq = kUnknown;
  // On the rank's clock; 0 if unknown. return_ns is 0 if the call has not returned.
  int64_t enter_ns = 0, return_ns = 0, started_ns = 0, completed_ns = 0;
  uint64_t bytes_at_least = 0;      // payload, rounded down to a power of two; 0 if unknown
  uint8_t stream = kIndexNoStream;  // index among the rank's streams
  int32_t peer = -1;                // member rank of the root or peer; -1 if there is none
};

// One rank's operations as the file stores them, for scans over all of them. A damaged file may contain any value; only
// IndexReader::op checks values.
struct IndexColumns {
  absl::Span<const uint8_t> kind, state, size, stream;
  absl::Span<const uint16_t> membership, host;
  absl::Span<const uint32_t> seq, enter, start, end, peer;
};

// Returns whether an operation is in flight by its state or, if the state is unknown, by `m`: the rank's counters on
// the operation's communicator, or null.
bool InFlight(ring::CallKind kind, OpState state, int64_t seq, const IndexMembership* m);

// Immutable after opening, and thread-safe.
class IndexReader {
 public:
  // Errors name the file and the problem: NotFound, FailedPrecondition (another version), DataLoss (damaged; create
  // the index again).
  static absl::StatusOr<std::unique_ptr<IndexReader>> Open(const std::string& path);
  // Like Open, for an open file; errors name `path`.
  static absl::StatusOr<std::unique_ptr<IndexReader>> Open(UniqueFd fd, const std::string& path);
  IndexReader(const IndexReader&) = delete;
  IndexReader& operator=(const IndexReader&) = delete;

  // Returns DataLoss if the file was changed or truncated after it was opened; missing data then reads as zeros. May
  // wait for a disk.
  absl::Status Unchanged() const { return file_->Unchanged(); }
  uint64_t source() const { return header_.source; }
  absl::Span<const IndexRank> ranks() const { return ranks_; }
  absl::Span<const IndexComm> comms() const { return comms_; }
  absl::Span<const IndexMembership> memberships() const { return memberships_; }
  // Global rank of each member, or empty if the members are unknown.
  absl::Span<const int32_t> members(const IndexComm& comm) const {
    return absl::MakeConstSpan(members_).subspan(comm.first_member, comm.members_known);
  }
  std::string_view text(uint32_t index) const;  // empty for an index out of range
  uint64_t operations() const { return all_.kind.size(); }
  absl::Span<const char> facts() const { return facts_; }  // serialized ViewFacts; may be empty
  IndexColumns columns(size_t rank) const;                 // the columns of ranks()[rank]
  // Asks the kernel to load the columns of ranks()[rank], without waiting. Otherwise, reading an operation may wait for
  // the disk once per column.
  void WillNeed(size_t rank) const;
  // Operation `index` among all operations; it must belong to ranks()[rank].
  IndexOp op(size_t rank, uint64_t index) const;
  // Returns a rank's operations in flight, ascending: see InFlight. Uses the table of operations in flight, or the
  // rank's columns if there is no table. Values as in columns().
  std::vector<IndexOpen> OpenOps(size_t rank) const;

  // One member's stored cells; the last is the communicator's newest collective. Raw IndexCell values; 0 if the
  // member's counters decide. Empty for a member that the communicator does not have.
  absl::Span<const uint8_t> cells(const IndexComm& comm, int32_t member) const;
  // Returns the state of a cell (member, sequence number). `membership` is the member's own counters, or null if it has
  // no data.
  IndexCell CellAt(const IndexComm& comm, int32_t member, int64_t seq, const IndexMembership* membership) const;

 private:
  IndexReader() = default;
  template <typename T>
  absl::Span<const T> Section(IndexSection section) const;
  template <typename T>
  absl::Status ReadTable(const std::string& path, IndexSection section, std::vector<T>* table) const;
  absl::Status Check(const std::string& path);
  absl::Status CheckSections(const std::string& path);
  absl::Status CheckTables(const std::string& path) const;

  std::unique_ptr<FileMapping> file_;
  IndexHeader header_;
  std::vector<IndexRank> ranks_;
  std::vector<IndexComm> comms_;
  std::vector<int32_t> members_;
  std::vector<IndexMembership> memberships_;
  std::vector<uint64_t> text_offsets_;
  std::vector<char> texts_, facts_;
  std::vector<IndexOpen> open_;
  IndexColumns all_;  // of all ranks
  absl::Span<const uint8_t> cells_;
};

}  // namespace lockstep
