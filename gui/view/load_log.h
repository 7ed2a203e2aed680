// What went wrong while reading, a line each: a damaged rank is a line here, never a failed open.
#ifndef LOCKSTEP_GUI_VIEW_LOAD_LOG_H_
#define LOCKSTEP_GUI_VIEW_LOAD_LOG_H_

#include <QString>

#include <memory>

#include "gui/view/view.h"

namespace lockstep::gui {

// The loader's lines while it reads, then the problems of the verdict beside them. A line of a rank selects it.
class LoadLog : public View {
  Q_OBJECT

 public:
  explicit LoadLog(Navigator* navigator, QWidget* parent = nullptr);
  ~LoadLog() override;

  void SetDocument(DocumentPtr document) override;
  // One line of the load under way. Lines beyond the first 10,000 are counted only.
  void AddLine(const QString& line, int32_t rank = -1);
  // A new load begins: its lines replace those of the one before.
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

#endif  // LOCKSTEP_GUI_VIEW_LOAD_LOG_H_
