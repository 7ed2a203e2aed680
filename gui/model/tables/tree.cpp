#include "gui/model/tables/tree.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {

struct IncidentTree::Nodes {
  std::shared_ptr<const IncidentColumns> columns;
  std::vector<QString> hosts;    // names in natural order
  std::vector<uint32_t> first;   // the first row of each host in `rows`, and the end
  std::vector<int32_t> rows;     // rows of the document, by host, ascending by rank
  std::vector<int32_t> host_of;  // indexed by row
  std::vector<ViewState> marks;  // the worst mark among each host's ranks
  std::vector<int32_t> comms;    // ordered by name

  std::span<const int32_t> RowsOf(int32_t host) const {
    return {rows.data() + first[static_cast<size_t>(host)],
            first[static_cast<size_t>(host) + 1] - first[static_cast<size_t>(host)]};
  }
};

struct IncidentTree::Shown {
  std::vector<int32_t> hosts, comms;  // numbers, in display order
  std::vector<int32_t> comm_place;    // indexed by number, in `comms`; -1 if not shown
  // For nodes with hidden children: the shown rows (by host) and global ranks (by communicator).
  absl::flat_hash_map<int32_t, std::vector<int32_t>> rows, members;
};

namespace {

constexpr int kLevelShift = 48;

quintptr Packed(IncidentTree::Level level, int32_t parent) {
  return static_cast<quintptr>(level) << kLevelShift | static_cast<quintptr>(static_cast<uint32_t>(parent));
}

struct Words {
  std::vector<QString> names;
  std::vector<int32_t> ranks;

  static Words Of(const QString& text) {
    Words words;
    for (const QString& word : text.split(' ', Qt::SkipEmptyParts)) {
      bool number = false;
      const int32_t rank = word.toInt(&number);
      if (number) {
        words.ranks.push_back(rank);
      } else if (word.compare("rank", Qt::CaseInsensitive) != 0) {
        words.names.push_back(word);
      }
    }
    return words;
  }
  bool MatchName(const QString& name) const {
    return std::all_of(names.begin(), names.end(),
                       [&](const QString& word) { return name.contains(word, Qt::CaseInsensitive); });
  }
  bool MatchRank(int32_t rank) const {
    return ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }
};

}  // namespace

IncidentTree::IncidentTree(QObject* parent) : QAbstractItemModel(parent) {}
IncidentTree::~IncidentTree() = default;

void IncidentTree::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  fresh_ = true;
  if (document_ != nullptr) return Work();
  work_.Cancel();
  beginResetModel();
  shown_document_.reset();
  nodes_.reset();
  shown_.reset();
  endResetModel();
  Q_EMIT Settled();
}

void IncidentTree::SetFilter(const RowFilter& filter) {
  if (filter == filter_) return;
  filter_ = filter;
  if (document_ != nullptr) Work();
}

