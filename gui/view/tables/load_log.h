// Problems while reading, one per line. A damaged rank is a line here; the incident still opens.
#pragma once

#include <QString>

#include <memory>

#include "gui/view/view.h"

namespace lockstep::gui {

// Shows the loader's lines while it reads, and later also the verdict's problems. A click on a line about a rank
// selects the rank.
class LoadLog : public View {
  Q_OBJECT

 public:
  explicit LoadLog(Navigator* navigator, QWidget* parent = nullptr);
  ~LoadLog() override;

  void SetDocument(DocumentPtr document) override;
  // Adds a line about the current load. Lines after the first 10,000 are only counted.
  void AddLine(const QString& line, int32_t rank = -1);
  // Removes all lines, for a new load.
  void Clear();
  int line_count() const;
  // "Load log" or "Load log (3)".
  QString title() const;
  QString CopyText() const override;
  QString Csv() const override;

 Q_SIGNALS:
  void TitleChanged(const QString& title);

 private:
  void Retitle();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui
