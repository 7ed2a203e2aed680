// Opens the given paths on its own thread: finds or creates the index, and reports progress.
#pragma once

#include <QObject>
#include <QString>
#include <QStringList>

#include <memory>

#include "gui/model/document.h"

namespace lockstep::gui {

// Used on the GUI thread, where all signals arrive. One load at a time: Open cancels the previous one.
class Loader : public QObject {
  Q_OBJECT

 public:
  explicit Loader(QObject* parent = nullptr);
  ~Loader() override;  // cancels; a thread that is still reading ends on its own, without a report

  void Open(const QStringList& paths);
  // Opened and Failed do not follow. Cancelled does, within 100 ms, even while a file is being read.
  void Cancel();
  bool loading() const;

 Q_SIGNALS:
  // "Finding files", "Reading ranks", "Analyzing", "Writing the index", "Opening": fraction 0..1, or -1 if unknown.
  void Progress(const QString& phase, double fraction, qint64 done, qint64 total);
  // Emitted before the load is complete: the same incident with the data so far. Views show it, and later the complete
  // one.
  void Partial(lockstep::gui::DocumentPtr document);
  void Opened(lockstep::gui::DocumentPtr document);
  // The problem and how to fix it. The previous document stays visible.
  void Failed(const QString& message);
  void Cancelled();
  // A line for the load log about a damaged file, or about a rank that could not be read. `rank` is -1 if there is
  // none.
  void Problem(const QString& line, int rank);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui

Q_DECLARE_METATYPE(lockstep::gui::DocumentPtr)