void IncidentTree::Work() {
  work_.Start(this,
              [this, document = document_, nodes = fresh_ ? nullptr : nodes_, words = Words::Of(filter_.words),
               among = filter_.among](const std::atomic<bool>& cancel) mutable -> LatestJob::Finish {
                if (nodes == nullptr) {
                  auto made = std::make_shared<Nodes>();
                  made->columns = IncidentColumns::Of(document, &cancel);
                  if (made->columns == nullptr) return {};
                  const IndexReader& index = document->index();
                  const size_t ranks = index.ranks().size();
                  // Groups by the number of the host's name in the index, then sorts by name.
                  absl::flat_hash_map<uint32_t, int32_t> numbers;
                  std::vector<std::pair<QString, uint32_t>> names;
                  for (const IndexRank& rank : index.ranks()) {
                    if (numbers.try_emplace(rank.host, 0).second) {
                      const std::string_view text = index.text(rank.host);
                      names.emplace_back(text.empty() ? QString("host unknown") : Plain(text, 80), rank.host);
                    }
                  }
                  std::stable_sort(names.begin(), names.end(),
                                   [](const auto& a, const auto& b) { return NaturalLess(a.first, b.first); });
                  for (size_t h = 0; h < names.size(); ++h) numbers[names[h].second] = static_cast<int32_t>(h);
                  for (auto& [name, text] : names) made->hosts.push_back(std::move(name));
                  made->first.assign(made->hosts.size() + 1, 0);
                  made->marks.assign(made->hosts.size(), ViewState::kOutside);
                  made->host_of.resize(ranks);
                  for (size_t row = 0; row < ranks; ++row) {
                    const int32_t host = numbers[index.ranks()[row].host];
                    made->host_of[row] = host;
                    ++made->first[static_cast<size_t>(host) + 1];
                    made->marks[static_cast<size_t>(host)] =
                        std::max(made->marks[static_cast<size_t>(host)], made->columns->MarkOf(static_cast<int>(row)));
                  }
                  for (size_t h = 1; h < made->first.size(); ++h) made->first[h] += made->first[h - 1];
                  std::vector<uint32_t> next(made->first.begin(), made->first.end() - 1);
                  made->rows.resize(ranks);
                  for (size_t row = 0; row < ranks; ++row)
                    made->rows[next[static_cast<size_t>(made->host_of[row])]++] = static_cast<int32_t>(row);
                  if (Cancelled(&cancel)) return {};
                  std::vector<std::pair<QString, int32_t>> comms;
                  comms.reserve(static_cast<size_t>(document->comm_count()));
                  for (int32_t c = 0; c < document->comm_count(); ++c)
                    comms.emplace_back(Plain(document->CommName(c), 120), c);
                  std::stable_sort(comms.begin(), comms.end(),
                                   [](const auto& a, const auto& b) { return NaturalLess(a.first, b.first); });
                  for (const auto& [name, c] : comms) made->comms.push_back(c);
                  nodes = std::move(made);
                }
                auto shown = std::make_shared<Shown>();
                shown->comm_place.assign(static_cast<size_t>(document->comm_count()), -1);
                const bool by_rank = among.has_value() || !words.ranks.empty();
                const auto in = [&](int32_t rank) {
                  return words.MatchRank(rank) && (!among.has_value() || among->Contains(rank));
                };
                for (int32_t host = 0; host < static_cast<int32_t>(nodes->hosts.size()); ++host) {
                  if (!words.MatchName(nodes->hosts[static_cast<size_t>(host)])) continue;
                  std::vector<int32_t> rows;
                  for (const int32_t row : nodes->RowsOf(host)) {
                    if (by_rank && in(document->RankAt(row))) rows.push_back(row);
                  }
                  if (by_rank && rows.empty()) continue;
                  shown->hosts.push_back(host);
                  if (by_rank && rows.size() != nodes->RowsOf(host).size()) shown->rows[host] = std::move(rows);
                }
                for (const int32_t comm : nodes->comms) {
                  if (Cancelled(&cancel)) return {};
                  if (!words.names.empty() && !words.MatchName(document->CommName(comm))) continue;
                  std::vector<int32_t> members;
                  const IndexComm& entry = document->CommEntry(comm);
                  // If the members are unknown, uses the ranks that recorded the communicator.
                  size_t all = 0;
                  const auto visit = [&](int32_t rank) {
                    ++all;
                    if (by_rank && rank >= 0 && in(rank)) members.push_back(rank);
                  };
                  if (const auto known = document->index().members(entry); !known.empty()) {
                    std::for_each(known.begin(), known.end(), visit);
                  } else {
                    for (const CommMember& member : nodes->columns->Members(comm)) visit(document->RankAt(member.row));
                  }
                  if (by_rank && members.empty()) continue;
                  shown->comm_place[static_cast<size_t>(comm)] = static_cast<int32_t>(shown->comms.size());
                  shown->comms.push_back(comm);
                  if (by_rank && members.size() != all) shown->members[comm] = std::move(members);
                }
                return [this, document = std::move(document), nodes = std::move(nodes), shown = std::move(shown)] {
                  beginResetModel();
                  fresh_ = false;
                  shown_document_ = document;
                  nodes_ = nodes;
                  shown_ = shown;
                  fetched_hosts_.assign(nodes->hosts.size(), false);
                  fetched_comms_.assign(static_cast<size_t>(document->comm_count()), false);
                  endResetModel();
                  Q_EMIT Settled();
                };
              });
}

// Returns the number of children of a host or communicator, even before they are fetched.
int IncidentTree::Children(Level level, int32_t parent) const {
  if (level == Level::kHost) {
    const auto some = shown_->rows.find(parent);
    return static_cast<int>(some != shown_->rows.end() ? some->second.size() : nodes_->RowsOf(parent).size());
  }
  const auto some = shown_->members.find(parent);
  if (some != shown_->members.end()) return static_cast<int>(some->second.size());
  const auto known = shown_document_->MembersOf(parent);
  return static_cast<int>(known.empty() ? nodes_->columns->Members(parent).size() : known.size());
}

int32_t IncidentTree::MemberAt(int32_t comm, int row) const {
  const auto some = shown_->members.find(comm);
  if (some != shown_->members.end()) return some->second[static_cast<size_t>(row)];
  const auto known = shown_document_->MembersOf(comm);
  if (!known.empty()) return known[static_cast<size_t>(row)];
  return shown_document_->RankAt(nodes_->columns->Members(comm)[static_cast<size_t>(row)].row);
}

IncidentTree::Node IncidentTree::NodeOf(const QModelIndex& index) const {
  Node node;
  if (!index.isValid() || shown_ == nullptr) return node;
  node.level = static_cast<Level>(index.internalId() >> kLevelShift);
  const auto parent = static_cast<int32_t>(static_cast<uint32_t>(index.internalId()));
  const size_t row = static_cast<size_t>(index.row());
  switch (node.level) {
    case Level::kRoot: break;
    case Level::kHost: node.host = shown_->hosts[row]; break;
    case Level::kComm: node.comm = shown_->comms[row]; break;
    case Level::kMember:
      node.comm = parent;
      node.rank = MemberAt(parent, index.row());
      break;
    case Level::kRank: {
      node.host = parent;
      const auto some = shown_->rows.find(parent);
      node.rank = shown_document_->RankAt(some != shown_->rows.end() ? some->second[row] : nodes_->RowsOf(parent)[row]);
      break;
    }
  }
  return node;
}

Selection IncidentTree::SelectionOf(const QModelIndex& index) const {
  const Node node = NodeOf(index);
  std::vector<int32_t> ranks;
  if (node.rank >= 0) ranks.push_back(node.rank);
  if (node.level == Level::kHost)
    for (const int32_t row : nodes_->RowsOf(node.host)) ranks.push_back(shown_document_->RankAt(row));
  return Selection::Of(Ranks::Of(std::move(ranks)), node.comm,
                       node.comm < 0 ? -1 : nodes_->columns->comms()[static_cast<size_t>(node.comm)].in_flight_seq);
}

bool IncidentTree::Touches(const QModelIndex& index, const Selection& selection) const {
  const Node node = NodeOf(index);
  switch (node.level) {
    case Level::kRoot: return false;
    case Level::kRank: return selection.ranks.Contains(node.rank);
    case Level::kComm: return selection.comm == node.comm;
    case Level::kMember: return selection.comm == node.comm && selection.ranks.Contains(node.rank);
    case Level::kHost: break;
  }
  const auto rows = nodes_->RowsOf(node.host);
  return !selection.ranks.empty() && std::any_of(rows.begin(), rows.end(), [&](int32_t row) {
    return selection.ranks.Contains(shown_document_->RankAt(row));
  });
}

QModelIndex IncidentTree::FindRank(int32_t rank) {
  if (shown_ == nullptr) return {};
  const int row = shown_document_->RowOf(rank);
  if (row < 0) return {};
  const int32_t host = nodes_->host_of[static_cast<size_t>(row)];
  const auto at = std::lower_bound(shown_->hosts.begin(), shown_->hosts.end(), host);
  if (at == shown_->hosts.end() || *at != host) return {};
  const QModelIndex parent = index(static_cast<int>(at - shown_->hosts.begin()), 0, index(0, 0));
  if (canFetchMore(parent)) fetchMore(parent);
  const auto some = shown_->rows.find(host);
  const std::span<const int32_t> rows =
      some != shown_->rows.end() ? std::span<const int32_t>(some->second) : nodes_->RowsOf(host);
  const auto place = std::find(rows.begin(), rows.end(), row);
  return place == rows.end() ? QModelIndex() : index(static_cast<int>(place - rows.begin()), 0, parent);
}

