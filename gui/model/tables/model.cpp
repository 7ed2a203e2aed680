#include "gui/model/tables/model.h"

#include <QHash>
#include <QStringList>

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep::gui {

// All texts of all rows concatenated in lower case, for word search.
struct TableModel::Haystack {
  std::string text;
  std::vector<size_t> first;  // one entry per row, and the end

  bool Has(uint32_t row, std::string_view word) const {
    return std::string_view(text).substr(first[row], first[row + 1] - first[row]).find(word) != std::string_view::npos;
  }
};

struct TableModel::Order {
  std::vector<std::pair<bool, std::string>> words;  // true if the word excludes
  std::optional<Ranks> among;
  int column = 0;
  bool number = false, descending = false;
};

bool NaturalLess(const QString& a, const QString& b) {
  qsizetype i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (a[i].isDigit() && b[j].isDigit()) {
      while (i < a.size() && a[i] == '0') ++i;
      while (j < b.size() && b[j] == '0') ++j;
      qsizetype m = i, n = j;
      while (m < a.size() && a[m].isDigit()) ++m;
      while (n < b.size() && b[n].isDigit()) ++n;
      if (m - i != n - j) return m - i < n - j;
      const int order = QStringView(a).mid(i, m - i).compare(QStringView(b).mid(j, n - j));
      if (order != 0) return order < 0;
      i = m, j = n;
      continue;
    }
    const QChar x = a[i].toCaseFolded(), y = b[j].toCaseFolded();
    if (x != y) return x < y;
    ++i, ++j;
  }
  return a.size() - i < b.size() - j;
}

namespace {

void Sort(const TableRows& rows, int column, bool number, bool descending, const std::atomic<bool>& cancel,
          std::vector<uint32_t>* order) {
  if (number) {
    struct Key {
      int64_t number;
      int prior;
      uint32_t row;
    };
    std::vector<Key> keys(order->size());
    for (size_t i = 0; i < keys.size(); ++i) {
      const int row = static_cast<int>((*order)[i]);
      keys[i] = {rows.Number(row, column), rows.Priority(row), (*order)[i]};
    }
    std::stable_sort(keys.begin(), keys.end(), [descending](const Key& a, const Key& b) {
      if ((a.number == INT64_MIN) != (b.number == INT64_MIN)) return b.number == INT64_MIN;
      if (a.number == b.number) return a.prior > b.prior;
      return descending ? a.number > b.number : a.number < b.number;
    });
    for (size_t i = 0; i < keys.size(); ++i) (*order)[i] = keys[i].row;
    return;
  }
  // Most rows of a large table have the same texts, so each distinct text is compared once.
  QHash<QString, uint32_t> words;
  std::vector<std::pair<uint32_t, uint32_t>> keys(order->size());  // position of the word, and row
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i % 1024 == 0 && Cancelled(&cancel)) return;
    const QString text = rows.Text(static_cast<int>((*order)[i]), column);
    auto word = words.constFind(text);
    if (word == words.cend()) word = words.insert(text, static_cast<uint32_t>(words.size()));
    keys[i] = {*word, (*order)[i]};
  }
  std::vector<std::pair<const QString*, uint32_t>> sorted;
  for (auto it = words.cbegin(); it != words.cend(); ++it) sorted.emplace_back(&it.key(), it.value());
  std::sort(sorted.begin(), sorted.end(), [descending](const auto& a, const auto& b) {
    if (a.first->isEmpty() != b.first->isEmpty()) return b.first->isEmpty();
    return descending ? NaturalLess(*b.first, *a.first) : NaturalLess(*a.first, *b.first);
  });
  // Texts that differ only in case or leading zeros share a position, so their rows keep their order.
  std::vector<uint32_t> place(sorted.size());
  uint32_t at = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 &&
        (NaturalLess(*sorted[i - 1].first, *sorted[i].first) || NaturalLess(*sorted[i].first, *sorted[i - 1].first)))
      ++at;
    place[sorted[i].second] = at;
  }
  std::stable_sort(keys.begin(), keys.end(),
                   [&](const auto& a, const auto& b) { return place[a.first] < place[b.first]; });
  for (size_t i = 0; i < keys.size(); ++i) (*order)[i] = keys[i].second;
}

}  // namespace

TableModel::TableModel(std::vector<TableColumn> columns, Make make, QObject* parent)
    : QAbstractTableModel(parent), columns_(std::move(columns)), make_(std::move(make)) {}

TableModel::~TableModel() = default;

void TableModel::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  fresh_ = true;
  if (document_ != nullptr) return Work();
  work_.Cancel();
  Take(nullptr, nullptr, {});
  Q_EMIT Settled();
}

void TableModel::SetFilter(const RowFilter& filter) {
  if (filter == filter_) return;
  filter_ = filter;
  if (document_ != nullptr) Work();
}

void TableModel::sort(int column, Qt::SortOrder order) {
  if (column < 0 || column >= columnCount()) return;
  sort_column_ = column;
  sort_order_ = order;
  if (document_ != nullptr) Work();
}

void TableModel::Work() {
  Order how;
  for (const QString& word : filter_.words.toLower().split(' ', Qt::SkipEmptyParts)) {
    const bool excludes = word.size() > 1 && word.startsWith('-');
    how.words.emplace_back(excludes, (excludes ? word.mid(1) : word).toStdString());
  }
  how.among = filter_.among;
  how.column = sort_column_;
  how.number = columns_[static_cast<size_t>(sort_column_)].number;
  how.descending = sort_order_ == Qt::DescendingOrder;
  work_.Start(this,
              [this, make = make_, document = document_, rows = fresh_ ? nullptr : rows_,
               haystack = fresh_ ? nullptr : haystack_, how = std::move(how),
               columns = columnCount()](const std::atomic<bool>& cancel) mutable -> LatestJob::Finish {
                if (rows == nullptr) rows = make(document, cancel);
                document.reset();
                if (rows == nullptr || Cancelled(&cancel)) return {};
                const uint32_t count = static_cast<uint32_t>(rows->count());
                if (haystack == nullptr && !how.words.empty()) {
                  auto made = std::make_shared<Haystack>();
                  for (uint32_t row = 0; row < count; ++row) {
                    if (row % 256 == 0 && Cancelled(&cancel)) return {};
                    made->first.push_back(made->text.size());
                    for (int column = 0; column < columns; ++column)
                      made->text += rows->Text(static_cast<int>(row), column).toLower().toStdString() + '\t';
                  }
                  made->first.push_back(made->text.size());
                  haystack = std::move(made);
                }
                std::vector<uint32_t> order;
                order.reserve(count);
                for (uint32_t row = 0; row < count; ++row) {
                  if (how.among.has_value() && !rows->Concerns(static_cast<int>(row), *how.among)) continue;
                  if (std::all_of(how.words.begin(), how.words.end(),
                                  [&](const auto& word) { return haystack->Has(row, word.second) != word.first; }))
                    order.push_back(row);
                }
                if (Cancelled(&cancel)) return {};
                Sort(*rows, how.column, how.number, how.descending, cancel, &order);
                if (Cancelled(&cancel)) return {};
                return [this, rows = std::move(rows), haystack = std::move(haystack), order = std::move(order)] {
                  Take(rows, haystack, order);
                  Q_EMIT Settled();
                };
              });
}

void TableModel::Take(std::shared_ptr<const TableRows> rows, std::shared_ptr<const Haystack> haystack,
                      std::vector<uint32_t> order) {
  fresh_ = false;
  haystack_ = std::move(haystack);
  std::vector<uint32_t> place;  // the new position of each source row; unused if a filter changes the rows
  bool same = rows == rows_ && rows != nullptr && order.size() == order_.size();
  if (same) {
    place.assign(static_cast<size_t>(rows->count()), UINT32_MAX);
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<uint32_t>(i);
    same = std::all_of(order_.begin(), order_.end(), [&](uint32_t source) { return place[source] != UINT32_MAX; });
  }
  if (!same) {
    beginResetModel();
    rows_ = std::move(rows);
    order_ = std::move(order);
    endResetModel();
    return;
  }
  Q_EMIT layoutAboutToBeChanged({}, VerticalSortHint);
  const QModelIndexList before = persistentIndexList();
  QModelIndexList after;
  after.reserve(before.size());
  for (const QModelIndex& index : before)
    after.append(createIndex(static_cast<int>(place[static_cast<size_t>(Source(index.row()))]), index.column()));
  order_ = std::move(order);
  changePersistentIndexList(before, after);
  Q_EMIT layoutChanged({}, VerticalSortHint);
}

int TableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(order_.size());
}

int TableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(columns_.size());
}

QVariant TableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount() || index.column() >= columnCount()) return {};
  const int source = Source(index.row());
  const TableColumn& column = columns_[static_cast<size_t>(index.column())];
  switch (role) {
    case Qt::DisplayRole: return rows_->Text(source, index.column());
    case Qt::TextAlignmentRole:
      return QVariant::fromValue(Qt::AlignVCenter | (column.number ? Qt::AlignRight : Qt::AlignLeft));
    case kMark: return index.column() == 0 ? static_cast<int>(rows_->Mark(source)) : 0;
    case kSource: return source;
    case Qt::AccessibleDescriptionRole:
      return index.column() == 0 && rows_->Mark(source) != ViewState::kOutside
                 ? QString::fromLatin1(ViewStateName(rows_->Mark(source)))
                 : QString();
    default: return {};
  }
}

QVariant TableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section < 0 || section >= columnCount()) return {};
  const TableColumn& column = columns_[static_cast<size_t>(section)];
  if (role == Qt::DisplayRole) return QString(column.title);
  if (role == Qt::ToolTipRole || role == Qt::AccessibleDescriptionRole) return QString(column.explains);
  if (role == Qt::TextAlignmentRole)
    return QVariant::fromValue(Qt::AlignVCenter | (column.number ? Qt::AlignRight : Qt::AlignLeft));
  return {};
}

}  // namespace lockstep::gui
