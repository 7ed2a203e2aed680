// The list of marks: what each is of, and its note.
#ifndef LOCKSTEP_GUI_APP_MARKS_PANE_H_
#define LOCKSTEP_GUI_APP_MARKS_PANE_H_

#include <QTableWidget>
#include <QWidget>

#include "gui/model/notes.h"

namespace lockstep::gui {

class MarksPane : public QWidget {
  Q_OBJECT

 public:
  explicit MarksPane(QWidget* parent);
  void Show(const Document* document, const Notes& notes);
  QTableWidget* table() const { return table_; }

 Q_SIGNALS:
  void Chosen(int mark);  // Enter or a double click
  void Edited(int mark, const QString& text);
  void Removed(int mark);  // Delete

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QTableWidget* table_;
  bool filling_ = false;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_MARKS_PANE_H_