QModelIndex IncidentTree::FindComm(int32_t comm) const {
  if (shown_ == nullptr || comm < 0 || static_cast<size_t>(comm) >= shown_->comm_place.size()) return {};
  const int32_t place = shown_->comm_place[static_cast<size_t>(comm)];
  return place < 0 ? QModelIndex() : index(place, 0, index(1, 0));
}

QModelIndex IncidentTree::index(int row, int column, const QModelIndex& parent) const {
  if (!hasIndex(row, column, parent)) return {};
  if (!parent.isValid()) return createIndex(row, column, Packed(Level::kRoot, 0));
  const Node node = NodeOf(parent);
  if (node.level == Level::kRoot)
    return createIndex(row, column, Packed(parent.row() == 0 ? Level::kHost : Level::kComm, 0));
  return node.level == Level::kHost ? createIndex(row, column, Packed(Level::kRank, node.host))
                                    : createIndex(row, column, Packed(Level::kMember, node.comm));
}

QModelIndex IncidentTree::parent(const QModelIndex& index) const {
  if (!index.isValid()) return {};
  const Node node = NodeOf(index);
  switch (node.level) {
    case Level::kRoot: return {};
    case Level::kHost: return createIndex(0, 0, Packed(Level::kRoot, 0));
    case Level::kComm: return createIndex(1, 0, Packed(Level::kRoot, 0));
    case Level::kRank: {
      const auto at = std::lower_bound(shown_->hosts.begin(), shown_->hosts.end(), node.host);
      return createIndex(static_cast<int>(at - shown_->hosts.begin()), 0, Packed(Level::kHost, 0));
    }
    case Level::kMember: break;
  }
  return createIndex(shown_->comm_place[static_cast<size_t>(node.comm)], 0, Packed(Level::kComm, 0));
}

int IncidentTree::rowCount(const QModelIndex& parent) const {
  if (shown_ == nullptr || parent.column() > 0) return 0;
  if (!parent.isValid()) return 2;
  const Node node = NodeOf(parent);
  if (node.level == Level::kRoot)
    return static_cast<int>(parent.row() == 0 ? shown_->hosts.size() : shown_->comms.size());
  if (node.level == Level::kHost)
    return fetched_hosts_[static_cast<size_t>(node.host)] ? Children(node.level, node.host) : 0;
  if (node.level == Level::kComm)
    return fetched_comms_[static_cast<size_t>(node.comm)] ? Children(node.level, node.comm) : 0;
  return 0;
}

int IncidentTree::columnCount(const QModelIndex&) const { return 2; }

bool IncidentTree::hasChildren(const QModelIndex& parent) const {
  if (shown_ == nullptr || parent.column() > 0) return false;
  if (!parent.isValid()) return true;
  const Node node = NodeOf(parent);
  if (node.level == Level::kRoot) return rowCount(parent) > 0;
  return (node.level == Level::kHost && Children(node.level, node.host) > 0) ||
         (node.level == Level::kComm && Children(node.level, node.comm) > 0);
}

bool IncidentTree::canFetchMore(const QModelIndex& parent) const {
  const Node node = NodeOf(parent);
  if (node.level != Level::kHost && node.level != Level::kComm) return false;
  return rowCount(parent) == 0 && parent.column() == 0 && hasChildren(parent);
}

void IncidentTree::fetchMore(const QModelIndex& parent) {
  if (!canFetchMore(parent)) return;
  const Node node = NodeOf(parent);
  beginInsertRows(parent, 0, Children(node.level, node.level == Level::kHost ? node.host : node.comm) - 1);
  if (node.level == Level::kHost) {
    fetched_hosts_[static_cast<size_t>(node.host)] = true;
  } else {
    fetched_comms_[static_cast<size_t>(node.comm)] = true;
  }
  endInsertRows();
}

