#include "gui/app/panes/marks_pane.h"

#include <QHeaderView>
#include <QKeyEvent>
#include <QVBoxLayout>

#include "gui/app/export/export.h"

namespace lockstep::gui {

MarksPane::MarksPane(QWidget* parent) : QWidget(parent) {
  setObjectName("marks");
  setAccessibleName("Marks");
  table_ = new QTableWidget(0, 3, this);
  Announce(table_, "Marks", "Enter goes to the mark, F2 changes its note, Delete removes it");
  table_->setHorizontalHeaderLabels({"Note", "Marks", "When"});
  table_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
  table_->horizontalHeader()->setSectionResizeMode(1, QHeaderView::Stretch);
  table_->horizontalHeader()->setAccessibleName("Columns of marks");
  table_->verticalHeader()->setAccessibleName("Rows of marks");
  table_->verticalHeader()->hide();
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSelectionMode(QAbstractItemView::SingleSelection);
  table_->setEditTriggers(QAbstractItemView::EditKeyPressed);
  table_->installEventFilter(this);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(table_);
  connect(table_, &QTableWidget::cellDoubleClicked, this, [this](int row, int) { Q_EMIT Chosen(row); });
  connect(table_, &QTableWidget::itemChanged, this, [this](QTableWidgetItem* item) {
    if (!filling_ && item->column() == 0) Q_EMIT Edited(item->row(), item->text());
  });
}

void MarksPane::Show(const Document* document, const Notes& notes) {
  filling_ = true;
  const int row = table_->currentRow();
  table_->setRowCount(static_cast<int>(notes.marks.size()));
  for (int i = 0; i < table_->rowCount(); ++i) {
    const Mark& mark = notes.marks[static_cast<size_t>(i)];
    const QString what = document == nullptr ? QString() : SelectionText(*document, SelectionOfMark(*document, mark));
    const QString cells[] = {mark.text, what, mark.made};
    for (int column = 0; column < 3; ++column) {
      auto* item = new QTableWidgetItem(cells[column]);
      if (column > 0) item->setFlags(item->flags() & ~Qt::ItemIsEditable);
      item->setToolTip(cells[column]);
      table_->setItem(i, column, item);
    }
  }
  table_->resizeColumnToContents(2);
  if (row >= 0 && row < table_->rowCount()) table_->setCurrentCell(row, 0);
  filling_ = false;
}

bool MarksPane::eventFilter(QObject* watched, QEvent* event) {
  if (watched == table_ && event->type() == QEvent::KeyPress && table_->currentRow() >= 0) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    if (key == Qt::Key_Return || key == Qt::Key_Enter) {
      Q_EMIT Chosen(table_->currentRow());
      return true;
    }
    if (key == Qt::Key_Delete) {
      Q_EMIT Removed(table_->currentRow());
      return true;
    }
  }
  return QWidget::eventFilter(watched, event);
}

}  // namespace lockstep::gui
