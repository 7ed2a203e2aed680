// The job as a tree: Hosts > host > rank, Communicators > communicator > member.
#pragma once

#include <QAbstractItemModel>
#include <QString>

#include <cstdint>
#include <memory>
#include <vector>

#include "gui/model/document.h"
#include "gui/model/latest_job.h"
#include "gui/model/tables/columns.h"
#include "gui/model/tables/model.h"

namespace lockstep::gui {

// Stores nothing per node: a model index contains the level and the parent's number. Children exist once they are
// fetched. Used on the GUI thread.
class IncidentTree : public QAbstractItemModel {
  Q_OBJECT

 public:
  enum class Level : uint8_t { kRoot, kHost, kRank, kComm, kMember };
  enum Role { kMark = Qt::UserRole };
  struct Node {
    Level level = Level::kRoot;
    int32_t host = -1;  // for kHost and kRank
    int32_t comm = -1;  // for kComm and kMember
    int32_t rank = -1;  // global rank; for kRank and kMember, -1 for an unknown member
  };

  explicit IncidentTree(QObject* parent = nullptr);
  ~IncidentTree() override;

  void SetDocument(DocumentPtr document);
  // Numbers among the words are ranks, of which a node must contain one. The other words must all occur in the name of
  // the host or communicator, ignoring case.
  void SetFilter(const RowFilter& filter);
  bool Idle() const { return !work_.busy(); }

  Node NodeOf(const QModelIndex& index) const;
  Selection SelectionOf(const QModelIndex& index) const;
  // Fetches the rank's host first. Invalid if the rank has no data or is filtered out.
  QModelIndex FindRank(int32_t rank);
  QModelIndex FindComm(int32_t comm) const;
  // Returns whether the selection includes something in the node.
  bool Touches(const QModelIndex& index, const Selection& selection) const;

  QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
  QModelIndex parent(const QModelIndex& index) const override;
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  bool hasChildren(const QModelIndex& parent = {}) const override;
  bool canFetchMore(const QModelIndex& parent) const override;
  void fetchMore(const QModelIndex& parent) override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 Q_SIGNALS:
  void Settled();

 private:
  struct Nodes;  // the nodes of the document
  struct Shown;  // those that pass the filter
  void Work();
  int Children(Level level, int32_t parent) const;
  int32_t MemberAt(int32_t comm, int row) const;
  QString Text(const Node& node) const;
  QString Note(const Node& node) const;
  ViewState Mark(const Node& node) const;

  DocumentPtr document_;
  bool fresh_ = false;
  DocumentPtr shown_document_;
  std::shared_ptr<const Nodes> nodes_;
  std::shared_ptr<const Shown> shown_;
  std::vector<bool> fetched_hosts_, fetched_comms_;  // indexed by number
  RowFilter filter_;
  LatestJob work_;
};

}  // namespace lockstep::gui
