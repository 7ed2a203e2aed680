// Problems while reading, one per line. A damaged rank is a line here; the incident still opens.
#pragma once

#include <QString>

#include "gui/view/view.h"

class QListView;

namespace lockstep::gui {

// Shows the loader's lines while it reads, and later also the verdict's problems. A click on a line about a rank
// selects the rank.
class LoadLog : public View {
  Q_OBJECT

 public:
  explicit LoadLog(Navigator* navigator, QWidget* parent = nullptr);

  void SetDocument(DocumentPtr document) override;
  // Adds a line about the current load. Lines after the first 10,000 are only counted.
  void AddLine(const QString& line, int32_t rank = -1);
  // Removes all lines, for a new load.
  void Clear();
  int line_count() const;
  // "Load log" or "Load log (3)".
  QString title() const { return title_; }
  QString CopyText() const override;
  QString Csv() const override;

 Q_SIGNALS:
  void TitleChanged(const QString& title);

 private:
  class LogModel;
  void Retitle();

  DocumentPtr document_;
  LogModel* model_;
  QListView* list_;
  QString title_ = "Load log";
};

}  // namespace lockstep::gui