QString IncidentTree::Text(const Node& node) const {
  switch (node.level) {
    case Level::kRoot: return {};
    case Level::kHost: return nodes_->hosts[static_cast<size_t>(node.host)];
    case Level::kComm: return Plain(shown_document_->CommName(node.comm), 120);
    case Level::kRank:
    case Level::kMember: break;
  }
  return node.rank < 0 ? QString("member unknown") : QString("rank %1").arg(node.rank);
}

QString IncidentTree::Note(const Node& node) const {
  const int row = node.rank < 0 ? -1 : shown_document_->RowOf(node.rank);
  switch (node.level) {
    case Level::kRoot: return {};
    case Level::kHost: {
      const size_t ranks = nodes_->RowsOf(node.host).size();
      return QString(ranks == 1 ? "%1 rank" : "%1 ranks").arg(ranks);
    }
    case Level::kComm: {
      const CommSummary& comm = nodes_->columns->comms()[static_cast<size_t>(node.comm)];
      const int32_t size = shown_document_->CommEntry(node.comm).size;
      const QString text = QString(size == 1 ? "%1 member" : "%1 members").arg(size);
      return comm.in_flight_seq < 0 ? text : QString("in #%1, ").arg(comm.in_flight_seq) + text;
    }
    case Level::kRank: {
      const int32_t gpu = shown_document_->Entry(row).gpu;
      const QString word = WaitClassWord(*shown_document_, row);
      return (gpu >= 0 ? QString("GPU %1").arg(gpu) : QString()) + (gpu >= 0 && !word.isEmpty() ? ", " : "") + word;
    }
    case Level::kMember: break;
  }
  if (row < 0) return "no data";
  const IndexMembership* m = shown_document_->MembershipOf(row, node.comm);
  if (m == nullptr) return "never created it";
  if (m->completed == kUnknown) return m->issued < 0 ? "nothing issued" : QString("issued #%1").arg(m->issued);
  if (m->issued < 0) return "nothing issued";
  if (m->completed == m->issued) return QString("done #%1").arg(m->completed);
  return m->completed < 0 ? QString("issued #%1").arg(m->issued)
                          : QString("issued #%1, done #%2").arg(m->issued).arg(m->completed);
}

ViewState IncidentTree::Mark(const Node& node) const {
  const int row = node.rank < 0 ? -1 : shown_document_->RowOf(node.rank);
  switch (node.level) {
    case Level::kRoot: return ViewState::kOutside;
    case Level::kHost: return nodes_->marks[static_cast<size_t>(node.host)];
    case Level::kRank: return nodes_->columns->MarkOf(row);
    case Level::kComm: return nodes_->columns->MarkOfComm(node.comm);
    case Level::kMember: break;
  }
  const IndexMembership* m = row < 0 ? nullptr : shown_document_->MembershipOf(row, node.comm);
  if (m == nullptr) return ViewState::kNoData;
  const int64_t seq = nodes_->columns->comms()[static_cast<size_t>(node.comm)].in_flight_seq;
  if (seq >= 0 && m->issued != kUnknown && m->issued < seq) return ViewState::kMissing;
  if (m->completed == kUnknown) return ViewState::kIssued;
  return m->completed < m->issued ? ViewState::kWaiting : ViewState::kCompleted;
}

QVariant IncidentTree::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || shown_ == nullptr) return {};
  const Node node = NodeOf(index);
  if (node.level == Level::kRoot) {
    if (role != Qt::DisplayRole) return {};
    const bool hosts = index.row() == 0;
    if (index.column() == 0) return hosts ? QString("Hosts") : QString("Communicators");
    return QString::number(hosts ? shown_->hosts.size() : shown_->comms.size());
  }
  if (role == Qt::DisplayRole) return index.column() == 0 ? Text(node) : Note(node);
  if (role == Qt::ToolTipRole)
    return QString(Text(node) + '\n' + Note(node)).replace('<', QChar(0x2039));  // prevents interpretation as markup
  if (role == kMark) return index.column() == 0 ? static_cast<int>(Mark(node)) : 0;
  if (role == Qt::AccessibleDescriptionRole && index.column() == 0)
    return QString::fromLatin1(ViewStateName(Mark(node)));
  return {};
}

QVariant IncidentTree::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  return section == 0 ? QString("Name") : QString("State");
}

}  // namespace lockstep::gui
