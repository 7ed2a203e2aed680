// One table of the window: a filter field, the number of rows, a menu of columns, and rows that users select.
#pragma once

#include <memory>

#include "gui/model/tables/kinds.h"
#include "gui/view/view.h"

class QLineEdit;
class QTableView;

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
  bool Idle() const override;

  QTableView* table() const;
  QLineEdit* filter() const;
  TableModel* model() const;

 protected:
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui
