// One table of the window: a filter field, the number of rows, a menu of columns, and rows that users select.
#pragma once

#include <vector>

#include "gui/model/tables/kinds.h"
#include "gui/view/view.h"

class QLabel;
class QLineEdit;
class QTableView;
class QToolButton;

namespace lockstep::gui {

class TableView : public View {
  Q_OBJECT

 public:
  TableView(Navigator* navigator, TableKind kind, QWidget* parent = nullptr);
  ~TableView() override;

  void SetDocument(DocumentPtr document) override;
  // Returns the selected rows with a title line, in display order.
  QString CopyText() const override;
  // Returns all rows that pass the filter, in display order, with the visible columns.
  QString Csv() const override;
  void CentreOnSelection() override;
  bool Idle() const override { return model_->Idle(); }

  QTableView* table() const { return table_; }
  QLineEdit* filter() const { return filter_; }
  TableModel* model() const { return model_; }

 protected:
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void ShowSelection(bool scroll);
  void TakeSelection();
  void Count();
  void SizeColumns();
  void Filter();
  std::vector<int> ShownColumns() const;
  QString RowText(int row, const std::vector<int>& shown, QChar between, QString (*cell)(const QString&)) const;

  const TableKind kind_;
  DocumentPtr document_;
  TableModel* model_;
  QTableView* table_ = nullptr;
  QLineEdit* filter_;
  QLabel* count_;
  QToolButton* columns_;
  bool showing_ = false;  // the table's selection follows the navigator's, and must not be sent back
  bool sized_ = false;
  std::vector<bool> marked_;  // indexed by source row: whether the navigator's selection contains it
};

}  // namespace lockstep::gui
