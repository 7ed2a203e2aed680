#include "gui/model/document.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include <QCoreApplication>
#include <QThread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/lsi/writer.h"
#include "analyzer/util/system.h"
#include "analyzer/util/unique_fd.h"
#include "analyzer/viewdata/facts.h"
#include "gui/model/safe_text.h"
#include "gui/model/work_pool.h"
#include "recorder/ring/calls.h"

namespace lockstep::gui {

// Unmapping an index of several gigabytes on the GUI thread would block the window.
void Document::Release(Document* document) {
  const QCoreApplication* application = QCoreApplication::instance();
  if (application == nullptr || QThread::currentThread() != application->thread()) {
    delete document;
    return;
  }
  WorkPool().start([document] { delete document; });
}

absl::StatusOr<std::shared_ptr<const Document>> Document::Open(const std::string& index_path,
                                                               std::vector<std::string> paths) {
  absl::StatusOr<std::unique_ptr<IndexReader>> index = IndexReader::Open(index_path);
  if (!index.ok()) return index.status();
  absl::StatusOr<ViewFacts> facts = ReadViewFacts(**index);
  if (!facts.ok()) return absl::Status(facts.status().code(), absl::StrCat(index_path, ": ", facts.status().message()));
  std::shared_ptr<Document> document(new Document, &Document::Release);
  document->index_ = std::move(*index);
  document->facts_ = std::move(*facts);
  document->paths_ = std::move(paths);
  document->row_of_.reserve(document->index_->ranks().size());
  for (int row = 0; row < document->rank_count(); ++row) document->row_of_.try_emplace(document->RankAt(row), row);
  return document;
}

absl::StatusOr<std::shared_ptr<const Document>> Document::FromBundle(const Bundle& bundle, const ViewFacts* facts) {
  std::string name = TemporaryFolder() + "/lockstep-view-XXXXXX";
  if (!UniqueFd(mkstemp(name.data())).ok())
    return absl::ErrnoToStatus(errno, absl::StrCat(name, ": cannot be created"));
  // The mapping stays valid after the name is removed.
  absl::Status status =
      WriteIndex(bundle, 1, name, (facts != nullptr ? *facts : BuildViewFacts(bundle)).SerializeAsString());
  absl::StatusOr<std::shared_ptr<const Document>> document = status.ok() ? Open(name, {name}) : status;
  unlink(name.c_str());
  return document;
}

Document::~Document() = default;

QString Document::title() const {
  if (paths_.empty()) return {};
  const std::filesystem::path path(paths_.front());
  const QString name =
      QString::fromStdString((path.has_filename() ? path.filename() : path.parent_path().filename()).string());
  return paths_.size() == 1 ? name : QString("%1 and %2 more").arg(name).arg(paths_.size() - 1);
}

int Document::RowOf(int32_t rank) const {
  const auto it = row_of_.find(rank);
  return it == row_of_.end() ? -1 : it->second;
}

QString Document::HostAt(int row) const { return QString::fromUtf8(index_->text(Entry(row).host)); }

Ranks Document::KnownMembers(int32_t comm) const {
  const auto members = MembersOf(comm);
  std::vector<int32_t> ranks;
  std::copy_if(members.begin(), members.end(), std::back_inserter(ranks), [](int32_t rank) { return rank >= 0; });
  return Ranks::Of(std::move(ranks));
}

QString Document::CommName(int32_t comm) const {
  if (comm < 0 || comm >= comm_count()) return "?";
  const IndexComm& entry = CommEntry(comm);
  std::string_view text = index_->text(entry.name);
  if (text.empty()) {
    const Ranks members = KnownMembers(comm);
    if (!members.empty() && static_cast<int64_t>(members.size()) == entry.size)
      return "group of " + RanksText(members, 24);
    text = index_->text(entry.id);
  }
  return QString::fromUtf8(text);
}

const WaitClass* Document::WaitOf(int row) const {
  const int32_t wait = FactsAt(row).wait_class();
  return wait < 0 ? nullptr : &facts_.classes(wait);
}

bool Document::WaitsIn(int row, int32_t comm, int64_t seq, bool collective) const {
  const WaitClass* wait = WaitOf(row);
  // Collectives and sends are numbered separately, so the number alone does not identify the call.
  return wait != nullptr && (wait->kind() == WaitClass::VICTIM || wait->kind() == WaitClass::IN_CYCLE) && seq >= 0 &&
         wait->comm() == comm && wait->sequence() == seq &&
         (wait->operation().empty() || wait->point_to_point() != collective);
}

Ranks Document::MissingRanks() const {
  Ranks missing;
  for (const RankRuns& runs : facts_.missing()) missing.Unite(Ranks::Of(runs));
  return missing;
}

const IndexMembership* Document::MembershipOf(int row, int32_t comm) const {
  if (row < 0 || row >= rank_count() || comm < 0) return nullptr;
  for (const IndexMembership& m : MembershipsOf(row)) {
    if (m.comm == static_cast<uint32_t>(comm)) return &m;
  }
  return nullptr;
}

int32_t Document::CommOf(const IndexOp& op) const {
  return op.membership.has_value() ? static_cast<int32_t>(index_->memberships()[*op.membership].comm) : -1;
}

IndexOp Document::OpAt(int row, int64_t record) const {
  return index_->op(static_cast<size_t>(row), Entry(row).first_op + static_cast<uint64_t>(record));
}

int64_t Document::FindOp(int row, int32_t comm, int64_t seq, ring::CallKind kind, int32_t peer, int64_t* budget) const {
  if (row < 0 || row >= rank_count() || comm < 0 || seq < 0) return -1;
  // Compares membership and number first, so that kinds and peers are read only for the few operations that match.
  const auto memberships = MembershipsOf(row);
  size_t place = 0;
  while (place < memberships.size() && memberships[place].comm != static_cast<uint32_t>(comm)) ++place;
  if (place >= memberships.size() || place >= kIndexNoMembership) return -1;
  const int64_t number = seq - memberships[place].seq_base;
  if (number < 0 || number >= kIndexNoSeq) return -1;
  const IndexColumns columns = index_->columns(static_cast<size_t>(row));
  for (size_t k = columns.membership.size(); k-- > 0;) {
    if (--*budget < 0) return -2;
    if (columns.membership[k] != place || columns.seq[k] != static_cast<uint32_t>(number)) continue;
    const auto found = static_cast<ring::CallKind>(columns.kind[k]);
    if (kind == ring::CallKind::kNone ? !ring::IsCollective(found) : found != kind) continue;
    if (kind != ring::CallKind::kNone && columns.peer[k] != kIndexNoPeer &&
        columns.peer[k] != static_cast<uint32_t>(peer) + 1)
      continue;
    return static_cast<int64_t>(k);
  }
  return -1;
}

int64_t Document::FindCollective(int row, int32_t comm, int64_t seq) const {
  int64_t budget = INT64_MAX;
  return FindOp(row, comm, seq, ring::CallKind::kNone, -1, &budget);
}

Selection Document::SelectOp(int row, int64_t record) const {
  const IndexOp op = OpAt(row, record);
  const int32_t rank = RankAt(row);
  Selection out = Selection::Of(Ranks::Between(rank, rank), CommOf(op), ring::IsCollective(op.kind) ? op.seq : -1);
  out.record_rank = rank;
  out.record = record;
  return out;
}

int Document::RowOfRecord(const Selection& selection) const {
  const int row = RowOf(selection.record_rank);
  return row >= 0 && selection.record >= 0 && selection.record < OpCount(row) ? row : -1;
}

QString Document::OpText(const IndexOp& op) const {
  QString text = QString::fromLatin1(ring::CallName(op.kind));
  if (op.seq >= 0) text += QString(" #%1").arg(op.seq);
  if (const int32_t comm = CommOf(op); comm >= 0) text += " on " + CommName(comm);
  return text;
}

Selection Document::AnomalyAt(int i) const {
  if (i < 0 || i >= facts_.anomalies_size()) return {};
  const Anomaly& anomaly = facts_.anomalies(i);
  return Selection::Of(Ranks::Of(anomaly.ranks()), anomaly.comm(),
                       HasColumns(anomaly.comm()) ? anomaly.sequence() : -1);
}

bool Document::HasColumns(int32_t comm) const {
  return comm >= 0 && comm < comm_count() && CommEntry(comm).columns > 0;
}

Selection Document::EvidenceLink(int finding, int evidence) const {
  Selection selection;
  for (int i = 0; i < facts_.anomalies_size(); ++i) {
    if (facts_.anomalies(i).finding() == finding) selection = AnomalyAt(i);
  }
  if (finding < 0 || finding >= verdict().findings_size()) return {};
  if (evidence >= 0 && evidence < verdict().findings(finding).evidence_size()) {
    const auto& ranks = verdict().findings(finding).evidence(evidence).ranks();
    if (!ranks.empty()) selection.ranks = Ranks::Of(std::vector<int32_t>(ranks.begin(), ranks.end()));
  }
  return selection;
}

}  // namespace lockstep::gui
