// The list of marks: what each mark selects, and its note.
#pragma once

#include <QTableWidget>
#include <QWidget>

#include "gui/model/notes/notes.h"

namespace lockstep::gui {

class MarksPane : public QWidget {
  Q_OBJECT

 public:
  explicit MarksPane(QWidget* parent);
  void Show(const Document* document, const Notes& notes);
  QTableWidget* table() const { return table_; }

 Q_SIGNALS:
  void Chosen(int mark);  // emitted on Enter or a double click
  void Edited(int mark, const QString& text);
  void Removed(int mark);  // emitted on Delete

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QTableWidget* table_;
  bool filling_ = false;
};

}  // namespace lockstep::gui
