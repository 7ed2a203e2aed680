// One opened incident: the mapped index and the facts next to it. Immutable once created; threads and views share it by
// shared_ptr. It has no per-record objects.
#pragma once

#include <QString>
#include <QStringList>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/model/bundle.h"
#include "analyzer/viewdata/state.h"
#include "gui/model/navigator.h"
#include "proto/view.pb.h"

namespace lockstep::gui {

class Document {
 public:
  // `paths` is what the user opened, for titles, notes files and reading complete records. Errors are those of
  // IndexReader::Open, and DataLoss if the facts do not belong to the index.
  static absl::StatusOr<std::shared_ptr<const Document>> Open(const std::string& index_path,
                                                              std::vector<std::string> paths);
  // For tests: analyzes the bundle, writes an index into a temporary file and opens that. With `facts`, uses these
  // instead of the analysis's own.
  static absl::StatusOr<std::shared_ptr<const Document>> FromBundle(const Bundle& bundle,
                                                                    const ViewFacts* facts = nullptr);
  ~Document();
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  const IndexReader& index() const { return *index_; }
  const ViewFacts& facts() const { return facts_; }
  const Verdict& verdict() const { return facts_.verdict(); }
  const std::vector<std::string>& paths() const { return paths_; }
  QString title() const;

  // Rows are indexes into index().ranks() and facts().ranks().
  int rank_count() const { return static_cast<int>(index_->ranks().size()); }
  int RowOf(int32_t rank) const;  // -1 if there is no data from it
  int32_t RankAt(int row) const { return index_->ranks()[static_cast<size_t>(row)].rank; }
  const RankFacts& FactsAt(int row) const { return facts_.ranks(row); }
  const IndexRank& Entry(int row) const { return index_->ranks()[static_cast<size_t>(row)]; }
  const WaitClass* WaitOf(int row) const;  // null if unknown
  // Returns whether the analysis found the rank waiting in this call, even if no member is known to be missing.
  bool WaitsIn(int row, int32_t comm, int64_t seq, bool collective) const;
  Ranks MissingRanks() const;  // ranks without data
  QString HostAt(int row) const;
  int comm_count() const { return static_cast<int>(index_->comms().size()); }
  const IndexComm& CommEntry(int32_t comm) const { return index_->comms()[static_cast<size_t>(comm)]; }
  // Returns global ranks by member rank, -1 for unknown ones; empty if none is known.
  absl::Span<const int32_t> MembersOf(int32_t comm) const { return index_->members(CommEntry(comm)); }
  Ranks KnownMembers(int32_t comm) const;
  // Returns the usual name, otherwise "group of ranks 0-7", otherwise the ID; "?" for an invalid index.
  QString CommName(int32_t comm) const;
  absl::Span<const IndexMembership> MembershipsOf(int row) const {
    return index_->memberships().subspan(Entry(row).first_membership, Entry(row).memberships);
  }
  // Returns the rank's counters in the communicator; null if the rank is not a known member.
  const IndexMembership* MembershipOf(int row, int32_t comm) const;
  // Returns the communicator of the operation; -1 if there is none.
  int32_t CommOf(const IndexOp& op) const;
  IndexOp OpAt(int row, int64_t record) const;  // 0 is the rank's oldest
  int64_t OpCount(int row) const { return static_cast<int64_t>(Entry(row).ops); }
  // Returns the newest operation of the row with this number on this communicator; -1 if there is none. If `kind` is
  // kNone, any collective matches, otherwise a call of this kind with `peer` or an unknown peer. Subtracts the
  // operations read from *budget; returns -2 if the budget is too small.
  int64_t FindOp(int row, int32_t comm, int64_t seq, ring::CallKind kind, int32_t peer, int64_t* budget) const;
  int64_t FindCollective(int row, int32_t comm, int64_t seq) const;
  Selection SelectOp(int row, int64_t record) const;
  // Returns the row of the selected operation; -1 if none is selected, or it does not exist.
  int RowOfRecord(const Selection& selection) const;
  QString OpText(const IndexOp& op) const;  // "AllReduce #41 of dp"

  // Whether the communicator's matrix has columns: one per collective, none for sends and receives.
  bool HasColumns(int32_t comm) const;

  // Worst first. The key `]` steps through them in this order. The first selects the verdict's culprits.
  int anomaly_count() const { return facts_.anomalies_size(); }
  Selection AnomalyAt(int i) const;
  // Returns the selection for a click on the finding, or on a line of its evidence (-1: the finding itself).
  Selection EvidenceLink(int finding, int evidence) const;

 private:
  Document() = default;
  static void Release(Document* document);  // runs on a worker thread if the GUI thread held the last reference

  std::unique_ptr<IndexReader> index_;
  ViewFacts facts_;
  std::vector<std::string> paths_;
  absl::flat_hash_map<int32_t, int> row_of_;
};

using DocumentPtr = std::shared_ptr<const Document>;

}  // namespace lockstep::gui
