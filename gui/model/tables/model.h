// Tables with tens of thousands of rows: sorted and filtered on another thread, with no data stored per cell.
#pragma once

#include <QAbstractTableModel>
#include <QString>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gui/model/document.h"
#include "gui/model/latest_job.h"

namespace lockstep::gui {

struct TableColumn {
  const char* title;
  const char* explains;  // one line, for a tooltip
  bool number = false;   // sorts by Number, right-aligned
  int characters = 10;   // usual width
};

// The contents of one table for one document. Immutable; any thread may use it.
class TableRows {
 public:
  virtual ~TableRows() = default;
  virtual int count() const = 0;
  virtual QString Text(int row, int column) const = 0;  // safe to show; empty if unknown
  virtual int64_t Number(
      int row, int column) const = 0;  // for number columns; INT64_MIN if unknown, which sorts last in both directions
  // The state that marks the first column; kOutside for none.
  virtual ViewState Mark(int row) const = 0;
  // Among rows with equal values, the higher priority comes first in both sort orders.
  virtual int Priority(int row) const { return (void)row, 0; }
  virtual Selection Select(std::span<const int> rows) const = 0;
  virtual bool Shows(int row, const Selection& selection) const = 0;
  virtual bool Concerns(int row, const Ranks& ranks) const = 0;
  virtual QString note() const { return {}; }  // describes what the table omits
};

// Which rows a table or tree shows.
struct RowFilter {
  QString words;
  std::optional<Ranks> among;  // only rows about these ranks
  // With the ranks that pass the place's filters.
  static RowFilter Of(const QString& words, const Place& place) {
    return {words, place.filters.isEmpty() ? std::nullopt : std::optional(place.filtered)};
  }
  bool operator==(const RowFilter&) const = default;
};

// Rows in the order of the last sort. A `source` number is a row of TableRows. Used on the GUI thread.
class TableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  // Runs on a pool thread; returns null if *cancel became true.
  using Make = std::function<std::shared_ptr<const TableRows>(const DocumentPtr&, const std::atomic<bool>& cancel)>;
  enum Role { kMark = Qt::UserRole, kSource };

  TableModel(std::vector<TableColumn> columns, Make make, QObject* parent = nullptr);
  ~TableModel() override;

  void SetDocument(DocumentPtr document);
  // Every word must occur in the row, ignoring case; a minus before a word excludes the row.
  void SetFilter(const RowFilter& filter);
  void sort(int column, Qt::SortOrder order) override;

  const std::vector<TableColumn>& columns() const { return columns_; }
  const TableRows* rows() const { return rows_.get(); }  // null if there is no document, or its rows are not ready yet
  int Source(int row) const { return static_cast<int>(order_[static_cast<size_t>(row)]); }
  int total() const { return rows_ == nullptr ? 0 : rows_->count(); }
  bool Idle() const { return !work_.busy(); }

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 Q_SIGNALS:
  void Settled();  // the last requested order is now shown

 private:
  struct Haystack;
  struct Order;
  void Work();
  void Take(std::shared_ptr<const TableRows> rows, std::shared_ptr<const Haystack> haystack,
            std::vector<uint32_t> order);

  const std::vector<TableColumn> columns_;
  const Make make_;
  DocumentPtr document_;
  std::shared_ptr<const TableRows> rows_;  // rows of the visible document
  bool fresh_ = false;                     // rows_ do not belong to document_
  std::shared_ptr<const Haystack> haystack_;
  std::vector<uint32_t> order_;
  RowFilter filter_;
  int sort_column_ = 0;
  Qt::SortOrder sort_order_ = Qt::AscendingOrder;
  LatestJob work_;
};

// Sorts "tp_2" before "tp_10".
bool NaturalLess(const QString& a, const QString& b);

}  // namespace lockstep::gui
